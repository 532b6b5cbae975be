"""Sets of values of one attribute: half-open intervals of keys, and whether NULL belongs too.

Keys are ints or bytes (see `types`); every interval is [low, high), None as `high` has no end.
Sets are normalised: sorted, disjoint, not touching, within the bounds of the type; so two sets are
equal exactly when they hold the same values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from crossroads.model.types import Key, Type, key_bounds, successor

Interval = tuple[Key, Key | None]


@dataclass(frozen=True, slots=True)
class ValueSet:
    type: Type
    intervals: tuple[Interval, ...]
    null: bool = False

    def __bool__(self) -> bool:
        return bool(self.intervals) or self.null

    @property
    def is_everything(self) -> bool:
        return self.null and self.intervals == (key_bounds(self.type),)

    def has(self, key: Key | None) -> bool:
        """Does the value with this key belong (None: NULL)?"""
        if key is None:
            return self.null
        at = bisect_right(self.intervals, key, key=itemgetter(0)) - 1
        if at < 0:
            return False
        end = self.intervals[at][1]
        return end is None or key < end  # type: ignore[operator]

    @property
    def points(self) -> list[Key] | None:
        """The values, if they are single ones and not stretches of many."""
        found = [low for low, high in self.intervals if high == successor(low)]
        return found if len(found) == len(self.intervals) else None

    def union(self, other: ValueSet) -> ValueSet:
        return value_set(self.type, self.intervals + other.intervals, self.null or other.null)

    def intersection(self, other: ValueSet) -> ValueSet:
        """One walk along both: of two intervals, the one that ends first is done."""
        if self is other:
            return self
        found: list[Interval] = []
        mine, theirs = 0, 0
        while mine < len(self.intervals) and theirs < len(other.intervals):
            (low, high), (other_low, other_high) = self.intervals[mine], other.intervals[theirs]
            start, end = max(low, other_low), _lesser(high, other_high)
            if end is None or start < end:  # type: ignore[operator]
                found.append((start, end))
            if end == high:
                mine += 1
            else:
                theirs += 1
        # Sorted, and apart because one of the two has a gap between any two of them.
        return ValueSet(self.type, tuple(found), self.null and other.null)

    def complement(self) -> ValueSet:
        """Everything else, NULL included exactly when it did not belong."""
        start, end = key_bounds(self.type)
        found: list[Interval] = []
        at: Key | None = start
        for low, high in self.intervals:
            assert at is not None
            found.append((at, low))
            at = high
        if at is not None:
            found.append((at, end))
        return value_set(self.type, found, not self.null)

    def contains(self, other: ValueSet) -> bool:
        """Every interval within one of ours: the first and the last, which seldom are, first."""
        if self is other:
            return True
        if other.null and not self.null:
            return False
        if not other.intervals:
            return True
        return (
            self._spans(other.intervals[0])
            and self._spans(other.intervals[-1])
            and all(self._spans(interval) for interval in other.intervals)
        )

    def _spans(self, interval: Interval) -> bool:
        at = bisect_right(self.intervals, interval[0], key=itemgetter(0)) - 1
        if at < 0:
            return False
        end, wanted = self.intervals[at][1], interval[1]
        return end is None or (wanted is not None and wanted <= end)  # type: ignore[operator]

    def hull(self) -> ValueSet:
        """The least set with one interval that holds this one."""
        if len(self.intervals) <= 1:
            return self
        return ValueSet(self.type, ((self.intervals[0][0], self.intervals[-1][1]),), self.null)


def _lesser(one: Key | None, other: Key | None) -> Key | None:
    if one is None:
        return other
    if other is None:
        return one
    return min(one, other)


def value_set(type_: Type, intervals: Iterable[Interval], null: bool = False) -> ValueSet:
    """Normalised: clipped to the type, sorted, merged."""
    floor, ceiling = key_bounds(type_)
    clipped = sorted(
        ((max(low, floor), _lesser(high, ceiling)) for low, high in intervals),
        key=lambda interval: interval[0],
    )
    merged: list[Interval] = []
    for low, high in clipped:
        if high is not None and not low < high:  # type: ignore[operator]
            continue
        if merged and (merged[-1][1] is None or low <= merged[-1][1]):  # type: ignore[operator]
            last_low, last_high = merged[-1]
            longest = None if last_high is None or high is None else max(last_high, high)
            merged[-1] = (last_low, longest)
        else:
            merged.append((low, high))
    return ValueSet(type_, tuple(merged), null)


def nothing(type_: Type) -> ValueSet:
    return ValueSet(type_, ())


def all_values(type_: Type) -> ValueSet:
    """Everything but NULL."""
    return ValueSet(type_, (key_bounds(type_),))


def only_null(type_: Type) -> ValueSet:
    return ValueSet(type_, (), True)


def point(type_: Type, key: Key) -> ValueSet:
    return value_set(type_, [(key, successor(key))])


def at_least(type_: Type, key: Key) -> ValueSet:
    return value_set(type_, [(key, key_bounds(type_)[1])])


def below(type_: Type, key: Key) -> ValueSet:
    return value_set(type_, [(key_bounds(type_)[0], key)])
