"""What the parts of a Chord node share: its pointers, its open questions, and what it puts out."""

from __future__ import annotations

from crossroads.keyspace import Arcs
from crossroads.node import Address, Dice, Send, SetTimer, Time, Timer
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.messages import AskNeighbours, Entered, Leaving, Peer
from crossroads.overlay.chord.questions import TIMERS, Purpose, Questions
from crossroads.overlay.chord.state import Phase, RingState
from crossroads.overlay.contract import Left, Output, OwnedChanged

STABILISE: Timer = (TIMERS, "stabilise")
FINGERS: Timer = (TIMERS, "fingers")
REJOIN: Timer = (TIMERS, "rejoin")

_NUMBERS = 1 << 48  # room for the random first number of a question


class Core:
    def __init__(self, state: RingState, dice: Dice) -> None:
        self.state = state
        self.config: ChordConfig = state.config
        self.dice = dice
        self.questions = Questions(state.config, dice.randrange(_NUMBERS))
        self.out: list[Output] = []
        self.contact: Address | None = None  # through whom this node joins
        self.rounds = 0  # of joining or leaving, so far
        # The last newcomer taken in, and what it was told: told again if it asks again.
        self.welcome: tuple[Peer, Entered] | None = None
        self.finger = 0  # to be looked up next
        self.heard: dict[Address, Time] = {}  # of next hops: the last sign of life

    def taken(self) -> list[Output]:
        """What was put out since the last time."""
        out, self.out = self.out, []
        return out

    def planted(self, bug: str) -> bool:
        return bug in self.config.planted

    # -- time ------------------------------------------------------------------------------

    def about(self, period: Time) -> Time:
        """Around that long. Members that act in step would find each other busy every time."""
        return period // 2 + self.dice.randrange(period)

    def arm(self, timer: Timer, after: Time) -> None:
        self.out.append(SetTimer(timer, after))

    def arm_upkeep(self) -> None:
        self.arm(STABILISE, self.dice.randrange(self.config.stabilise_every_ms))
        self.arm(FINGERS, self.dice.randrange(self.config.fingers_every_ms))

    # -- questions -------------------------------------------------------------------------

    def ask_neighbours(self, purpose: Purpose, of: Peer) -> None:
        self.questions.ask(self.out, purpose, of, AskNeighbours)

    # -- what the layer above is told ------------------------------------------------------

    def gained(self, region: Arcs, taken_from: Address | None) -> None:
        self.out.append(OwnedChanged(region, None, taken_from, None))

    def lost(self, region: Arcs, given_to: Address | None) -> None:
        self.out.append(OwnedChanged(None, region, None, given_to))

    def replicas_changed(self) -> None:
        if self.state.is_member:
            self.out.append(OwnedChanged(None, None, None, None))

    # -- the end of membership -------------------------------------------------------------

    def outside(self, reason: str) -> None:
        """No member any more, with nobody told: it never was one, or lost the ring."""
        state = self.state
        owned = state.owned()
        self.questions.drop_all(self.out)
        state.set_phase(Phase.OUTSIDE)
        state.set_predecessor(None)
        state.set_successors(())
        if owned:
            self.lost(owned, None)
        self.out.append(Left(reason))

    def depart(self) -> None:
        """Tell the neighbours and go. What still comes is passed on to the successor."""
        state = self.state
        predecessor = state.predecessor
        assert predecessor is not None
        owned = state.owned()
        self.questions.drop_all(self.out)
        state.set_phase(Phase.LEFT)
        word = Leaving(state.me, predecessor, state.successors)
        # The successor first: from here on it answers for these keys.
        told = [state.head, predecessor] if predecessor != state.head else [state.head]
        self.out += [Send(peer.address, word) for peer in told if peer != state.me]
        self.lost(owned, state.head.address if state.head != state.me else None)
        self.out.append(Left("asked to leave"))
