"""Copies: a subscription is held by the owner of its key and by the next `copies - 1` members.

They are made before a subscription is acknowledged. If a neighbour does not confirm, nothing is
acknowledged; the subscriber asks again, and by then the neighbours are perhaps others. **Repair**
is a comparison: now and then, and whenever its neighbours change, an owner sends each of them a
digest of its region; one that has something else says what it has, and the two exchange what
either lacks. So newcomers are brought up to date, and nodes that crashed and came back.
"""

from __future__ import annotations

from dataclasses import dataclass

from crossroads.keyspace import Arcs
from crossroads.node import Address, Time
from crossroads.scheme.cbps import planted
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import (
    Compare,
    Copied,
    Copy,
    Entry,
    Holdings,
    Registered,
    Want,
)
from crossroads.scheme.cbps.store import rank
from crossroads.scheme.contract import SubscriptionId


@dataclass(slots=True)
class _Copying:
    number: int
    missing: set[Address]
    to: Address
    answer: Registered


class Replication:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._copying: dict[SubscriptionId, _Copying] = {}

    def holders(self) -> tuple[Address, ...]:
        """Who should hold copies of this node's region."""
        others = self._core.config.copies - 1
        if self._core.planted(planted.LOST_REPLICA):
            others = min(others, 1)
        return self._core.overlay.replicas(others)

    # -- before an acknowledgement ---------------------------------------------------------

    def copy_then_acknowledge(self, entry: Entry, part: Arcs, *, known: bool) -> None:
        """`known`: an earlier version of it was here already."""
        core, holders = self._core, self.holders()
        if core.planted(planted.ACKNOWLEDGE_BEFORE_COPIES) or (
            known and core.planted(planted.NO_REPAIR)
        ):
            holders = ()
        answer = Registered(entry.id, entry.version, part, core.specs.epoch)
        number = core.number()
        for holder in holders:
            core.send(holder, Copy(number, (entry,)))
        if not holders:
            core.send(entry.subscriber, answer)
        else:
            self._copying[entry.id] = _Copying(number, set(holders), entry.subscriber, answer)

    def copy(self, sender: Address, message: Copy) -> None:
        self._core.store.merge(message.entries)
        if message.number:
            self._core.send(sender, Copied(message.number))

    def copied(self, sender: Address, message: Copied) -> None:
        for id_, copying in self._copying.items():
            if copying.number == message.number:
                copying.missing.discard(sender)
                if not copying.missing:
                    del self._copying[id_]
                    self._core.send(copying.to, copying.answer)
                return

    # -- repair ----------------------------------------------------------------------------

    def arm(self, after: Time) -> None:
        self._core.arm(("compare",), after)

    def compare(self, now: Time) -> None:
        core = self._core
        self.arm(core.about(core.config.compare_every_ms))
        core.store.forget_ended(now)
        # What is not ready yet as well: comparing can do no harm, and copies are made the sooner.
        region = core.overlay.owned()
        if not region or core.planted(planted.NO_REPAIR):
            return
        message = Compare(region, core.store.digest(region, now), core.specs.epoch)
        for holder in self.holders():
            core.send(holder, message)

    def compared(self, now: Time, sender: Address, message: Compare) -> None:
        store = self._core.store
        if store.digest(message.region, now) != message.digest:
            ranks = store.ranks(message.region, now)
            self._core.send(sender, Holdings(message.region, ranks))

    def holdings(self, now: Time, sender: Address, message: Holdings) -> None:
        core, theirs = self._core, message.ranks
        ours = core.store.ranks(message.region, now)
        for id_ in theirs:  # a later version may stand elsewhere: they should know that, too
            if (known := core.store.get(id_)) is not None:
                ours[id_] = rank(known)
        newer = [id_ for id_, one in ours.items() if one > theirs.get(id_, -1)]
        older = tuple(id_ for id_, one in theirs.items() if one > ours.get(id_, -1))
        if newer:
            self._send_entries(sender, newer)
        if core.planted(planted.HANDOVER_FORGETS_ONE):
            older = older[1:]
        if older and not core.planted(planted.NO_HANDOVER):
            core.send(sender, Want(older))

    def wanted(self, sender: Address, message: Want) -> None:
        self._send_entries(sender, message.ids)

    def _send_entries(self, to: Address, ids: list[SubscriptionId] | tuple[str, ...]) -> None:
        found = (self._core.store.get(id_) for id_ in ids)
        entries = tuple(entry for entry in found if entry is not None)
        self._core.send(to, Copy(0, entries))

    def gone(self) -> None:
        self._copying.clear()
        self._core.disarm(("compare",))
