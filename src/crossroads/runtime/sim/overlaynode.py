"""An overlay with nothing above it: a node that routes what it is told to, and tells what arrives.

For experiments and tests that are about the overlay alone. Joining and leaving are the commands
of every scheme; `Route` and `Multicast` carry a payload of the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from crossroads.node import (
    Address,
    Command,
    Deliver,
    Delivery,
    Effect,
    Fired,
    Input,
    Message,
    Receive,
    Started,
    Time,
)
from crossroads.overlay.contract import (
    Arrived,
    Joined,
    Left,
    Output,
    Overlay,
    OwnedChanged,
    Upcall,
)
from crossroads.scheme.contract import Gone, Join, Leave, Member

UPCALLS = frozenset({Arrived, Joined, Left, OwnedChanged})


class Route(Command, frozen=True, gc=False):
    key: Any
    payload: Message


class Multicast(Command, frozen=True, gc=False):
    region: Any
    payload: Message


class Arrival(Delivery, frozen=True, gc=False):
    payload: Message
    origin: Address
    hops: int
    region: Any  # of the node's own keys, those that the payload was meant for


class OverlayNode:
    def __init__(self, overlay: Overlay[Any, Any]) -> None:
        self.overlay = overlay
        self.address: Address = overlay.address

    def handle(self, now: Time, item: Input) -> Sequence[Effect]:
        return effects_of(self.outputs(now, item))

    def outputs(self, now: Time, item: Input) -> list[Output]:
        overlay = self.overlay
        if type(item) is Receive:  # nearly everything
            return overlay.receive(now, item.sender, item.message)
        match item:
            case Fired(timer):
                return overlay.fired(now, timer)
            case Started(records):
                return overlay.start(now, records)
            case Route(key, payload):
                return overlay.route(now, key, payload)
            case Multicast(region, payload):
                return overlay.multicast(now, region, payload)
            case Join(contact):
                return overlay.join(now, contact)
            case Leave():
                return overlay.leave(now)
        raise AssertionError(f"{self.address} was told {item!r}, which is none of its business")


def effects_of(outputs: list[Output]) -> Sequence[Effect]:
    effects: list[Effect] = []
    for output in outputs:
        if type(output) not in UPCALLS:
            effects.append(output)  # type: ignore[arg-type]
        else:
            effects += _told(output)  # type: ignore[arg-type]
    return effects


def _told(upcall: Upcall) -> Iterator[Effect]:
    match upcall:
        case Arrived(payload, origin, hops, region):
            yield Deliver(Arrival(payload, origin, hops, region))
        case Joined():
            yield Deliver(Member())
        case Left(reason):
            yield Deliver(Gone(reason))
        case OwnedChanged():
            pass  # there is no state above that would have to move
