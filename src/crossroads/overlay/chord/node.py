"""The overlay: one node's part of a Chord ring, as `crossroads.overlay.contract` wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from crossroads.faults import FaultContract
from crossroads.keyspace import Arcs
from crossroads.node import Address, Dice, Log, Message, Send, Time, Timer
from crossroads.overlay.chord import carrying, membership, upkeep
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.core import FINGERS, REJOIN, STABILISE, Core
from crossroads.overlay.chord.faults import WORDS, fault_contract
from crossroads.overlay.chord.fingers import set_finger
from crossroads.overlay.chord.messages import (
    MESSAGES,
    AskNeighbours,
    Busy,
    Cast,
    Elsewhere,
    Enter,
    Entered,
    FindSuccessor,
    FoundSuccessor,
    Leaving,
    Neighbours,
    Notify,
    NotMember,
    Peer,
    Ping,
    Pong,
    Refused,
    Routed,
)
from crossroads.overlay.chord.questions import TIMERS, Purpose, Question
from crossroads.overlay.chord.state import Phase, RingState
from crossroads.overlay.chord.unicast import first_stop
from crossroads.overlay.contract import Forward, Joined, Output, Overlay, pass_on

EARLY_MAX = 256  # payloads that overtook the word that this node is a member


class Chord(Overlay[int, Arcs]):
    """Made with a place on the ring, and either outside of it or, for rings that are built at once
    (`build`), with the state of a member."""

    messages = MESSAGES
    timers = TIMERS
    faults: ClassVar[str] = WORDS

    def __init__(
        self,
        me: Peer,
        config: ChordConfig,
        dice: Dice,
        *,
        forward: Forward = pass_on,
        state: RingState | None = None,
    ) -> None:
        self.address = me.address
        self.fault_contract: FaultContract = fault_contract(config)
        self.state = RingState(me, config) if state is None else state
        self._forward = forward
        self._core = Core(self.state, dice)
        self._early: list[Routed | Cast] = []

    # -- commands --------------------------------------------------------------------------

    def start(self, now: Time, records: Mapping[str, bytes]) -> list[Output]:
        """Nothing of the ring is kept on disk: it would be out of date. A node that was a member
        joins anew."""
        if self.state.is_member:
            self._core.out.append(Joined())
            self._core.gained(self.state.owned(), None)
            self._core.arm_upkeep()
        return self._core.taken()

    def join(self, now: Time, contact: Address | None) -> list[Output]:
        membership.join(self._core, contact)
        return self._core.taken()

    def leave(self, now: Time) -> list[Output]:
        membership.leave(self._core)
        return self._finished()

    def route(self, now: Time, key: int, payload: Message) -> list[Output]:
        message = carrying.origin_message(self._core, key, payload, None)
        carrying.carry(self._core, now, message, self._forward)
        return self._core.taken()

    def multicast(self, now: Time, region: Arcs, payload: Message) -> list[Output]:
        if not self.state.is_member:
            return [Log("not a member: nothing is multicast")]
        me = self.state.me
        carrying.cast(self._core, now, Cast(region, me.id, payload, me, hops=0))
        return self._core.taken()

    def walk(self, now: Time, region: Arcs, payload: Message) -> list[Output]:
        """Conservative unicast: from owner to owner (`unicast`)."""
        if not region:
            return []
        first = first_stop(self.state, region)
        message = carrying.origin_message(self._core, first, payload, region)
        carrying.carry(self._core, now, message, self._forward)
        return self._core.taken()

    def spread(self, now: Time, keys: Iterable[int], payload: Message) -> list[Output]:
        """Aggressive unicast: to every key at once (`unicast`)."""
        return [output for key in keys for output in self.route(now, key, payload)]

    # -- what it knows ---------------------------------------------------------------------

    def owned(self) -> Arcs:
        return self.state.owned()

    def neighbours(self) -> tuple[Address, ...]:
        if not self.state.is_member:
            return ()
        near = (self.state.predecessor, *self.state.successors)
        return tuple(dict.fromkeys(peer.address for peer in near if peer and peer != self.state.me))

    def replicas(self, count: int) -> tuple[Address, ...]:
        return tuple(peer.address for peer in self.state.successors[:count])

    # -- inputs ----------------------------------------------------------------------------

    def fired(self, now: Time, timer: Timer) -> list[Output]:
        core = self._core
        if timer[1] == "answer":
            question = core.questions.overdue(core.out, int(timer[2]))
            if question is not None:
                self._silent(question)
        elif timer == REJOIN:
            membership.look_up_place(core)
        elif not self.state.is_member:
            pass  # upkeep is for members; the timer is not set again
        elif timer == STABILISE:
            upkeep.stabilise_due(core)
        elif timer == FINGERS:
            carrying.fingers_due(core)
        return self._finished()

    def receive(self, now: Time, sender: Address, message: Message) -> list[Output]:
        core = self._core
        if type(message) is Routed or type(message) is Cast:
            self._payload(now, message)
            return core.taken()
        match message:
            case FindSuccessor():
                self._lookup(message)
            case AskNeighbours(number):
                core.out.append(Send(sender, self._neighbours(number)))
            case Ping(number):
                core.out.append(Send(sender, self._pong(sender, number)))
            case Enter():
                core.out.append(Send(sender, self._taken_in(message)))
            case Notify(member):
                upkeep.notified(core, member)
            case Leaving():
                membership.told_of_leaving(core, message)
            case (
                Neighbours(number)
                | FoundSuccessor(number)
                | Pong(number)
                | Busy(number)
                | NotMember(number)
                | Entered(number)
                | Elsewhere(number)
                | Refused(number)
            ):
                question = core.questions.answered(core.out, number)
                if question is not None:
                    core.heard[sender] = now
                    self._answered(now, question, message)
            case _:
                raise AssertionError(f"not a message of Chord: {message}")
        return self._finished()

    def _finished(self) -> list[Output]:
        if self.state.phase in (Phase.LEFT, Phase.OUTSIDE):
            membership.left(self._core)
        return self._core.taken()

    # -- payloads and lookups --------------------------------------------------------------

    def _payload(self, now: Time, message: Routed | Cast) -> None:
        if self.state.phase is Phase.JOINING:
            if len(self._early) < EARLY_MAX:
                self._early.append(message)
        elif isinstance(message, Routed):
            carrying.received_routed(self._core, now, message, self._forward)
        else:
            carrying.received_cast(self._core, now, message)

    def _lookup(self, message: FindSuccessor) -> None:
        if self.state.is_member or (self.state.phase is Phase.LEFT and self.state.successors):
            carrying.received_lookup(self._core, message)
        else:
            self._core.out.append(Send(message.asker, NotMember(message.number)))

    # -- questions of others ---------------------------------------------------------------

    def _neighbours(self, number: int) -> Message:
        state = self.state
        if not state.is_member:
            # One that is being taken in may be a member already in the eyes of its successor.
            return Busy(number) if self._is_entering() else NotMember(number)
        if self._core.questions.pending is not None:
            return Busy(number)
        return Neighbours(number, state.predecessor, state.successors or (state.me,))

    def _pong(self, sender: Address, number: int) -> Message:
        return Pong(number) if self.state.is_member or self._is_entering() else NotMember(number)

    def _is_entering(self) -> bool:
        pending = self._core.questions.pending
        return pending is not None and pending.purpose is Purpose.ENTER

    def _taken_in(self, message: Enter) -> Message:
        if not self.state.is_member:
            return NotMember(message.number)
        return membership.asked_to_enter(self._core, message)

    # -- answers, and their absence --------------------------------------------------------

    def _answered(self, now: Time, question: Question, answer: Message) -> None:
        core = self._core
        if isinstance(answer, NotMember):
            if question.purpose is Purpose.PLACE:
                membership.try_later(core)  # the contact is itself on its way in
            else:
                self._silent(question)
            return
        match question.purpose, answer:
            case Purpose.PLACE, FoundSuccessor(_, owner):
                membership.enter_at(core, owner)
            case Purpose.ENTER, Entered():
                membership.entered(core, question.to, answer)
                early, self._early = self._early, []
                for message in early:
                    self._payload(now, message)
            case Purpose.ENTER, Elsewhere(_, closer):
                membership.enter_at(core, closer)
            case Purpose.ENTER, Refused():
                core.outside(f"{question.to.address} has the same place on the ring")
            case Purpose.ENTER, Busy():
                membership.try_later(core)
            case Purpose.SUCCESSOR, Neighbours():
                upkeep.successor_answered(core, question.to, answer)
            case Purpose.SUCCESSOR, Busy():
                upkeep.successor_busy(core)
            case Purpose.CANDIDATE, Neighbours():
                upkeep.candidate_answered(core, question.to, answer)
            case Purpose.CANDIDATE, Busy():
                upkeep.candidate_not_taken(core)
            case Purpose.CLOSER_PREDECESSOR, Pong():
                upkeep.closer_answered(core, question.to)
            case Purpose.FINGER, FoundSuccessor(_, owner):
                core.finger = set_finger(self.state, question.finger, owner)
            case _:
                pass  # an old predecessor or a next hop is there: nothing changes

    def _silent(self, question: Question) -> None:
        """No answer: it is gone, or as good as gone."""
        core = self._core
        match question.purpose:
            case Purpose.PLACE | Purpose.ENTER:
                membership.look_up_place(core)
            case Purpose.SUCCESSOR:
                upkeep.successor_silent(core, question.to)
            case Purpose.CANDIDATE:
                upkeep.candidate_silent(core, question.to)
            case Purpose.OLD_PREDECESSOR:
                upkeep.old_predecessor_silent(core, question)
            case Purpose.CLOSER_PREDECESSOR:
                pass  # it notified, and went: the old one stays
            case Purpose.FINGER:
                carrying.probe(core, question.to)  # the way there is broken, perhaps at its start
            case Purpose.PROBE:
                carrying.hop_silent(core, question.to)
