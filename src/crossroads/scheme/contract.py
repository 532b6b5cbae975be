"""What a publish/subscribe scheme is: the commands it takes, what it tells, and the law it keeps.

    Subscribe ─▶ scheme ─▶ Subscribed         the subscription is in force until its lease ends
    Publish   ─▶ scheme ─▶ Published          everyone who must be notified has been, or will be
                 scheme ─▶ Notified           at the subscriber, once per subscription and event

The law, within the scheme's fault contract, once things are quiet, for subscription σ and event e
that match by definition:

- **must** be notified: σ was acknowledged (`Subscribed`) before e was published, its lease was
  valid and it was not withdrawn until e was acknowledged (`Published`), and e was acknowledged;
- **may** be notified: the two overlapped in time (σ asked for, not ended when e was published);
- must ⊆ notified ⊆ must ∪ may, and no pair is notified twice in one life of the subscriber's node.
  A node that crashes just after it told the application cannot know whether it did: then, and only
  then, it may tell it again in its next life.

`crossroads.testing.check_scheme` checks it on any scheme, under churn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from crossroads.faults import FaultContract
from crossroads.node import Command, Delivery, Node, Time

SubscriptionId = str  # unique over all subscribers
EventId = str  # unique over all publishers; publishing it again is the same event


# -- commands ----------------------------------------------------------------------------------


class Join(Command, frozen=True, gc=False):
    contact: str | None  # a member; None founds the network


class Leave(Command, frozen=True, gc=False):
    pass


class Subscribe(Command, frozen=True, gc=False):
    id: SubscriptionId
    filter: str  # text over the network's schema
    lease: Time | None  # milliseconds; None: until it is withdrawn


class Unsubscribe(Command, frozen=True, gc=False):
    id: SubscriptionId


class Publish(Command, frozen=True, gc=False):
    id: EventId
    event: Mapping[str, object]  # typed values by attribute


# -- deliveries --------------------------------------------------------------------------------


class Member(Delivery, frozen=True, gc=False):
    """The node has joined."""


class Gone(Delivery, frozen=True, gc=False):
    """The node has left."""

    reason: str


class Subscribed(Delivery, frozen=True, gc=False):
    id: SubscriptionId


class Unsubscribed(Delivery, frozen=True, gc=False):
    """Withdrawn, or its lease ended."""

    id: SubscriptionId


class Published(Delivery, frozen=True, gc=False):
    id: EventId


class Notified(Delivery, frozen=True, gc=False):
    subscription: SubscriptionId
    event_id: EventId
    event: Mapping[str, object]


class Refused(Delivery, frozen=True, gc=False):
    """A command that cannot be carried out: what was asked, and why not."""

    id: str
    reason: str


class SchemeNode(Node, Protocol):
    """A whole node of a scheme. Which layers it is made of is its own business."""

    @property
    def name(self) -> str: ...

    @property
    def faults(self) -> str:
        """What it rides out, in a few sentences."""

    @property
    def fault_contract(self) -> FaultContract:
        """The same as data: it depends on the settings."""

    def stored(self) -> int:
        """Subscriptions held here for others to meet."""

    def evaluated(self) -> int:
        """Pairs of event and subscription that this node compared since it started."""
