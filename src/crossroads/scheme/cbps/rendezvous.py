"""The rendezvous: where subscriptions wait and events come by.

A subscription is stored and, once the copies are made, acknowledged for the part of its region that
this node owns. An event is compared with what is stored at its key; it is done when all who want it
have acknowledged. Both only for keys that this node is ready to serve (`handover`): what comes for
others is kept until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crossroads.keyspace import Arcs
from crossroads.node import Time
from crossroads.scheme.cbps import planted
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.handover import Handover
from crossroads.scheme.cbps.messages import Entry, Match, Meet, Met, Notice, Noticed, Register
from crossroads.scheme.cbps.notifier import Notifier
from crossroads.scheme.cbps.replication import Replication
from crossroads.scheme.contract import EventId, SubscriptionId

EARLY_MAX = 256  # subscriptions and events kept for keys that are on their way here


@dataclass(slots=True)
class _Meeting:
    """An event, until all who want it have it."""

    message: Meet
    part: Arcs
    touched: Time  # the publisher last asked
    waiting: set[SubscriptionId] = field(default_factory=set)
    done: set[SubscriptionId] = field(default_factory=set)


class Rendezvous:
    def __init__(
        self, core: Core, handover: Handover, replication: Replication, notifier: Notifier
    ) -> None:
        self._core = core
        self._handover = handover
        self._replication = replication
        self._notifier = notifier
        self._meetings: dict[EventId, _Meeting] = {}
        self._early: list[tuple[Register | Meet, Arcs]] = []

    # -- what came too early ---------------------------------------------------------------

    def _keep(self, message: Register | Meet, part: Arcs) -> None:
        """For keys that this node has not been handed yet; what is too much comes again."""
        if len(self._early) < EARLY_MAX and (message, part) not in self._early:
            self._early.append((message, part))

    def resume(self, now: Time) -> None:
        """A hand-over is complete."""
        early, self._early = self._early, []
        owned = self._core.overlay.owned()
        for message, part in early:
            if isinstance(message, Register):
                self.register(now, message, part & owned)
            else:
                self.meet(now, message, part & owned)

    # -- subscriptions ---------------------------------------------------------------------

    def register(self, now: Time, message: Register, part: Arcs) -> None:
        core, entry = self._core, message.entry
        known = core.store.get(entry.id) is not None
        core.store.merge((entry,))
        if core.store.get(entry.id) != entry:
            return  # an older word than the one known
        # It is held for all of this node's keys, not only for those that it was sent to.
        ready = self._handover.ready()
        if part - ready:
            self._keep(message, part - ready)
        served = entry.region & ready
        if served:
            self._replication.copy_then_acknowledge(entry, served, known=known)

    # -- events ----------------------------------------------------------------------------

    def meet(self, now: Time, message: Meet, part: Arcs) -> None:
        ready = self._handover.ready()
        if part - ready:
            self._keep(message, part - ready)
        part &= ready
        if not part:
            return
        meeting = self._meetings.get(message.event_id)
        if meeting is None:
            meeting = self._meetings[message.event_id] = _Meeting(message, part, now)
        meeting.part |= part
        meeting.touched = now
        # Found anew each time the publisher asks: those whose lease is over are waited for no more.
        found = [
            (entry, key)
            for entry, key in self._found(now, message, meeting.part)
            if entry.id not in meeting.done
        ]
        meeting.waiting = {entry.id for entry, _ in found}
        if self._core.planted(planted.PUBLISHED_BEFORE_NOTIFIED):
            self._acknowledge(meeting)
        self._notifier.notify(now, [self._match(message, entry, key) for entry, key in found])
        self._end_if_done(meeting)

    def _found(self, now: Time, message: Meet, part: Arcs) -> list[tuple[Entry, int]]:
        """Who wants it, each once, with the first key at which the two meet."""
        core = self._core
        event = core.specs.current.read(message.event)
        candidates: dict[SubscriptionId, tuple[Entry, int]] = {}
        keys = part.keys()
        for key in keys:
            for entry in core.store.at(key, now):
                candidates.setdefault(entry.id, (entry, key))
        core.evaluated += len(candidates)
        wants = core.specs.current.matches
        return [one for one in candidates.values() if wants(one[0].filter, event)]

    def _match(self, message: Meet, entry: Entry, key: int) -> Match:
        notice = Notice(
            entry.id,
            entry.version,
            entry.subscriber,
            message.event_id,
            message.event,
            self._core.address,
        )
        low, high = next(span for span in entry.region.spans if span[0] <= key < span[1])
        agent = (low + high - 1) // 2
        return Match(notice, entry.key, agent, agent > key)

    def noticed(self, now: Time, message: Noticed) -> None:
        if not message.wanted:
            until = now + self._core.config.tombstone_ms
            self._core.store.refused(message.subscription, message.version, until)
        meeting = self._meetings.get(message.event_id)
        if meeting is not None:
            meeting.done.add(message.subscription)
            meeting.waiting.discard(message.subscription)
            self._end_if_done(meeting)

    def _end_if_done(self, meeting: _Meeting) -> None:
        if not meeting.waiting:
            del self._meetings[meeting.message.event_id]
            self._acknowledge(meeting)

    def _acknowledge(self, meeting: _Meeting) -> None:
        message, epoch = meeting.message, self._core.specs.epoch
        self._core.send(message.publisher, Met(message.event_id, meeting.part, epoch))

    def forget_abandoned(self, now: Time) -> None:
        """Events whose publisher asks no more: it crashed, or left."""
        past = now - 4 * self._core.config.retry_ms_max
        for event_id in [id_ for id_, one in self._meetings.items() if one.touched < past]:
            del self._meetings[event_id]

    def gone(self) -> None:
        self._meetings.clear()
        self._early.clear()
