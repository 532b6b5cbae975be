"""Telling subscribers: at once, or in batches, or by way of an agent (CHORD 4.3.2).

- **At once**: one notification per subscriber and event, to the subscriber's key, or one m-cast to
  the keys of all.
- **Buffering**: matches are kept for a period; then all of one subscription go in one message.
- **Collecting**: events that are close to each other meet a subscription at nodes that are close to
  each other. The owner of the key in the middle of the range is the subscription's agent. Others
  pass their matches on, once per period, to the neighbour nearer the middle, those of all
  subscriptions in one message; what comes from the neighbour farther out goes along.

A match that is lost on the way is found again when the publisher asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crossroads.node import Address, Time
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import Collected, Match, Notice, Notification
from crossroads.scheme.contract import EventId, SubscriptionId


class Notifier:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._kept: dict[tuple[SubscriptionId, EventId, Address], Match] = {}

    def notify(self, now: Time, matches: Sequence[Match]) -> None:
        if not matches:
            return
        if self._core.config.buffer_ms:
            self._keep(matches)
        elif self._core.config.notify_by == "multicast":
            keys = self._core.ring.keys(match.key for match in matches)
            message = Notification(tuple(match.notice for match in matches))
            self._core.cast(now, keys, message, "multicast")
        else:
            per_subscriber: dict[int, list[Notice]] = {}
            for match in matches:
                per_subscriber.setdefault(match.key, []).append(match.notice)
            for key, notices in per_subscriber.items():
                self._core.route(now, key, Notification(tuple(notices)))

    # -- buffering -------------------------------------------------------------------------

    def _keep(self, matches: Iterable[Match]) -> None:
        if not self._kept:
            self._core.arm(("buffer",), self._core.config.buffer_ms)
        for match in matches:
            notice = match.notice
            self._kept[notice.subscription, notice.event_id, notice.rendezvous] = match

    def flush(self, now: Time) -> None:
        """The period is over."""
        core = self._core
        kept, self._kept = list(self._kept.values()), {}
        outward: dict[Address, list[Match]] = {}
        per_subscription: dict[tuple[int, SubscriptionId], list[Notice]] = {}
        for match in kept:
            beside = self._nearer_to_agent(match)
            if beside is not None:
                outward.setdefault(beside, []).append(match)
            else:
                place = (match.key, match.notice.subscription)
                per_subscription.setdefault(place, []).append(match.notice)
        for address, matches in outward.items():
            core.send(address, Collected(tuple(matches)))
        for (key, _), notices in per_subscription.items():
            core.route(now, key, Notification(tuple(notices)))

    # -- collecting ------------------------------------------------------------------------

    def collected(self, message: Collected) -> None:
        self._keep(message.matches)

    def _nearer_to_agent(self, match: Match) -> Address | None:
        """None: this node is the agent, or has nobody to pass it on to."""
        core = self._core
        owned = core.overlay.owned()
        if not core.config.collect or not owned or match.agent in owned:
            return None
        # On a ring the first neighbour is the one before; the first replica the one after.
        beside = core.overlay.replicas(1) if match.up else core.overlay.neighbours()
        return beside[0] if beside else None

    def gone(self) -> None:
        self._kept.clear()
