"""What this node was notified of: told once, and acknowledged when it cannot be forgotten.

A notification is told to the application, then made durable, then acknowledged. So one that was
acknowledged has been told, and is never told twice; a crash in between lets the next life tell it
again, because nobody can know whether the application heard it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from crossroads.node import Address, Time
from crossroads.scheme.cbps import planted
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import Notice, Noticed, Notification
from crossroads.scheme.contract import EventId, Notified, SubscriptionId

_RECORD = "notified/"
_Record = tuple[str, str, int]  # subscription, event, when


@dataclass(slots=True)
class Told:
    at: Time
    durable: bool
    waiting: list[tuple[Address, Noticed]] = field(default_factory=list)  # to be acknowledged


class Inbox:
    def __init__(self, core: Core, wants: Callable[[SubscriptionId], bool]) -> None:
        """`wants`: has this node a subscription of that id?"""
        self._core = core
        self._wants = wants
        self._told: dict[tuple[SubscriptionId, EventId], Told] = {}

    def start(self, records: Mapping[str, bytes]) -> None:
        for name, record in records.items():
            if name.startswith(_RECORD):
                id_, event_id, at = msgspec.msgpack.decode(record, type=_Record)
                self._told[id_, event_id] = Told(at, durable=True)
        self._core.arm(("forget",), self._core.config.remember_ms // 4)

    def notified(self, now: Time, message: Notification) -> None:
        core = self._core
        for notice in message.notices:
            if notice.subscriber == core.address:
                self._noticed(now, notice)
            elif core.planted(planted.ANYONE_ACCEPTS):
                core.send(notice.rendezvous, _acknowledgement(notice, wanted=True))
            # Else it is for one who is absent, and whose key fell to this node: it will be sent
            # again, until the subscriber is back or given up.

    def _noticed(self, now: Time, notice: Notice) -> None:
        core = self._core
        told = self._told.get((notice.subscription, notice.event_id))
        if told is not None and not core.planted(planted.NO_DEDUPLICATION):
            answer = (notice.rendezvous, _acknowledgement(notice, wanted=True))
            if told.durable:
                core.send(*answer)
            elif answer not in told.waiting:
                told.waiting.append(answer)
        elif not self._wants(notice.subscription):
            core.send(notice.rendezvous, _acknowledgement(notice, wanted=False))
        else:
            self._tell(now, notice)

    def _tell(self, now: Time, notice: Notice) -> None:
        core, id_, event_id = self._core, notice.subscription, notice.event_id
        answer = (notice.rendezvous, _acknowledgement(notice, wanted=True))
        told = self._told[id_, event_id] = Told(now, durable=False, waiting=[answer])
        core.deliver(Notified(id_, event_id, core.specs.current.read(notice.event)))
        record = msgspec.msgpack.encode((id_, event_id, now))

        def acknowledge(now: Time) -> None:
            told.durable = True
            for to, message in told.waiting:
                core.send(to, message)
            told.waiting.clear()

        core.persist({_record_name(id_, event_id): record}, acknowledge)

    def forget(self, now: Time) -> None:
        """What is too old to come again."""
        core = self._core
        past = now - core.config.remember_ms
        old = [pair for pair, told in self._told.items() if told.durable and told.at < past]
        for pair in old:
            del self._told[pair]
        if old:
            core.persist({_record_name(*pair): None for pair in old})
        core.arm(("forget",), core.config.remember_ms // 4)


def _acknowledgement(notice: Notice, *, wanted: bool) -> Noticed:
    return Noticed(notice.event_id, notice.subscription, notice.version, wanted)


def _record_name(id_: SubscriptionId, event_id: EventId) -> str:
    # With the length of the first, no two pairs have the same name.
    return f"{_RECORD}{len(id_)}/{id_}/{event_id}"
