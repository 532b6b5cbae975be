"""Questions that a node has asked and that are not answered yet.

Rules:

1. Every question has its own number, a timer, and is repeated `ask_times` before it is given up.
2. At most one open question may lead to a change of ring pointers (`Purpose.changes_pointers`).
   While it is open the node answers others' questions about its pointers with Busy: so nobody sees
   them between the moment at which the answer was given and the moment at which it takes effect,
   and the two count as one. The correctness of the ring rests on this (ERRATA 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from crossroads.node import CancelTimer, Message, Send, SetTimer, Timer
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.contract import Output

TIMERS = "chord"


class Purpose(Enum):
    PLACE = "place"  # a newcomer looks up its place
    ENTER = "enter"  # a newcomer asks to be taken in
    SUCCESSOR = "successor"  # stabilise: what does the first successor know?
    CANDIDATE = "candidate"  # stabilise: does a closer successor answer?
    OLD_PREDECESSOR = "old-predecessor"  # rectify: is it still there?
    CLOSER_PREDECESSOR = "closer-predecessor"  # rectify: is the one who notified still there?
    FINGER = "finger"  # who owns the start of a finger?
    PROBE = "probe"  # is a next hop still there?

    @property
    def changes_pointers(self) -> bool:
        return self in _CHANGES_POINTERS


_CHANGES_POINTERS = frozenset(
    {
        Purpose.ENTER,
        Purpose.SUCCESSOR,
        Purpose.CANDIDATE,
        Purpose.OLD_PREDECESSOR,
        Purpose.CLOSER_PREDECESSOR,
    }
)


@dataclass(slots=True)
class Question:
    number: int
    purpose: Purpose
    to: Peer
    message: Message
    about: Peer | None  # whom the answer is about, where that is not the one asked
    finger: int
    tries_left: int

    @property
    def timer(self) -> Timer:
        return (TIMERS, "answer", self.number)


class Questions:
    def __init__(self, config: ChordConfig, first_number: int) -> None:
        """`first_number` is random, so that answers to a former life of the node fit nothing."""
        self._config = config
        self._next = first_number
        self._open: dict[int, Question] = {}
        self.pending: Question | None = None  # the one that may change pointers

    def ask(
        self,
        out: list[Output],
        purpose: Purpose,
        to: Peer,
        message: Callable[[int], Message],
        about: Peer | None = None,
        finger: int = 0,
    ) -> None:
        number = self._next
        self._next += 1
        question = Question(
            number, purpose, to, message(number), about, finger, self._config.ask_times
        )
        self._open[number] = question
        if purpose.changes_pointers:
            assert self.pending is None, (self.pending, question)
            self.pending = question
        self._send(out, question)

    def answered(self, out: list[Output], number: int) -> Question | None:
        """The question, now closed; None if it is open no longer."""
        question = self._open.get(number)
        if question is not None:
            self.close(out, question)
        return question

    def close(self, out: list[Output], question: Question) -> None:
        del self._open[question.number]
        if self.pending is question:
            self.pending = None
        out.append(CancelTimer(question.timer))

    def overdue(self, out: list[Output], number: int) -> Question | None:
        """The timer of a question fired: it is asked again, or given up and returned."""
        question = self._open.get(number)
        if question is None:
            return None
        question.tries_left -= 1
        if question.tries_left:
            self._send(out, question)
            return None
        del self._open[number]
        if self.pending is question:
            self.pending = None
        return question

    def is_open(self, purpose: Purpose, to: Peer | None = None) -> bool:
        return any(
            question.purpose is purpose and (to is None or question.to == to)
            for question in self._open.values()
        )

    def drop_all(self, out: list[Output]) -> None:
        for question in list(self._open.values()):
            self.close(out, question)

    def _send(self, out: list[Output], question: Question) -> None:
        out.append(Send(question.to.address, question.message))
        out.append(SetTimer(question.timer, self._config.answer_within_ms))
