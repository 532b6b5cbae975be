"""The knobs of CB-pub/sub. Every one has a reason, a unit and a preset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from crossroads.node import Time
from crossroads.scheme.cbps.planted import ALL

Way = Literal["multicast", "walk", "spread"]  # m-cast, conservative unicast, aggressive unicast


@dataclass(frozen=True, slots=True, kw_only=True)
class CbpsConfig:
    # -- who holds a subscription ----------------------------------------------------------
    copies: int = 3  # the owner's and copies - 1 of its neighbours': rides out so many crashes
    sources_max: int = 8  # neighbours that a new owner asks for subscriptions; all, if it has fewer
    compare_every_ms: Time = 1_000  # owner and copies compare: finds one that lost its memory
    settle_ms: Time = 4_000  # after a crash, until whoever the dead one took in has shown up
    root_key: int = 0  # what the mapping cannot place stands here
    visit_root: bool = True  # False only where no subscription can be at the root

    # -- leases ----------------------------------------------------------------------------
    # A subscriber is believed to be there for so long after its last word, and renews in thirds.
    # None: no renewals, and a subscription without a lease outlives its subscriber.
    absence_ms: Time | None = 60_000
    tombstone_ms: Time = 60_000  # a withdrawn one is remembered, or a late copy would revive it
    remember_ms: Time = 3_600_000  # what was notified, so as not to do it twice

    # -- sending ---------------------------------------------------------------------------
    subscribe_by: Way = "multicast"
    publish_by: Way = "multicast"
    notify_by: Literal["unicast", "multicast"] = "unicast"
    retry_ms: Time = 1_500  # above the time for a way there, copies made, and a way back
    retry_ms_max: Time = 6_000  # each wait is twice the one before, up to this
    pull_retry_ms: Time = 400  # above the slowest round trip
    pull_tries: int = 3  # to one that is no neighbour (it left), before doing without it
    leave_within_ms: Time = 5_000  # for withdrawing, and then again for handing over

    # -- notifications (CHORD 4.3.2) -------------------------------------------------------
    buffer_ms: Time = 0  # collect matches for so long, then one message per subscription; 0: don't
    collect: bool = False  # with a buffer: pass matches on to the middle of the range first

    planted: frozenset[str] = field(default_factory=frozenset)  # test-only, see `planted`

    def __post_init__(self) -> None:
        assert self.copies >= 1 and self.retry_ms > 0 and self.planted <= ALL, self
        assert self.buffer_ms or not self.collect, "collecting needs a period: buffer_ms"


# CHORD's own setting: no copies, no renewals, subscriptions end with their lease.
AS_IN_CHORD = CbpsConfig(copies=1, absence_ms=None, settle_ms=0, visit_root=False)
