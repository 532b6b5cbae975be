"""Keys and regions of keys, whole numbers only, one module per kind.

`ranges` runs of keys · `ring` arcs of a circle of keys · `prefixes` strings of bits and zones
"""

from crossroads.keyspace.prefixes import (
    Prefix,
    designated,
    in_zone,
    meets,
    newcomer,
    prefixes_of_range,
    zone,
)
from crossroads.keyspace.ranges import KeyRange
from crossroads.keyspace.ring import Arcs, Ring

__all__ = [
    "Arcs",
    "KeyRange",
    "Prefix",
    "Ring",
    "designated",
    "in_zone",
    "meets",
    "newcomer",
    "prefixes_of_range",
    "zone",
]
