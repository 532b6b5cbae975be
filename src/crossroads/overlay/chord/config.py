"""The knobs of Chord. Every one has a reason, a unit and a preset."""

from __future__ import annotations

from dataclasses import dataclass, field

from crossroads.keyspace import Ring
from crossroads.node import Time
from crossroads.overlay.chord.planted import ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class ChordConfig:
    bits: int = 32  # keys are 0 … 2^bits - 1; the document's ring has 13
    successors: int = 4  # r: rides out r - 1 failures of neighbours before repair; at least 2
    stabilise_every_ms: Time = 500  # on average; a neighbour's failure is noticed within two
    fingers_every_ms: Time = 500  # one finger renewed each; failures beyond neighbours heal so
    answer_within_ms: Time = 300  # above the slowest round trip, or the living are taken for dead
    ask_times: int = 3  # a member silent so many times is gone; more rides out more loss
    busy_retry_ms: Time = 60  # a busy member is asked again after about a round trip
    join_rounds_max: int = 30  # lookups before a newcomer gives up: half a minute if all are lost
    leave_rounds_max: int = 8  # tries to leave in good order before leaving anyway
    probe_after_ms: Time = 2_000  # a next hop not heard of for so long is pinged when used
    cache_size: int = 0  # members remembered from traffic, beside the fingers; 0: plain Chord
    planted: frozenset[str] = field(default_factory=frozenset)  # test-only, see `planted`

    def __post_init__(self) -> None:
        assert self.bits >= 1 and self.successors >= 2 and self.ask_times >= 1, self
        assert self.cache_size >= 0 and self.planted <= ALL, self

    @property
    def ring(self) -> Ring:
        return Ring(self.bits)

    @property
    def silence_ms(self) -> Time:
        """How long a member may be silent before it counts as gone."""
        return self.answer_within_ms * self.ask_times

    @property
    def hops_max(self) -> int:
        """A payload with more hops is lost in a ring that is not whole: it stops there."""
        return 64 + 8 * self.bits


# CHORD's setting: keys of 13 bits, and a cache of four members per finger, which gives the 2.5 hops
# between two random members of 500 that it reports (plain Chord: 4.4).
AS_IN_CHORD = ChordConfig(bits=13, cache_size=52)
