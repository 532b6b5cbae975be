"""CHORD's second mapping: the bits of a key are divided among the attributes.

    SK(σ) = the product of the ranges of all attributes        EK(e) = h₁(a₁) ∘ … ∘ h_d(a_d)

The positions of the axes side by side, the first axis in the highest bits; what is left of the key
is zero at its end (ERRATA 16: at its beginning, half of the keys would never be used). A product is
kept as ranges: one for every choice on the leading axes, as long as that is not too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from crossroads.mapping.axes import Axis
from crossroads.mapping.boxes import IntBox, boxes_of
from crossroads.mapping.boxtable import Int32Array, boxes_of_table
from crossroads.mapping.coded import CodedMapping
from crossroads.mapping.contract import KeyTable, Offsets, RangeTable, SubscriptionKeys
from crossroads.mapping.keyranges import box_starts, codes_to_keys, codes_to_table
from crossroads.model.compiled import compiled, frozen
from crossroads.model.filter import Filter
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

# Ranges of one box; beyond it the last axes are taken whole, a superset. A box so wide on the
# leading axes has little to gain from the last ones, and a million of them must fit in memory.
RANGES_MAX = 4096


class KeySpaceSplit(CodedMapping):
    name = "key-space-split"

    @staticmethod
    def code_bits_of(axes: Sequence[Axis]) -> int:
        return sum(axis.bits for axis in axes)

    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys:
        codes = [one for box in boxes_of(filter_, self.spec.axes) for one in self._codes(box)]
        return codes_to_keys(codes, self.code_bits, self.shift)

    def _codes(self, box: IntBox) -> Iterator[tuple[int, int]]:
        """Ranges of codes; the end does not belong."""
        spans = []
        for (low, high), axis in zip(box, self.spec.axes, strict=True):
            # Nothing lies behind the last position: taken along, neighbours can be joined.
            spans.append((low, (1 << axis.bits) - 1 if high == axis.size - 1 else high))
        last = len(spans) - 1  # the axis within which a range runs
        while last > 0 and spans[last] == (0, (1 << self.spec.axes[last].bits) - 1):
            last -= 1
        while prod(high - low + 1 for low, high in spans[:last]) > RANGES_MAX:
            last -= 1
            spans[last + 1] = (0, (1 << self.spec.axes[last + 1].bits) - 1)
        behind = sum(axis.bits for axis in self.spec.axes[last + 1 :])
        low, high = spans[last]
        for leading in product(*(range(low, high + 1) for low, high in spans[:last])):
            code = 0
            for place, axis in zip(leading, self.spec.axes, strict=False):
                code = code << axis.bits | place
            code <<= self.spec.axes[last].bits
            yield (code | low) << behind, (code + high + 1) << behind

    def event_keys(self, event: Dict[str, Value]) -> tuple[int, ...]:
        code = 0
        for axis in self.spec.axes:
            code = code << axis.bits | axis.position(event.get(axis.dimension.attribute))
        return (code << self.shift,)

    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        boxes = boxes_of_table(table, self.spec.axes)
        bits = frozen(np.array([axis.bits for axis in self.spec.axes], np.int64))
        sizes = frozen(np.array([axis.size for axis in self.spec.axes], np.int64))
        high = frozen(_widened(frozen(boxes.high), sizes, bits))
        low = frozen(boxes.low)
        last = _last_axes(low, high, bits)
        starts = np.zeros(boxes.owner.size + 1, np.int64)
        np.cumsum(_counts(low, high, last), out=starts[1:])
        first, end = _fill(low, high, last, bits, starts)
        return codes_to_table(
            starts[box_starts(boxes, table.size)], first, end, self.code_bits, self.shift
        )

    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        codes = np.zeros(events.num_rows, np.int64)
        for axis in self.spec.axes:
            codes <<= axis.bits
            codes |= axis.positions(events.column(axis.dimension.attribute))
        return self.keys_of_codes(codes)


@compiled
def _widened(high: Int32Array, sizes: Offsets, bits: Offsets) -> Offsets:
    wide = np.empty(high.shape, np.int64)
    for box in range(high.shape[0]):
        for axis in range(sizes.size):
            at_end = high[box, axis] == sizes[axis] - 1
            wide[box, axis] = (1 << bits[axis]) - 1 if at_end else high[box, axis]
    return wide


@compiled
def _last_axes(low: Int32Array, high: Offsets, bits: Offsets) -> Offsets:
    """Of each box the axis within which its ranges run; the axes behind it are taken whole."""
    found = np.empty(low.shape[0], np.int64)
    for box in range(low.shape[0]):
        last = bits.size - 1
        while last > 0 and low[box, last] == 0 and high[box, last] == (1 << bits[last]) - 1:
            last -= 1
        while _choices(low, high, box, last) > RANGES_MAX:
            last -= 1
        found[box] = last
    return found


@compiled
def _choices(low: Int32Array, high: Offsets, box: int, axes: int) -> int:
    """Of positions on the first axes; counted no further than the limit, within 64 bits."""
    count = 1
    for axis in range(axes):
        count *= high[box, axis] - low[box, axis] + 1
        if count > RANGES_MAX:
            break
    return count


@compiled
def _counts(low: Int32Array, high: Offsets, last: Offsets) -> Offsets:
    counts = np.empty(last.size, np.int64)
    for box in range(last.size):
        counts[box] = _choices(low, high, box, last[box])
    return counts


@compiled
def _fill(
    low: Int32Array, high: Offsets, last: Offsets, bits: Offsets, starts: Offsets
) -> tuple[Offsets, Offsets]:
    """Ranges of codes, box by box, ascending: the positions on the leading axes count upwards."""
    first, end = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    places = np.empty(bits.size, np.int64)
    for box in range(last.size):
        within = last[box]
        behind = 0
        for axis in range(within + 1, bits.size):
            behind += bits[axis]
        for axis in range(within):
            places[axis] = low[box, axis]
        for at in range(starts[box], starts[box + 1]):
            code = np.int64(0)
            for axis in range(within):
                code = code << bits[axis] | places[axis]
            code <<= bits[within]
            first[at] = (code | np.int64(low[box, within])) << behind
            end[at] = (code + high[box, within] + 1) << behind
            axis = within - 1
            while axis >= 0:
                places[axis] += 1
                if places[axis] <= high[box, axis]:
                    break
                places[axis] = low[box, axis]
                axis -= 1
    return first, end
