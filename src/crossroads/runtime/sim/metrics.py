"""What a run cost and what it achieved, counted while it runs.

Messages are counted when they are sent, one per hop, as the documents do; load is what a node
receives. Hops end at the layer above the overlay, which the simulator does not see into: whoever
does calls `arrived`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crossroads.node import Address, Command, Delivery, Message, Time
from crossroads.scheme.contract import Notified, Publish

Pair = tuple[str, str]  # (subscription, event)


@dataclass(slots=True)
class Summary:
    """Many numbers by their count, mean and largest."""

    count: int = 0
    total: int = 0
    largest: int = 0

    def add(self, value: int) -> None:
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def as_dict(self) -> dict[str, float]:
        return {"count": self.count, "mean": self.mean, "max": self.largest}


@dataclass(slots=True)
class Metrics:
    # One-hop messages by kind; those that carry a payload by the kind of that as well. `sent` and
    # `carried` are the views to read.
    plain: dict[type[Message], int] = field(default_factory=dict)
    carriers: dict[type[Message], defaultdict[type[Message], int]] = field(default_factory=dict)
    lost: int = 0  # on a link that loses, at a wall, or because nobody was there
    repeated: int = 0
    received: dict[Address, int] = field(default_factory=dict)
    deliveries: Counter[str] = field(default_factory=Counter)
    hops: defaultdict[str, Summary] = field(default_factory=lambda: defaultdict(Summary))
    delay: Summary = field(default_factory=Summary)  # from Publish to Notified, milliseconds
    stored: dict[Address, int] = field(default_factory=dict)
    evaluated: dict[Address, int] = field(default_factory=dict)
    notified: set[Pair] = field(default_factory=set)
    _furthest: dict[tuple[str, Hashable], int] = field(default_factory=dict)
    _published: dict[str, Time] = field(default_factory=dict)

    # -- told by the simulator -------------------------------------------------------------

    def count_first(self, kind: type[Message], message: Message) -> None:
        """The first message of its kind: from now on there is a place to count it."""
        if "payload" in kind.__struct_fields__:
            self.carriers[kind] = defaultdict(int, {type(message.payload): 1})  # type: ignore[attr-defined]
        else:
            self.plain[kind] = 1

    def commanded(self, now: Time, command: Command) -> None:
        if isinstance(command, Publish):
            self._published.setdefault(command.id, now)

    def delivered(self, now: Time, what: Delivery) -> None:
        self.deliveries[type(what).__name__] += 1
        if isinstance(what, Notified):
            self.notified.add((what.subscription, what.event_id))
            if what.event_id in self._published:
                self.delay.add(now - self._published[what.event_id])

    # -- told by whoever sees it -----------------------------------------------------------

    def arrived(self, kind: str, request: Hashable, hops: int) -> None:
        """A payload of that kind reached an owner. `request` tells one multicast from another."""
        self.hops[kind].add(hops)
        self._furthest[kind, request] = max(hops, self._furthest.get((kind, request), 0))

    def holds(self, node: Address, *, stored: int, evaluated: int) -> None:
        """A node stores that many subscriptions now, and compared so many pairs so far."""
        self.stored[node] = stored
        self.evaluated[node] = evaluated

    # -- results ---------------------------------------------------------------------------

    @property
    def sent(self) -> dict[type[Message], int]:
        """One-hop messages by kind."""
        carriers = {kind: sum(payloads.values()) for kind, payloads in self.carriers.items()}
        return {**self.plain, **carriers}

    @property
    def carried(self) -> dict[tuple[type[Message], type[Message]], int]:
        """One-hop messages by (kind, kind of payload)."""
        return {
            (kind, payload): count
            for kind, payloads in self.carriers.items()
            for payload, count in payloads.items()
        }

    def dilation(self, kind: str) -> Summary:
        """Per request, the hops to the owner that it reached last."""
        found = Summary()
        for (of, _), hops in self._furthest.items():
            if of == kind:
                found.add(hops)
        return found

    def recall(self, wanted: Iterable[Pair]) -> float:
        pairs = set(wanted)
        return len(pairs & self.notified) / len(pairs) if pairs else 1.0

    def precision(self, wanted: Iterable[Pair]) -> float:
        right = len(self.notified & set(wanted))
        return right / len(self.notified) if self.notified else 1.0

    def as_dict(self) -> dict[str, Any]:
        kinds = sorted({kind for kind, _ in self._furthest})
        return {
            "sent": _named(self.sent, lambda kind: kind.__name__),
            "carried": _named(self.carried, lambda both: "/".join(k.__name__ for k in both)),
            "lost": self.lost,
            "repeated": self.repeated,
            "received": _spread(self.received),
            "deliveries": dict(sorted(self.deliveries.items())),
            "hops": {kind: self.hops[kind].as_dict() for kind in kinds},
            "dilation": {kind: self.dilation(kind).as_dict() for kind in kinds},
            "delay_ms": self.delay.as_dict(),
            "stored": _spread(self.stored),
            "evaluated": _spread(self.evaluated),
        }


def _named(counts: Mapping[Any, int], name: Callable[[Any], str]) -> dict[str, int]:
    return dict(sorted((name(kind), count) for kind, count in counts.items()))


def _spread(per_node: Mapping[Address, int]) -> dict[str, float]:
    found = Summary()
    for value in per_node.values():
        found.add(value)
    return found.as_dict()
