"""The publisher's side: events are sent until every owner of one of their keys is done with them.

An owner is done when every subscriber that it found has acknowledged. Nothing about an event has to
survive at an owner: if it crashes, the publisher sends the event again, to whoever owns the key
then.
"""

from __future__ import annotations

from dataclasses import dataclass

from crossroads.errors import EventError
from crossroads.keyspace import Arcs
from crossroads.matching.definition import Event
from crossroads.node import Time
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import Meet, Met
from crossroads.scheme.contract import EventId, Publish, Published, Refused


@dataclass(slots=True)
class _Pending:
    event: Event
    message: Meet
    left: Arcs  # keys whose owners are not done
    wait: Time


class Publisher:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._pending: dict[EventId, _Pending] = {}

    def publish(self, now: Time, command: Publish) -> None:
        core = self._core
        try:
            event = core.specs.current.event(command.event)
        except EventError as error:
            core.deliver(Refused(command.id, str(error)))
            return
        message = Meet(command.id, core.specs.current.written(event), core.address)
        pending = _Pending(event, message, self._keys(event), core.config.retry_ms)
        self._pending[command.id] = pending
        self._send(now, pending)

    def _keys(self, event: Event) -> Arcs:
        config = self._core.config
        return self._core.specs.keys(event, config.root_key if config.visit_root else None)

    def _send(self, now: Time, pending: _Pending) -> None:
        core = self._core
        core.arm(("publish", pending.message.event_id), core.about(pending.wait))
        pending.wait = min(2 * pending.wait, core.config.retry_ms_max)
        core.cast(now, pending.left, pending.message, core.config.publish_by)

    def due(self, now: Time, event_id: EventId) -> None:
        if (pending := self._pending.get(event_id)) is not None:
            self._send(now, pending)

    def met(self, now: Time, message: Met) -> None:
        pending = self._pending.get(message.event_id)
        if pending is None:
            return
        pending.left -= message.part
        if not pending.left:
            del self._pending[message.event_id]
            self._core.disarm(("publish", message.event_id))
            self._core.deliver(Published(message.event_id))

    def moved(self, now: Time) -> None:
        """The mappings in service have changed: events under way visit the new keys as well."""
        for pending in self._pending.values():
            pending.left |= self._keys(pending.event)

    def gone(self) -> None:
        for event_id in self._pending:
            self._core.disarm(("publish", event_id))
        self._pending.clear()
