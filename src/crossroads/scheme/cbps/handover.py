"""Hand-over: whoever comes to own keys first gets their subscriptions, then serves them.

A region that was gained is **pulled**: from the node it was taken from, if there is one, and from
the next members, who hold copies. The node is *ready* for it when all of them have answered; one
that has gone meanwhile, in the overlay's eyes, is not waited for. Asking everyone and not only the
former owner makes joining, leaving and crashing the same case: if the former owner crashed, or had
not got its own region yet, the copies are with the others.

After a crash there is one more thing to wait for. The dead member may just have taken in a newcomer
that the new owner has not heard of: for a moment both own the newcomer's keys. What the one
acknowledged, the other would not know: the newcomer's copies may be with those that died. So a
region that was gained by a crash is not ready before such a newcomer must have shown up
(`settle_ms`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crossroads.keyspace import Arcs
from crossroads.node import Address, Time
from crossroads.scheme.cbps import planted
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import Pull, Pulled


@dataclass(slots=True)
class _Gain:
    """A region that is not ready yet."""

    number: int
    region: Arcs
    taken_from: Address | None
    not_before: Time
    tries: int = 0
    answered: set[Address] = field(default_factory=set)


class Handover:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._gains: list[_Gain] = []
        self._owned_before = False
        self._news = False

    # -- what may be served ----------------------------------------------------------------

    def ready(self) -> Arcs:
        region = self._core.overlay.owned()
        for gain in self._gains:
            region -= gain.region
        return region

    @property
    def complete(self) -> bool:
        return not self._gains

    def has_news(self) -> bool:
        """Has a region become ready since this was last asked?"""
        news, self._news = self._news, False
        return news

    # -- changes of hands ------------------------------------------------------------------

    def gained(self, now: Time, region: Arcs, taken_from: Address | None) -> None:
        core, founding = self._core, taken_from is None and not self._owned_before
        self._owned_before = True
        if founding:
            return  # nobody had these keys before
        settled = now if taken_from is not None else now + core.config.settle_ms
        if not core.planted(planted.NO_HANDOVER):
            self._gains.append(_Gain(core.number(), region, taken_from, settled))
            self._advance(now, ask=True)

    def lost(self, region: Arcs) -> None:
        for gain in self._gains:
            gain.region -= region
        self._gains = [gain for gain in self._gains if gain.region]

    def neighbours_changed(self, now: Time) -> None:
        """Some need not be waited for any more, others have to be asked."""
        if self._gains:
            self._advance(now, ask=True)

    def due(self, now: Time) -> None:
        if self._gains:
            self._advance(now, ask=True)

    def _advance(self, now: Time, *, ask: bool) -> None:
        core = self._core
        for gain in list(self._gains):
            missing = [one for one in self._sources(gain) if one not in gain.answered]
            if not missing and gain.not_before <= now:
                self._gains.remove(gain)
                self._news = True
            elif ask:
                gain.tries += 1
                for source in missing:
                    core.send(source, Pull(gain.number, gain.region))
        if self._gains and ask:
            core.arm(("pull",), core.config.pull_retry_ms)
        elif not self._gains:
            core.disarm(("pull",))

    def _sources(self, gain: _Gain) -> list[Address]:
        core = self._core
        sources = list(core.overlay.replicas(core.config.sources_max))
        former = gain.taken_from
        if former is not None and former not in sources and gain.tries < core.config.pull_tries:
            sources.append(former)  # it left: it may be asked, but not for ever
        return sources

    # -- messages --------------------------------------------------------------------------

    def pull(self, now: Time, sender: Address, message: Pull) -> None:
        entries = self._core.store.in_region(message.region, now)
        if self._core.planted(planted.HANDOVER_FORGETS_ONE) and entries:
            entries.remove(min(entries, key=lambda entry: entry.id))
        self._core.send(sender, Pulled(message.number, tuple(entries)))

    def pulled(self, now: Time, sender: Address, message: Pulled) -> None:
        self._core.store.merge(message.entries)
        for gain in self._gains:
            if gain.number == message.number:
                gain.answered.add(sender)
        self._advance(now, ask=False)

    def gone(self) -> None:
        self._gains.clear()
        self._owned_before = False
        self._core.disarm(("pull",))
