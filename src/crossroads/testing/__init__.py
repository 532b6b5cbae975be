"""What others need to test their own parts against ours: strategies for schemas, events, filters,
and the contract of a mapping.

Needs hypothesis, which the package itself does not: install it beside crossroads.
"""

from crossroads.testing.mappings import check_mapping

__all__ = ["check_mapping"]
