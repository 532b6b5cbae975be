"""A circle of keys: 0 … 2^bits - 1, and after the last key comes the first again.

An **arc** (a, b] holds the keys after a, going clockwise, up to and including b. Arcs are half-open
in this one way everywhere: the arcs of neighbours (a, b] and (b, c] share no key and leave none
out. (a, a] goes once around, because a member that is its own predecessor owns every key.

A **region** (`Arcs`) is any set of keys made of arcs. It is kept as ascending ranges [low, high)
that neither overlap nor touch, cut where the circle closes; so equal regions are equal values, and
a region is a plain value that can be sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec import Struct

from crossroads.keyspace.ranges import KeyRange

Span = tuple[int, int]  # [low, high)


@dataclass(frozen=True, slots=True)
class Ring:
    """The circle of 2^bits keys, and how to go around it."""

    bits: int

    def __post_init__(self) -> None:
        assert self.bits >= 1, self

    @property
    def size(self) -> int:
        return 1 << self.bits

    def distance(self, start: int, end: int) -> int:
        """Steps clockwise from one key to another: 0 only from a key to itself."""
        return (end - start) & ((1 << self.bits) - 1)

    def within(self, after: int, key: int, upto: int) -> bool:
        """Is the key in (after, upto]?"""
        mask = (1 << self.bits) - 1
        return (key - after - 1) & mask <= (upto - after - 1) & mask

    def between(self, after: int, key: int, before: int) -> bool:
        """Is the key strictly between the two? With both the same: any key but that one."""
        return key != before and self.within(after, key, before)

    def arc(self, after: int, upto: int) -> Arcs:
        """(after, upto]"""
        low, high = (after + 1) & (self.size - 1), upto + 1
        if low < high:
            return Arcs(self.bits, ((low, high),))
        if low == high:  # (a, a]: once around
            return self.whole
        return Arcs(self.bits, ((0, high), (low, self.size)))

    @property
    def empty(self) -> Arcs:
        return Arcs(self.bits, ())

    @property
    def whole(self) -> Arcs:
        return Arcs(self.bits, ((0, self.size),))

    def keys(self, keys: Iterable[int]) -> Arcs:
        return self.spans((key, key + 1) for key in keys)

    def ranges(self, ranges: Iterable[KeyRange]) -> Arcs:
        """The region of a mapping's ranges of keys."""
        return self.spans((one.low, one.high) for one in ranges)

    def spans(self, spans: Iterable[Span]) -> Arcs:
        """The region of ranges [low, high) in any order, overlapping or not."""
        joined: list[Span] = []
        for low, high in sorted(spans):
            assert 0 <= low <= high <= self.size, (low, high, self.bits)
            if low == high:
                continue
            if joined and low <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], high))
            else:
                joined.append((low, high))
        return Arcs(self.bits, tuple(joined))


class Arcs(Struct, frozen=True, gc=False):
    """A region of the ring: a set of keys, in normal form. Made by `Ring`, and from each other."""

    bits: int
    spans: tuple[Span, ...]  # [low, high), ascending, not touching

    def __contains__(self, key: int) -> bool:
        at = bisect_right(self.spans, key, key=_low) - 1
        return at >= 0 and key < self.spans[at][1]

    def __bool__(self) -> bool:
        return bool(self.spans)

    @property
    def is_empty(self) -> bool:
        return not self.spans

    @property
    def size(self) -> int:
        """How many keys."""
        return sum(high - low for low, high in self.spans)

    def __and__(self, other: Arcs) -> Arcs:
        return Arcs(self.bits, tuple(_shared(self.spans, other.spans)))

    def __or__(self, other: Arcs) -> Arcs:
        if not other.spans:
            return self
        if not self.spans:
            return other
        return Ring(self.bits).spans((*self.spans, *other.spans))

    def __sub__(self, other: Arcs) -> Arcs:
        gaps = tuple(_gaps(other.spans, 1 << self.bits))
        return Arcs(self.bits, tuple(_shared(self.spans, gaps)))

    def first_after(self, key: int) -> int:
        """The first of its keys that one meets going clockwise from there. It must not be empty."""
        at = bisect_right(self.spans, key, key=_low)
        if at and key + 1 < self.spans[at - 1][1]:
            return key + 1
        return self.spans[at % len(self.spans)][0]

    def arcs(self) -> tuple[tuple[int, int], ...]:
        """As arcs (after, upto], the one across key 0 in one piece and last."""
        mask = (1 << self.bits) - 1
        ends = [((low - 1) & mask, high - 1) for low, high in self.spans]
        crosses = len(ends) > 1 and self.spans[0][0] == 0 and self.spans[-1][1] == mask + 1
        if crosses:
            return (*ends[1:-1], (ends[-1][0], ends[0][1]))
        return tuple(ends)

    def ranges(self) -> tuple[KeyRange, ...]:
        return tuple(KeyRange(low, high) for low, high in self.spans)

    def keys(self) -> Iterator[int]:
        """Every key, ascending: for small regions."""
        for low, high in self.spans:
            yield from range(low, high)


def _low(span: Span) -> int:
    return span[0]


def _shared(one: tuple[Span, ...], other: tuple[Span, ...]) -> Iterator[Span]:
    """What both have: each step leaves behind the range that ends first."""
    i = j = 0
    while i < len(one) and j < len(other):
        low, high = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if low < high:
            yield low, high
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1


def _gaps(spans: tuple[Span, ...], size: int) -> Iterator[Span]:
    at = 0
    for low, high in spans:
        if at < low:
            yield at, low
        at = high
    if at < size:
        yield at, size
