"""What an overlay is: nodes that share a space of keys among themselves and route by key.

Every key is owned by one live member once things are quiet. An overlay knows neither filters nor
events: it carries **payloads**, messages of the layer above, to the owners of keys.

- `route(key, payload)` brings it to the owner of one key;
- `multicast(region, payload)` to every owner of a key in the region, to each at most once.

The key and the region are of the overlay's own kind (a ring: whole numbers and arcs; CAN: points
and boxes; a prefix tree: bit strings and intervals); mappings that go with it give the same kind.

An overlay is one layer of a node and speaks the node's vocabulary: each call returns **outputs**,
effects for the runtime mixed with **upcalls** for the layer above, in the order in which they take
place. One question is asked on the spot, because the answer decides where the message goes:
`forward`, at every node that a routed payload passes. It may change the payload or stop it there
(Scribe joins groups so).

The law, checked for every overlay by `crossroads.testing.check_overlay`: once quiet, the owned
regions of the members are disjoint and cover the key space; a payload routed then arrives exactly
once, at the owner of its key; a multicast payload arrives exactly once at each owner and nowhere
else. While members come and go, within the overlay's fault contract, nothing arrives at a node that
is not a member, and the overlay becomes quiet and lawful again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from crossroads.faults import FaultContract
from crossroads.node import Address, Effect, Message, Time, Timer

Key = TypeVar("Key")
Region = TypeVar("Region")


# -- upcalls -----------------------------------------------------------------------------------


class Arrived(Struct, frozen=True, gc=False):
    """A payload is here because this node owns its key, or a part of its region."""

    payload: Message
    origin: Address  # who routed it first
    hops: int  # one-hop messages on its way here
    region: object  # of this node's own keys, those that it was meant for


class OwnedChanged(Struct, frozen=True, gc=False):
    """The region this node owns has changed, or the neighbours who would take it over.

    `taken_from` still has the state of what was gained, unless it crashed: then the replicas have
    it. `given_to` now owns what was lost, and wants its state.
    """

    gained: object  # a region, or None
    lost: object  # a region, or None
    taken_from: Address | None = None
    given_to: Address | None = None


class Joined(Struct, frozen=True, gc=False):
    """This node is a member from now on."""


class Left(Struct, frozen=True, gc=False):
    """This node is a member no longer: it left as asked, or has no one to stay with."""

    reason: str


Upcall = Arrived | OwnedChanged | Joined | Left
Output = Effect | Upcall


# -- the overlay -------------------------------------------------------------------------------

# (payload, next hop) → the payload to send on, or None: it stops here.
Forward = Callable[[Message, Address], Message | None]


def pass_on(payload: Message, to: Address) -> Message | None:
    """The `forward` of layers that let everything pass."""
    return payload


class Overlay(ABC, Generic[Key, Region]):
    """One node's part of an overlay. Not a member until `join` was answered by `Joined`."""

    messages: ClassVar[tuple[type[Message], ...]]  # its own kinds; no other layer may use them
    timers: ClassVar[str]  # the first part of the names of its timers
    faults: ClassVar[str]  # what it rides out, in a few sentences

    address: Address
    fault_contract: FaultContract  # the same as data: it depends on the settings

    @abstractmethod
    def start(self, now: Time, records: Mapping[str, bytes]) -> list[Output]:
        """The node (re)started. A former member says so and joins anew when asked to."""

    @abstractmethod
    def join(self, now: Time, contact: Address | None) -> list[Output]:
        """Become a member through one that is; without a contact, be the first."""

    @abstractmethod
    def leave(self, now: Time) -> list[Output]: ...

    @abstractmethod
    def receive(self, now: Time, sender: Address, message: Message) -> list[Output]: ...

    @abstractmethod
    def fired(self, now: Time, timer: Timer) -> list[Output]: ...

    @abstractmethod
    def route(self, now: Time, key: Key, payload: Message) -> list[Output]: ...

    @abstractmethod
    def multicast(self, now: Time, region: Region, payload: Message) -> list[Output]: ...

    @abstractmethod
    def owned(self) -> Region:
        """The keys that this node answers for now; empty while it is not a member."""

    @abstractmethod
    def neighbours(self) -> tuple[Address, ...]:
        """Members that it exchanges messages with to keep the overlay whole."""

    @abstractmethod
    def replicas(self, count: int) -> tuple[Address, ...]:
        """Who should hold copies of this node's state: the first to own its keys if it fails."""
