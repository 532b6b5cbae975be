"""What Chord members say to each other.

A question carries a number, and its answer carries it back: an answer to a question that is no
longer open is ignored, so late and repeated answers do no harm.
"""

from __future__ import annotations

from msgspec import Struct

from crossroads.keyspace import Arcs
from crossroads.node import Address, Message


class Peer(Struct, frozen=True, gc=False):
    """A member, or one that was: its place on the ring and where to reach it."""

    id: int
    address: Address


# -- payloads of the layer above ---------------------------------------------------------------


class Routed(Message, frozen=True, gc=False):
    """To the owner of the key."""

    key: int
    payload: Message
    origin: Peer
    hops: int  # this one included
    # The sender believes that the receiver is the owner: the key is not ahead of it. If the
    # receiver has just given it to a newcomer, the way is back, not once around the ring.
    last: bool
    rest: Arcs | None = None  # of conservative unicast: what is still to visit, the key included


class Cast(Message, frozen=True, gc=False):
    """To the owners of the region, from here up to the limit (`mcast`)."""

    region: Arcs
    limit: int
    payload: Message
    origin: Peer
    hops: int


# -- lookups -----------------------------------------------------------------------------------


class FindSuccessor(Message, frozen=True, gc=False):
    """Which member owns the key? Passed on like a payload; whoever knows answers the asker."""

    number: int
    key: int
    asker: Address
    hops: int


class FoundSuccessor(Message, frozen=True, gc=False):
    number: int
    owner: Peer


# -- upkeep of the ring ------------------------------------------------------------------------


class AskNeighbours(Message, frozen=True, gc=False):
    number: int


class Neighbours(Message, frozen=True, gc=False):
    number: int
    predecessor: Peer | None
    successors: tuple[Peer, ...]


class Notify(Message, frozen=True, gc=False):
    """The sender has the receiver as its first successor."""

    member: Peer


class Ping(Message, frozen=True, gc=False):
    number: int


class Pong(Message, frozen=True, gc=False):
    number: int


class Busy(Message, frozen=True, gc=False):
    """Alive, but waiting for an answer that may change its pointers: ask again."""

    number: int


class NotMember(Message, frozen=True, gc=False):
    """Whatever it was, it is no member now: as good as gone, and sooner known."""

    number: int


# -- coming and going --------------------------------------------------------------------------


class Enter(Message, frozen=True, gc=False):
    """A newcomer asks its first successor to take it as its predecessor."""

    number: int
    newcomer: Peer


class Entered(Message, frozen=True, gc=False):
    """It is done: the newcomer owns (predecessor, itself], which the sender owns no longer."""

    number: int
    predecessor: Peer
    successors: tuple[Peer, ...]  # the sender's


class Elsewhere(Message, frozen=True, gc=False):
    """Not here: the sender has a predecessor that is closer to the newcomer."""

    number: int
    closer: Peer


class Refused(Message, frozen=True, gc=False):
    """Another member has the newcomer's place on the ring."""

    number: int


class Leaving(Message, frozen=True, gc=False):
    """A member goes, and tells its neighbours what it knew. Told, not asked."""

    leaver: Peer
    predecessor: Peer
    successors: tuple[Peer, ...]
    passed_on: int = 0  # by receivers that have left themselves


MESSAGES: tuple[type[Message], ...] = (
    Routed,
    Cast,
    FindSuccessor,
    FoundSuccessor,
    AskNeighbours,
    Neighbours,
    Notify,
    Ping,
    Pong,
    Busy,
    NotMember,
    Enter,
    Entered,
    Elsewhere,
    Refused,
    Leaving,
)
