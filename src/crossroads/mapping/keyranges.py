"""Ranges of keys, as boxes give them → SK: sorted, joined where they touch, by subscription.

A subscription at the root is met there by every event, so it has no ranges besides.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from crossroads.mapping.boxtable import BoxTable
from crossroads.mapping.contract import KeyRange, Keys, Offsets, RangeTable, SubscriptionKeys
from crossroads.model.compiled import compiled, frozen

Bools = npt.NDArray[np.bool_]

AT_ROOT = SubscriptionKeys((), True)


def joined(ranges: Iterable[tuple[int, int]]) -> SubscriptionKeys:
    """Of one subscription; the end of a range does not belong."""
    found: list[KeyRange] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1].high:
            found[-1] = KeyRange(found[-1].low, max(found[-1].high, high))
        else:
            found.append(KeyRange(low, high))
    return SubscriptionKeys(tuple(found))


def joined_table(starts: Offsets, low: Offsets, high: Offsets, root: Bools) -> RangeTable:
    """Of many: subscription i has the ranges starts[i] … starts[i + 1] - 1, in any order.

    Works in place on `low` and `high`.
    """
    offsets, size = _join(frozen(starts), low, high, frozen(root))
    return RangeTable(offsets, low[:size].view(np.uint64), high[:size].view(np.uint64), root)


def codes_to_keys(
    codes: Iterable[tuple[int, int]], code_bits: int, shift: int, *, filled: bool = False
) -> SubscriptionKeys:
    """Ranges of codes of that many bits → keys, which have `shift` zeros more at their end.

    A range ends right behind its last key, or, `filled`, where the next code would begin.
    """
    found = joined(codes).ranges
    if found == (KeyRange(0, 1 << code_bits),):
        return AT_ROOT
    back = 0 if filled else (1 << shift) - 1
    return SubscriptionKeys(
        tuple(KeyRange(one.low << shift, (one.high << shift) - back) for one in found)
    )


def codes_to_table(
    starts: Offsets, low: Offsets, high: Offsets, code_bits: int, shift: int, *,
    filled: bool = False,
) -> RangeTable:  # fmt: skip
    """`codes_to_keys` of many; subscription i has the ranges starts[i] … starts[i + 1] - 1."""
    root = np.zeros(starts.size - 1, np.bool_)
    found = joined_table(starts, low, high, root)
    root = _whole(frozen(found.offsets), frozen(found.low), frozen(found.high), 1 << code_bits)
    if root.any():
        kept = np.repeat(~root, np.diff(found.offsets))
        counts = np.where(root, 0, np.diff(found.offsets))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        found = RangeTable(offsets, found.low[kept], found.high[kept], root)
    back = np.uint64(0 if filled else (1 << shift) - 1)
    up = np.uint64(shift)
    return RangeTable(found.offsets, found.low << up, (found.high << up) - back, root)


def box_starts(boxes: BoxTable, size: int) -> Offsets:
    """Boxes of subscription i: starts[i] … starts[i + 1] - 1."""
    counts = np.bincount(boxes.owner, minlength=size) if boxes.owner.size else np.zeros(size)
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


@compiled
def sort_ranges(low: Offsets, high: Offsets, begin: int, end: int) -> None:
    """By `low`, in place. Mostly there are a handful: moved one by one, that is the fastest."""
    if end - begin > 32:
        order = np.argsort(low[begin:end])
        low[begin:end] = low[begin:end][order]
        high[begin:end] = high[begin:end][order]
        return
    for at in range(begin + 1, end):
        one, other, place = low[at], high[at], at
        while place > begin and low[place - 1] > one:
            low[place], high[place] = low[place - 1], high[place - 1]
            place -= 1
        low[place], high[place] = one, other


@compiled
def join_ranges(low: Offsets, high: Offsets, begin: int, end: int) -> int:
    """Sorted, and joined where they touch, in place; returns the new end."""
    sort_ranges(low, high, begin, end)
    size = begin
    for at in range(begin, end):
        if size > begin and low[at] <= high[size - 1]:
            high[size - 1] = max(high[size - 1], high[at])
        else:
            low[size], high[size] = low[at], high[at]
            size += 1
    return size


@compiled
def _join(starts: Offsets, low: Offsets, high: Offsets, root: Bools) -> tuple[Offsets, int]:
    offsets = np.zeros(starts.size, np.int64)
    size = 0
    for i in range(starts.size - 1):
        if not root[i]:
            for at in range(starts[i], join_ranges(low, high, starts[i], starts[i + 1])):
                low[size], high[size] = low[at], high[at]
                size += 1
        offsets[i + 1] = size
    return offsets, size


@compiled
def _whole(offsets: Offsets, low: Keys, high: Keys, size: int) -> Bools:
    """Which subscriptions have a range from the first code to the last."""
    whole = np.zeros(offsets.size - 1, np.bool_)
    for i in range(whole.size):
        at = offsets[i]
        whole[i] = at < offsets[i + 1] and low[at] == 0 and high[at] == np.uint64(size)
    return whole


def one_key_each(keys: Keys) -> Offsets:
    """The offsets of a table in which every event has one key."""
    return np.arange(keys.size + 1, dtype=np.int64)
