"""CB-pub/sub (CHORD 4): content-based publish/subscribe over any ring overlay and any mapping."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from crossroads.faults import FaultContract
from crossroads.keyspace import Arcs
from crossroads.node import Address, Command, Dice, Log, Message, Time, Timer
from crossroads.overlay.contract import (
    Arrived,
    Joined,
    Left,
    Output,
    Overlay,
    OwnedChanged,
    Upcall,
)
from crossroads.scheme.cbps import messages as m
from crossroads.scheme.cbps.config import CbpsConfig
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.faults import WORDS, fault_contract
from crossroads.scheme.cbps.handover import Handover
from crossroads.scheme.cbps.inbox import Inbox
from crossroads.scheme.cbps.notifier import Notifier
from crossroads.scheme.cbps.publisher import Publisher
from crossroads.scheme.cbps.remapping import Remap, Remapping
from crossroads.scheme.cbps.rendezvous import Rendezvous
from crossroads.scheme.cbps.replication import Replication
from crossroads.scheme.cbps.specs import Specs
from crossroads.scheme.cbps.subscriber import Subscriber
from crossroads.scheme.cbps.vocabulary import Vocabulary
from crossroads.scheme.contract import (
    Gone,
    Join,
    Leave,
    Member,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
)
from crossroads.scheme.stack import Layer


class Phase(Enum):
    OUTSIDE = "outside"  # no member, or on its way in
    MEMBER = "member"
    WITHDRAWING = "withdrawing"  # told to leave: its subscriptions are withdrawn first
    LEAVING = "leaving"  # the overlay is leaving
    HANDING_OVER = "handing over"  # no member any more; the new owner may ask for its keys


class Cbps(Layer):
    name = "cbps"
    faults = WORDS

    def __init__(
        self,
        overlay: Overlay[int, Arcs],
        key: int,
        vocabulary: Vocabulary,
        config: CbpsConfig,
        dice: Dice,
    ) -> None:
        """`key`: of this node; the overlay makes it the owner of that key."""
        self.fault_contract: FaultContract = fault_contract(overlay.fault_contract, config)
        self.phase = Phase.OUTSIDE
        self.core = Core(overlay, key, Specs(vocabulary), config, dice)
        self.handover = Handover(self.core)
        self.replication = Replication(self.core)
        self.notifier = Notifier(self.core)
        self.rendezvous = Rendezvous(self.core, self.handover, self.replication, self.notifier)
        self.subscriber = Subscriber(self.core)
        self.inbox = Inbox(self.core, self.subscriber.wants)
        self.publisher = Publisher(self.core)
        self.remapping = Remapping(self.core, self.subscriber, self.publisher)
        self.now: Time = 0  # of the last input
        self._reason = ""
        self._left_behind = self.core.ring.empty  # the region of one that left, until asked for

    def stored(self) -> int:
        """For its own keys; copies of others' are not counted."""
        return self.core.store.in_force(self.core.overlay.owned(), self.now)

    def evaluated(self) -> int:
        return self.core.evaluated

    # -- inputs ----------------------------------------------------------------------------

    def start(self, now: Time, records: Mapping[str, bytes]) -> list[Output]:
        self.now = now
        self.subscriber.start(now, records)
        self.inbox.start(records)
        return self.core.taken()

    def command(self, now: Time, command: Command) -> list[Output]:
        self.now = now
        match command:
            case Join(contact) if self.phase is Phase.OUTSIDE:
                self.core.out += self.core.overlay.join(now, contact)
            case Leave():
                self._leave(now)
            case Subscribe(id_) | Unsubscribe(id_) | Publish(id_) if self.phase is not Phase.MEMBER:
                self.core.deliver(Refused(id_, f"this node is {self.phase.value}, no member"))
            case Subscribe():
                self.subscriber.subscribe(now, command)
            case Unsubscribe(id_):
                self.subscriber.unsubscribe(now, id_)
            case Publish():
                self.publisher.publish(now, command)
            case Remap() if self.phase is Phase.MEMBER:
                self.remapping.announce(now, command)
            case Join() | Remap():
                text = f"this node is {self.phase.value}: {type(command).__name__} means nothing"
                self.core.out.append(Log(text))
            case _:
                raise AssertionError(f"no command of this scheme: {command!r}")
        return self.core.taken()

    def receive(self, now: Time, sender: Address, message: Message) -> list[Output]:
        self.now = now
        match message:
            case m.Registered() | m.Met() if self.remapping.is_behind(sender, message.epoch):
                pass  # it is asked for again
            case m.Registered():
                self.subscriber.registered(now, message)
                self._leave_when_withdrawn(now)
            case m.Met():
                self.publisher.met(now, message)
            case m.Noticed():
                self.rendezvous.noticed(now, message)
            case m.Copy():
                self.replication.copy(sender, message)
            case m.Copied():
                self.replication.copied(sender, message)
            case m.Compare():
                self.remapping.compared(sender, message)
                self.replication.compared(now, sender, message)
            case m.Holdings():
                self.replication.holdings(now, sender, message)
            case m.Want():
                self.replication.wanted(sender, message)
            case m.Pull():
                self.handover.pull(now, sender, message)
                self._hand_over(now, message.region)
            case m.Pulled():
                self.handover.pulled(now, sender, message)
                self._resume_when_ready(now)
            case m.Collected():
                self.notifier.collected(message)
            case m.Remapped():
                self.remapping.heard(now, message)
            case _:
                raise AssertionError(f"no message of this scheme: {message!r}")
        return self.core.taken()

    def fired(self, now: Time, timer: Timer) -> list[Output]:
        self.now = now
        match timer[1:]:
            case ("register", str(id_)):
                self.subscriber.due(now, id_)
            case ("renew", str(id_)):
                self.subscriber.renew(now, id_)
            case ("lease", str(id_)):
                self.subscriber.lease_over(now, id_)
                self._leave_when_withdrawn(now)
            case ("forget",):
                self.inbox.forget(now)
            case ("publish", str(id_)):
                self.publisher.due(now, id_)
            case ("pull",):
                self.handover.due(now)
                self._resume_when_ready(now)
            case ("compare",):
                self.replication.compare(now)
                self.rendezvous.forget_abandoned(now)
            case ("buffer",):
                self.notifier.flush(now)
            case ("overlap",):
                self.remapping.overlap_over(now)
            case ("leave",):
                self._leave_due(now)
            case _:
                raise AssertionError(f"no timer of this scheme: {timer}")
        return self.core.taken()

    def persisted(self, now: Time, token: int) -> list[Output]:
        self.now = now
        self.core.persisted(now, token)
        self._leave_when_withdrawn(now)
        return self.core.taken()

    # -- upcalls ---------------------------------------------------------------------------

    def told(self, now: Time, upcall: Upcall) -> list[Output]:
        self.now = now
        match upcall:
            case Arrived():
                self._arrived(now, upcall)
            case OwnedChanged():
                self._owned_changed(now, upcall)
            case Joined():
                self.phase, self.core.member = Phase.MEMBER, True
                self.core.deliver(Member())
                self.replication.arm(self.core.about(self.core.config.compare_every_ms))
                self.subscriber.joined(now)
            case Left(reason):
                self._left(now, reason)
        return self.core.taken()

    def _arrived(self, now: Time, upcall: Arrived) -> None:
        part = upcall.region
        assert isinstance(part, Arcs)
        match upcall.payload:
            case m.Register() as message:
                self.rendezvous.register(now, message, part)
            case m.Meet() as message:
                self.rendezvous.meet(now, message, part)
            case m.Notification() as message:
                self.inbox.notified(now, message)
            case m.Remapped() as message:
                self.remapping.heard(now, message)
            case other:
                raise AssertionError(f"no payload of this scheme: {other!r}")

    def _owned_changed(self, now: Time, upcall: OwnedChanged) -> None:
        if isinstance(upcall.lost, Arcs):
            self.handover.lost(upcall.lost)
            if upcall.given_to is not None and self.phase is Phase.LEAVING:
                self._left_behind |= upcall.lost
        if isinstance(upcall.gained, Arcs):
            self.handover.gained(now, upcall.gained, upcall.taken_from)
        else:
            self.handover.neighbours_changed(now)
        self._resume_when_ready(now)
        if self.core.member:
            self.replication.arm(0)  # bring whoever is new up to date

    def _resume_when_ready(self, now: Time) -> None:
        if self.handover.has_news():
            self.rendezvous.resume(now)
            self.replication.arm(0)  # and copies of it are made at once

    # -- leaving ---------------------------------------------------------------------------

    def _leave(self, now: Time) -> None:
        if self.phase is Phase.OUTSIDE:
            self.core.out += self.core.overlay.leave(now)  # it may be on its way in
        elif self.phase is Phase.MEMBER:
            self.phase = Phase.WITHDRAWING
            self.publisher.gone()
            self.subscriber.withdraw_all(now)
            self.core.arm(("leave",), self.core.config.leave_within_ms)
            self._leave_when_withdrawn(now)

    def _leave_when_withdrawn(self, now: Time) -> None:
        if self.phase is Phase.WITHDRAWING and not self.subscriber.wishes:
            self._leave_overlay(now)

    def _leave_overlay(self, now: Time) -> None:
        self.phase = Phase.LEAVING
        self.core.disarm(("leave",))
        self.core.out += self.core.overlay.leave(now)

    def _leave_due(self, now: Time) -> None:
        if self.phase is Phase.WITHDRAWING:
            self._leave_overlay(now)  # some owners do not answer: their leases will end
        elif self.phase is Phase.HANDING_OVER:
            self._end(now)

    def _left(self, now: Time, reason: str) -> None:
        self._reason = reason
        self.core.member = False
        self.subscriber.gone()
        self.publisher.gone()
        self.handover.gone()
        self.replication.gone()
        self.rendezvous.gone()
        self.notifier.gone()
        if self.phase is Phase.LEAVING and self._left_behind:
            self.phase = Phase.HANDING_OVER
            self.core.arm(("leave",), self.core.config.leave_within_ms)
        else:
            self._end(now)

    def _hand_over(self, now: Time, region: Arcs) -> None:
        """The new owner has asked for it."""
        if self.phase is Phase.HANDING_OVER:
            self._left_behind -= region
            if not self._left_behind:
                self._end(now)

    def _end(self, now: Time) -> None:
        if self.phase is not Phase.OUTSIDE:
            self.core.disarm(("leave",))
        self.phase = Phase.OUTSIDE
        self._left_behind = self.core.ring.empty
        self.core.store.clear()
        self.core.deliver(Gone(self._reason))
        self.core.out.append(Log(f"gone: {self._reason}"))
