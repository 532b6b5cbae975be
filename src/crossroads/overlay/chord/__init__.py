"""Chord, corrected (ERRATA 4): a ring of members that share the keys of a circle.

`node` the overlay · `membership` coming and going · `upkeep` stabilise and rectify · `questions`
one at a time · `carrying` payloads and lookups · `state` what a member knows · `routing`, `mcast`,
`unicast` where payloads go (pure) · `fingers` · `invariant` · `build` rings at once · `config`,
`faults`, `planted`
"""

from crossroads.overlay.chord.build import converged, founding_ring
from crossroads.overlay.chord.config import AS_IN_CHORD, ChordConfig
from crossroads.overlay.chord.faults import fault_contract
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.node import Chord

__all__ = [
    "AS_IN_CHORD",
    "Chord",
    "ChordConfig",
    "Peer",
    "converged",
    "fault_contract",
    "founding_ring",
]
