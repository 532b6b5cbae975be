"""CHORD's third mapping: a subscription stands where its most selective attribute says.

    SK(σ) = h_s(range of attribute s)        EK(e) = ∪ᵢ {hᵢ(aᵢ)}

s is the attribute of which the subscription wants the least part of the domain.
Fitted to a sample, the least part of the events instead (`parameters["shares"]`): a category
that half of them have is not selective, however many categories there might be.

All attributes share one key space, so that an event may meet a subscription by chance at the key of
another attribute (ERRATA 15). `parameters["tagged"]`: the first bits of a key name the attribute,
and that cannot happen.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.mapping.attribute_split import strides_of
from crossroads.mapping.axes import Axis
from crossroads.mapping.boxes import IntBox, boxes_of
from crossroads.mapping.boxtable import BoxTable, Int32Array, boxes_of_table
from crossroads.mapping.contract import (
    Keys,
    KeyTable,
    Mapping,
    Offsets,
    RangeTable,
    SubscriptionKeys,
)
from crossroads.mapping.keyranges import AT_ROOT, box_starts, join_ranges, joined, joined_table
from crossroads.mapping.shares import Shares, share, shares_of
from crossroads.mapping.spec import MappingSpec, need_axes
from crossroads.model.compiled import compiled, frozen
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

Bools = npt.NDArray[np.bool_]


class SelectiveAttribute(Mapping):
    name = "selective-attribute"

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        need_axes(spec)
        self.tagged = bool(spec.parameters.get("tagged", True))
        tag_bits = (len(spec.axes) - 1).bit_length() if self.tagged else 0
        if tag_bits >= spec.bits:
            raise UsageError(f"m = {spec.bits} bits are too few for {len(spec.axes)} attributes")
        self.strides = strides_of(spec.axes, spec.bits - tag_bits)
        self.bases = tuple(
            at << spec.bits - tag_bits if self.tagged else 0 for at in range(len(spec.axes))
        )
        self.sizes = tuple(axis.size for axis in spec.axes)
        shares = spec.parameters.get("shares")
        self.shares = None if shares is None else Shares.from_json(shares)

    @staticmethod
    def fit_parameters(
        axes: Sequence[Axis],
        boxes: BoxTable,
        positions: npt.NDArray[np.int64],
        *,
        tagged: bool = True,
        by_domain: bool = False,
    ) -> dict[str, Any]:
        """`by_domain`: the document's rule, whatever the events are."""
        if by_domain or not positions.shape[0]:
            return {"tagged": tagged}
        shares = shares_of(positions, [axis.size for axis in axes])
        return {"tagged": tagged, "shares": shares.to_json()}

    @property
    def stride(self) -> int:
        return math.gcd(*self.strides)

    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys:
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for box in boxes_of(filter_, self.spec.axes):
            at = self._most_selective(box)
            if at is None:
                return AT_ROOT
            low, high = box[at]
            spans[at].append((low, high + 1))
        ranges: list[tuple[int, int]] = []
        for at, found in spans.items():
            base, stride = self.bases[at], self.strides[at]
            ranges += [
                (base + one.low * stride, base + (one.high - 1) * stride + 1)
                for one in joined(found).ranges
            ]
        return joined(ranges)

    def _most_selective(self, box: IntBox) -> int | None:
        """The first axis on which the box has the least part; None: it has all of each."""
        narrow = [at for at, span in enumerate(box) if span != self.spec.axes[at].whole]
        return min(narrow, key=lambda at: self._part(at, *box[at]), default=None)

    def _part(self, at: int, low: int, high: int) -> Fraction | int:
        if self.shares is not None:
            return self.shares.of(at, low, high)
        return Fraction(high - low + 1, self.sizes[at])

    def event_keys(self, event: Dict[str, Value]) -> tuple[int, ...]:
        keys = {
            base + axis.position(event.get(axis.dimension.attribute)) * stride
            for axis, base, stride in zip(self.spec.axes, self.bases, self.strides, strict=True)
        }
        return tuple(sorted(keys))

    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        boxes = boxes_of_table(table, self.spec.axes)
        low, high = frozen(boxes.low), frozen(boxes.high)
        sizes, bases, strides = (
            frozen(np.array(numbers, np.int64))
            for numbers in (self.sizes, self.bases, self.strides)
        )
        if self.shares is None:
            chosen = _least_of_domain(low, high, sizes)
        else:
            by_events = (frozen(array) for array in self.shares.arrays)
            chosen = _least_of_events(low, high, sizes, *by_events)
        starts = box_starts(boxes, table.size)
        return joined_table(*_ranges(starts, low, high, frozen(chosen), bases, strides))

    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        keys = np.empty((events.num_rows, len(self.spec.axes)), np.int64)
        for at, axis in enumerate(self.spec.axes):
            places = axis.positions(events.column(axis.dimension.attribute))
            keys[:, at] = places * self.strides[at] + self.bases[at]
        if self.tagged:  # ascending and apart as they are
            offsets = np.arange(keys.shape[0] + 1, dtype=np.int64) * keys.shape[1]
            return KeyTable(offsets, keys.reshape(-1).view(np.uint64))
        return KeyTable(*_apart(np.sort(keys, axis=1)))


@compiled
def _least_of_domain(low: Int32Array, high: Int32Array, sizes: Offsets) -> Offsets:
    """By box the axis that is constrained most; -1: none is."""
    chosen = np.full(low.shape[0], -1, np.int64)
    for box in range(low.shape[0]):
        least, among = np.int64(1), np.int64(1)  # all of it
        for axis in range(sizes.size):
            width = np.int64(high[box, axis]) - low[box, axis] + 1
            if width * among < least * sizes[axis]:  # of fractions, not of doubles
                chosen[box], least, among = axis, width, sizes[axis]
    return chosen


@compiled
def _least_of_events(
    low: Int32Array, high: Int32Array, sizes: Offsets,
    width: Offsets, below: Offsets, least: Offsets,
    hot_first: Offsets, hot: Offsets, hot_below: Offsets,
) -> Offsets:  # fmt: skip
    chosen = np.full(low.shape[0], -1, np.int64)
    for box in range(low.shape[0]):
        smallest = 0
        for axis in range(sizes.size):
            first, last = int(low[box, axis]), int(high[box, axis])
            if first > 0 or last < sizes[axis] - 1:
                part = share(width, below, least, hot_first, hot, hot_below, axis, first, last)
                if chosen[box] < 0 or part < smallest:
                    chosen[box], smallest = axis, part
    return chosen


@compiled
def _ranges(
    starts: Offsets, low: Int32Array, high: Int32Array,
    chosen: Offsets, bases: Offsets, strides: Offsets,
) -> tuple[Offsets, Offsets, Offsets, Bools]:  # fmt: skip
    """One range for every box, joined where they touch on one axis."""
    first, end = np.empty(low.shape[0], np.int64), np.empty(low.shape[0], np.int64)
    found = np.zeros(starts.size, np.int64)
    root = np.zeros(starts.size - 1, np.bool_)
    size = 0
    for i in range(starts.size - 1):
        for axis in range(bases.size):
            begin = size
            for box in range(starts[i], starts[i + 1]):
                root[i] |= chosen[box] < 0
                if chosen[box] == axis:
                    first[size], end[size] = low[box, axis], np.int64(high[box, axis]) + 1
                    size += 1
            if size > begin:
                size = join_ranges(first, end, begin, size)
                for at in range(begin, size):
                    first[at] = bases[axis] + first[at] * strides[axis]
                    end[at] = bases[axis] + (end[at] - 1) * strides[axis] + 1
        found[i + 1] = size
    return found, first[:size], end[:size], root


@compiled
def _apart(keys: Offsets) -> tuple[Offsets, Keys]:
    """Rows of ascending keys, without those that repeat."""
    offsets = np.zeros(keys.shape[0] + 1, np.int64)
    found = np.empty(keys.size, np.uint64)
    size = 0
    for event in range(keys.shape[0]):
        for at in range(keys.shape[1]):
            if at == 0 or keys[event, at] != keys[event, at - 1]:
                found[size] = keys[event, at]
                size += 1
        offsets[event + 1] = size
    return offsets, found[:size].copy()
