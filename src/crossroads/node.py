"""The vocabulary of a protocol node: what it is told, and what it asks for. No IO, no clock.

    effects = node.handle(now, input)

A node is a deterministic state machine. It is told one **input** at a time (a message came, a timer
fired, a write is durable, someone commands) and answers with **effects** (send, set a timer, make
durable, tell the application). Whoever runs it, the simulator or the live driver, carries them out
in the order given. The same inputs give the same effects, so a run is its seed.

    runtime ──Started, Receive, Fired, Persisted, Command──▶ node
    runtime ◀──Send, SetTimer, CancelTimer, Persist, Deliver, Log── node

Rules that every node may rely on, and every runtime keeps:

1. Inputs of one node come one after the other; `now` never goes back. It counts milliseconds.
2. The first input of a node's life is `Started`, with the records its disk holds.
3. A message may be lost, delayed, repeated or overtaken by another, and never invented or changed.
4. `Persisted(token)` comes once, after everything in that `Persist` will survive a crash, and in
   the order of the `Persist` effects. A node that crashes before may find the records or may not,
   but never half of one `Persist`, and never a later one without those before it.
5. A timer fires once per `SetTimer`, not before its time; setting it again replaces it; timers do
   not survive a crash.
6. Effects of one input are carried out in order; a crash may cut them off anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

Address = str  # where a node can be reached: a name in the simulator, host:port in a network
Time = int  # milliseconds since the run began

# A timer is named by whoever sets it: ("stabilise",), ("retry", 17). The first part says whose it
# is, so that layers in one node cannot fire each other's.
Timer = tuple[str | int, ...]


class Message(Struct, frozen=True, gc=False, tag=True):
    """What travels between nodes. Subclasses hold plain values only, so that it can be encoded."""


class Command(Struct, frozen=True, gc=False):
    """What someone outside asks of a node: join, leave, subscribe, publish."""


class Delivery(Struct, frozen=True, gc=False):
    """What a node tells the application above it: a notification, an acknowledgement."""


# -- inputs ------------------------------------------------------------------------------------


class Started(Struct, frozen=True, gc=False):
    records: Mapping[str, bytes]  # empty on a new disk


class Receive(Struct, frozen=True, gc=False):
    sender: Address
    message: Message


class Fired(Struct, frozen=True, gc=False):
    timer: Timer


class Persisted(Struct, frozen=True, gc=False):
    token: int


Input = Started | Receive | Fired | Persisted | Command


# -- effects -----------------------------------------------------------------------------------


class Send(Struct, frozen=True, gc=False):
    to: Address
    message: Message


class SetTimer(Struct, frozen=True, gc=False):
    timer: Timer
    after: Time


class CancelTimer(Struct, frozen=True, gc=False):
    timer: Timer


class Persist(Struct, frozen=True, gc=False):
    token: int
    records: tuple[tuple[str, bytes | None], ...]  # None forgets the record


class Deliver(Struct, frozen=True, gc=False):
    what: Delivery


class Log(Struct, frozen=True, gc=False):
    """For people: something worth knowing happened. Never needed for correctness."""

    text: str


Effect = Send | SetTimer | CancelTimer | Persist | Deliver | Log


class Node(Protocol):
    address: Address

    def handle(self, now: Time, item: Input) -> Sequence[Effect]: ...


class Dice(Protocol):
    """The node's own stream of chance, given to it by the runtime (`random.Random` is one)."""

    def random(self) -> float: ...

    def randrange(self, stop: int, /) -> int: ...
