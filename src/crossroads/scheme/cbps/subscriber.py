"""The subscriber's side: what this node asked for (what it is notified of: `inbox`).

A subscription is registered with every owner of its region, and is `Subscribed` once the parts that
they acknowledged cover all of it and this node's own disk has it. Parts that stay silent are asked
again. While the node is up it renews its subscriptions; an owner that hears nothing for
`absence_ms` takes the subscriber for dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from crossroads.errors import FilterError
from crossroads.keyspace import Arcs
from crossroads.node import Time
from crossroads.scheme.cbps import planted
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import Entry, Register, Registered
from crossroads.scheme.contract import (
    Refused,
    Subscribe,
    Subscribed,
    SubscriptionId,
    Unsubscribed,
)

_SUBSCRIPTION = "subscription/"

_Record = tuple[str, str, int | None]  # id, filter, end of the lease


@dataclass(slots=True)
class Wish:
    id: SubscriptionId
    filter: str
    region: Arcs
    ends: Time | None
    entry: Entry | None = None  # as registered last
    covered: Arcs | None = None  # the part of its region that is acknowledged
    wait: Time = 0  # until it is sent again
    durable: bool = False
    answered: bool = False  # the application knows that it is in force, or has ended
    withdrawn: bool = False


class Subscriber:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.wishes: dict[SubscriptionId, Wish] = {}

    # -- the beginning, and the end --------------------------------------------------------

    def start(self, now: Time, records: Mapping[str, bytes]) -> None:
        """What the disk knows: the subscriptions of a former life."""
        core = self._core
        for name, record in sorted(records.items()):
            if name.startswith(_SUBSCRIPTION):
                id_, filter_, ends = msgspec.msgpack.decode(record, type=_Record)
                region = core.specs.region(filter_, core.config.root_key)
                self.wishes[id_] = Wish(id_, filter_, region, ends, durable=True)
                if ends is not None:
                    core.arm(("lease", id_), ends - now)

    def joined(self, now: Time) -> None:
        for wish in list(self.wishes.values()):
            self._register(now, wish)

    def gone(self) -> None:
        """No member any more: with the membership its subscriptions end."""
        core = self._core
        if self.wishes:
            core.persist({_SUBSCRIPTION + id_: None for id_ in self.wishes})
        for id_ in self.wishes:
            self._disarm(id_)
        self.wishes.clear()

    # -- commands --------------------------------------------------------------------------

    def subscribe(self, now: Time, command: Subscribe) -> None:
        core, known = self._core, self.wishes.get(command.id)
        try:
            region = core.specs.region(command.filter, core.config.root_key)
        except FilterError as error:
            core.deliver(Refused(command.id, str(error)))
            return
        if known is not None and known.filter != command.filter:
            core.deliver(Refused(command.id, "another filter has this id: withdraw it first"))
            return
        ends = None if command.lease is None else now + command.lease
        wish = Wish(command.id, command.filter, region, ends)
        if known is not None:
            wish.entry = known.entry  # its version is the one to exceed
        self.wishes[wish.id] = wish
        record: bytes | None = msgspec.msgpack.encode((wish.id, wish.filter, wish.ends))
        if core.planted(planted.NOT_DURABLE):
            record = None
        core.persist({_SUBSCRIPTION + wish.id: record}, lambda now: self._is_durable(now, wish))
        if ends is None:
            core.disarm(("lease", wish.id))
        else:
            core.arm(("lease", wish.id), ends - now)
        self._register(now, wish)

    def unsubscribe(self, now: Time, id_: SubscriptionId) -> None:
        wish = self.wishes.get(id_)
        if wish is None:
            self._core.deliver(Unsubscribed(id_))
        else:
            self._withdraw(now, wish)

    def wants(self, id_: SubscriptionId) -> bool:
        wish = self.wishes.get(id_)
        return wish is not None and not wish.withdrawn

    def withdraw_all(self, now: Time) -> None:
        for wish in list(self.wishes.values()):
            self._withdraw(now, wish)

    def _withdraw(self, now: Time, wish: Wish) -> None:
        if wish.withdrawn:
            return
        wish.withdrawn, wish.answered, wish.durable = True, False, False
        record: dict[str, bytes | None] = {_SUBSCRIPTION + wish.id: None}
        self._core.persist(record, lambda now: self._is_durable(now, wish))
        self._register(now, wish)

    # -- registering -----------------------------------------------------------------------

    def _register(self, now: Time, wish: Wish) -> None:
        """Under a new version, with every owner of the region."""
        core = self._core
        # Time goes on over crashes, so a later word has a higher version without a record of it.
        version = now if wish.entry is None else max(now, wish.entry.version + 1)
        wish.entry = Entry(
            wish.id,
            version,
            core.address,
            core.key,
            wish.filter,
            wish.region,
            self._until(now, wish),
            wish.withdrawn,
        )
        wish.covered, wish.wait = core.ring.empty, core.config.retry_ms
        self._send(now, wish)

    def _until(self, now: Time, wish: Wish) -> Time | None:
        config = self._core.config
        absence = None if config.absence_ms is None else now + config.absence_ms
        if wish.withdrawn and absence is None:
            return now + config.tombstone_ms
        return min((at for at in (wish.ends, absence) if at is not None), default=None)

    def _send(self, now: Time, wish: Wish) -> None:
        core, entry, covered = self._core, wish.entry, wish.covered
        assert entry is not None and covered is not None
        left = self._needed(wish) - covered
        if not left:
            self._covered(now, wish)
        elif core.member:
            core.cast(now, left, Register(entry), core.config.subscribe_by)
            core.arm(("register", wish.id), core.about(wish.wait))
            wish.wait = min(2 * wish.wait, core.config.retry_ms_max)

    def _needed(self, wish: Wish) -> Arcs:
        """The part of its region that has to be acknowledged."""
        return self._core.visited(wish.region, self._core.config.subscribe_by)

    def due(self, now: Time, id_: SubscriptionId) -> None:
        """No word from some owners: once more to them."""
        if (wish := self.wishes.get(id_)) is not None and wish.entry is not None:
            self._send(now, wish)

    def registered(self, now: Time, message: Registered) -> None:
        wish = self.wishes.get(message.id)
        if wish is None or wish.entry is None or wish.entry.version != message.version:
            return
        assert wish.covered is not None
        wish.covered |= message.part
        if not self._needed(wish) - wish.covered:
            self._core.disarm(("register", wish.id))
            self._covered(now, wish)

    def _is_durable(self, now: Time, wish: Wish) -> None:
        wish.durable = True
        if self.wishes.get(wish.id) is wish:
            self._answer(now, wish)

    def _covered(self, now: Time, wish: Wish) -> None:
        core, absence = self._core, self._core.config.absence_ms
        self._answer(now, wish)
        if absence is not None and not wish.withdrawn:
            core.arm(("renew", wish.id), core.about(absence // 3))

    def _answer(self, now: Time, wish: Wish) -> None:
        core = self._core
        covered = wish.covered is not None and not self._needed(wish) - wish.covered
        if wish.answered or not wish.durable or not covered:
            return
        wish.answered = True
        if wish.withdrawn:
            self._disarm(wish.id)
            del self.wishes[wish.id]
            core.deliver(Unsubscribed(wish.id))
        else:
            core.deliver(Subscribed(wish.id))

    def renew(self, now: Time, id_: SubscriptionId) -> None:
        wish = self.wishes.get(id_)
        if wish is not None and self._core.member and not wish.withdrawn:
            self._register(now, wish)

    def moved(self, now: Time) -> None:
        """The mappings in service have changed: subscriptions stand elsewhere now."""
        core = self._core
        for wish in list(self.wishes.values()):
            before = wish.region
            wish.region = core.specs.region(wish.filter, core.config.root_key)
            self._register(now, wish)
            if wish.entry is not None and core.member:  # where it stands no longer: forget it
                left = before - wish.region
                core.cast(now, left, Register(wish.entry), core.config.subscribe_by)

    def lease_over(self, now: Time, id_: SubscriptionId) -> None:
        """The owners forget it by themselves."""
        wish = self.wishes.pop(id_, None)
        if wish is not None:
            self._core.persist({_SUBSCRIPTION + id_: None})
            self._disarm(id_)
            self._core.deliver(Unsubscribed(id_))

    def _disarm(self, id_: SubscriptionId) -> None:
        for timer in ("register", "renew", "lease"):
            self._core.disarm((timer, id_))
