"""What the nodes of CB-pub/sub say to each other.

`Register`, `Meet` and `Notification` travel by key; everything else goes straight to an address.
"""

from __future__ import annotations

from msgspec import Struct

from crossroads.keyspace import Arcs
from crossroads.node import Address, Message, Time
from crossroads.scheme.contract import EventId, SubscriptionId

Values = dict[str, str]  # an event in canonical text; what is not there is NULL


class Entry(Struct, frozen=True, gc=False):
    """A subscription as a rendezvous keeps it. The higher version is the later word."""

    id: SubscriptionId
    version: int
    subscriber: Address
    key: int  # of the subscriber's node: notifications go there
    filter: str
    region: Arcs  # SK(σ), the root key included where it stands at the root
    until: Time | None  # then it is forgotten everywhere, without a word
    withdrawn: bool = False


# -- by key ------------------------------------------------------------------------------------


class Register(Message, frozen=True, gc=False):
    entry: Entry


class Meet(Message, frozen=True, gc=False):
    """An event on its way to everyone who might want it."""

    event_id: EventId
    event: Values
    publisher: Address


class Notice(Struct, frozen=True, gc=False):
    """One match: this event for that subscription."""

    subscription: SubscriptionId
    version: int
    subscriber: Address
    event_id: EventId
    event: Values
    rendezvous: Address  # who waits for the acknowledgement


class Notification(Message, frozen=True, gc=False):
    """With m-cast one message serves several subscribers: each takes what is its own."""

    notices: tuple[Notice, ...]


# -- acknowledgements --------------------------------------------------------------------------


class Registered(Message, frozen=True, gc=False):
    id: SubscriptionId
    version: int
    part: Arcs  # of its region: stored here, and on the neighbours
    epoch: int  # of the mapping that the sender uses: whoever is behind has to catch up first


class Met(Message, frozen=True, gc=False):
    event_id: EventId
    part: Arcs  # the event's keys that are done with
    epoch: int


class Noticed(Message, frozen=True, gc=False):
    event_id: EventId
    subscription: SubscriptionId
    version: int
    wanted: bool  # False: the subscriber has no such subscription (any more)


# -- copies ------------------------------------------------------------------------------------


class Copy(Message, frozen=True, gc=False):
    number: int  # 0: no answer is wanted
    entries: tuple[Entry, ...]


class Copied(Message, frozen=True, gc=False):
    number: int


class Compare(Message, frozen=True, gc=False):
    """An owner to those who hold its copies: do we have the same for this region?"""

    region: Arcs
    digest: int
    epoch: int  # of the mapping that the sender uses


class Holdings(Message, frozen=True, gc=False):
    """No: this is what I have."""

    region: Arcs
    ranks: dict[SubscriptionId, int]  # `store.rank`


class Want(Message, frozen=True, gc=False):
    ids: tuple[SubscriptionId, ...]


# -- hand-over ---------------------------------------------------------------------------------


class Pull(Message, frozen=True, gc=False):
    number: int
    region: Arcs


class Pulled(Message, frozen=True, gc=False):
    number: int
    entries: tuple[Entry, ...]


# -- collecting --------------------------------------------------------------------------------


class Match(Struct, frozen=True, gc=False):
    notice: Notice
    key: int  # of the subscriber's node
    agent: int  # the key in the middle of the range in which it was found
    up: bool  # clockwise from where it was found to the agent


class Collected(Message, frozen=True, gc=False):
    """Matches on their way to the agents of their subscriptions, for all of them at once."""

    matches: tuple[Match, ...]


# -- a new mapping -----------------------------------------------------------------------------


class Remapped(Message, frozen=True, gc=False):
    """From now on subscriptions stand, and events meet, by this mapping as well; after the time of
    overlap by it alone."""

    epoch: int
    spec: str  # as JSON
    overlap_until: Time


MESSAGES: tuple[type[Message], ...] = (
    Register,
    Meet,
    Notification,
    Registered,
    Met,
    Noticed,
    Copy,
    Copied,
    Compare,
    Holdings,
    Want,
    Pull,
    Pulled,
    Collected,
    Remapped,
)
