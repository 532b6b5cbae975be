"""What the parts of a CB-pub/sub node share, and what it puts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from crossroads.keyspace import Arcs
from crossroads.node import (
    Address,
    CancelTimer,
    Deliver,
    Delivery,
    Dice,
    Message,
    Persist,
    Send,
    SetTimer,
    Time,
    Timer,
)
from crossroads.overlay.contract import Output, Overlay
from crossroads.scheme.cbps.config import CbpsConfig, Way
from crossroads.scheme.cbps.specs import Specs
from crossroads.scheme.cbps.store import Store

TIMERS = "cbps"

Then = Callable[[Time], None]


@runtime_checkable
class Unicast(Protocol):
    """An overlay's ways to a region other than `multicast`, where it has them (CHORD 4.3.1)."""

    def walk(self, now: Time, region: Arcs, payload: Message) -> list[Output]: ...

    def spread(self, now: Time, keys: Iterable[int], payload: Message) -> list[Output]: ...


class Core:
    def __init__(
        self,
        overlay: Overlay[int, Arcs],
        key: int,
        specs: Specs,
        config: CbpsConfig,
        dice: Dice,
    ) -> None:
        self.overlay = overlay
        self.address: Address = overlay.address
        self.key = key  # this node's own: it owns it as long as it is a member
        self.specs = specs
        self.ring = specs.ring
        self.config = config
        self.store = Store()
        self.member = False
        self.evaluated = 0
        self.out: list[Output] = []
        self._dice = dice
        self._durable: dict[int, Then] = {}
        # Random, so that answers to a former life of this node fit nothing.
        self._number = 1 + dice.randrange(1 << 48)

    def taken(self) -> list[Output]:
        """What was put out since the last time."""
        out, self.out = self.out, []
        return out

    def planted(self, bug: str) -> bool:
        return bug in self.config.planted

    def number(self) -> int:
        self._number += 1
        return self._number

    # -- effects ---------------------------------------------------------------------------

    def send(self, to: Address, message: Message) -> None:
        self.out.append(Send(to, message))

    def deliver(self, what: Delivery) -> None:
        self.out.append(Deliver(what))

    def arm(self, timer: Timer, after: Time) -> None:
        self.out.append(SetTimer((TIMERS, *timer), max(0, after)))

    def disarm(self, timer: Timer) -> None:
        self.out.append(CancelTimer((TIMERS, *timer)))

    def about(self, period: Time) -> Time:
        """Around that long: nodes should not act in step."""
        return period * 3 // 4 + self._dice.randrange(period // 2 + 1)

    def persist(self, records: dict[str, bytes | None], then: Then | None = None) -> None:
        """`then` is called once it is durable."""
        token = self.number()
        if then is not None:
            self._durable[token] = then
        self.out.append(Persist(token, tuple(records.items())))

    def persisted(self, now: Time, token: int) -> None:
        then = self._durable.pop(token, None)
        if then is not None:
            then(now)

    # -- by key ----------------------------------------------------------------------------

    def route(self, now: Time, key: int, payload: Message) -> None:
        self.out += self.overlay.route(now, key, payload)

    def cast(self, now: Time, region: Arcs, payload: Message, way: Way) -> None:
        """To every owner of the region, in that way."""
        if not region:
            return
        if way == "multicast":
            self.out += self.overlay.multicast(now, region, payload)
            return
        unicast = self.overlay
        assert isinstance(unicast, Unicast), f"{type(unicast).__name__} has no unicast to a region"
        if way == "walk":
            self.out += unicast.walk(now, region, payload)
        else:
            self.out += unicast.spread(now, region.keys(), payload)

    def visited(self, region: Arcs, way: Way) -> Arcs:
        """Of a subscription's region, what it is sent to: with one message per key, those that are
        no event's can be left out."""
        if way != "spread" or self.specs.stride == 1:
            return region
        stride = self.specs.stride
        return self.ring.keys(key for low, high in region.spans for key in range(low, high, stride))
