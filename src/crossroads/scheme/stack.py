"""A node made of two layers: an overlay that routes by key, and a scheme that stands on it.

    Receive, Fired ──▶ whose message, whose timer? ──▶ overlay ──upcalls──▶ layer
    Started, Persisted, Command ────────────────────────────────────────▶ layer

The layer calls the overlay (`route`, `multicast`, `join`, …) and puts what that returns among its
own outputs, where it happens. Upcalls among them are handed back to the layer only once it has
returned, so no layer is ever called in the middle of something; effects keep their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from crossroads.faults import FaultContract
from crossroads.node import (
    Address,
    Command,
    Effect,
    Fired,
    Input,
    Message,
    Persisted,
    Receive,
    Started,
    Time,
    Timer,
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

_UPCALLS = (Arrived, OwnedChanged, Joined, Left)


class Layer(ABC):
    """What stands on an overlay. Timers: any whose first part is not the overlay's."""

    name: ClassVar[str]
    faults: ClassVar[str]
    fault_contract: FaultContract

    @abstractmethod
    def start(self, now: Time, records: Mapping[str, bytes]) -> list[Output]: ...

    @abstractmethod
    def command(self, now: Time, command: Command) -> list[Output]: ...

    @abstractmethod
    def receive(self, now: Time, sender: Address, message: Message) -> list[Output]: ...

    @abstractmethod
    def fired(self, now: Time, timer: Timer) -> list[Output]: ...

    @abstractmethod
    def persisted(self, now: Time, token: int) -> list[Output]: ...

    @abstractmethod
    def told(self, now: Time, upcall: Upcall) -> list[Output]:
        """By the overlay."""

    @abstractmethod
    def stored(self) -> int: ...

    @abstractmethod
    def evaluated(self) -> int: ...


class StackedNode:
    """A `SchemeNode`: one overlay, one layer on it."""

    def __init__(self, overlay: Overlay[Any, Any], layer: Layer) -> None:
        self.overlay = overlay
        self.layer = layer
        self.address: Address = overlay.address
        self._overlays = frozenset(overlay.messages)

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def faults(self) -> str:
        return self.layer.faults

    @property
    def fault_contract(self) -> FaultContract:
        return self.layer.fault_contract

    def stored(self) -> int:
        return self.layer.stored()

    def evaluated(self) -> int:
        return self.layer.evaluated()

    def handle(self, now: Time, item: Input) -> list[Effect]:
        effects: list[Effect] = []
        self._carry(now, self._outputs(now, item), effects)
        return effects

    def _outputs(self, now: Time, item: Input) -> list[Output]:
        overlay, layer = self.overlay, self.layer
        match item:
            case Receive(sender, message):
                below = type(message) in self._overlays
                return (overlay if below else layer).receive(now, sender, message)
            case Fired(timer):
                return (overlay if timer[0] == overlay.timers else layer).fired(now, timer)
            case Started(records):
                return [*overlay.start(now, records), *layer.start(now, records)]
            case Persisted(token):
                return layer.persisted(now, token)
            case Command():
                return layer.command(now, item)
        raise AssertionError(f"{self.address} was told {item!r}, which is no input")

    def _carry(self, now: Time, outputs: Iterable[Output], effects: list[Effect]) -> None:
        for output in outputs:
            if isinstance(output, _UPCALLS):
                self._carry(now, self.layer.told(now, output), effects)
            else:
                effects.append(output)
