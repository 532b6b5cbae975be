"""PUB-2-SUB's mapping for any number of attributes: the place on a Hilbert curve through them all.

    SK(σ) = the ranges of the curve that meet the box        EK(e) = the place of the point

What is close together in space is mostly close together on the curve, so a small box is few ranges.
The order of the curve is the bits of the finest axis: with d attributes and keys of m bits at most
⌊m/d⌋ (the document's k/2 is for d = 2, ERRATA 19). What is left of a key are zeros at its end. A
range reaches to where the next place begins, so that it is made of whole prefixes
(`keyspace.prefixes_of_range`), as zones of nodes are.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.keyspace import Prefix, prefixes_of_range
from crossroads.mapping.axes import Axis
from crossroads.mapping.boxes import boxes_of
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.mapping.coded import CodedMapping
from crossroads.mapping.contract import KeyRange, KeyTable, RangeTable, SubscriptionKeys
from crossroads.mapping.hilbertcurve import (
    CUBES_MAX,
    curve_index,
    curve_indices,
    curve_range_table,
    curve_ranges,
)
from crossroads.mapping.keyranges import box_starts, codes_to_keys, codes_to_table
from crossroads.mapping.positions import position_of, positions_of
from crossroads.mapping.spec import MappingSpec
from crossroads.model.compiled import frozen
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

AXES_MAX = 8  # a cube has 2**d parts, and each is looked at


class Hilbert(CodedMapping):
    name = "hilbert"

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        if len(spec.axes) > AXES_MAX:
            raise UsageError(f"hilbert takes at most {AXES_MAX} attributes, not {len(spec.axes)}")
        super().__init__(spec, schema)
        self.order = _order(spec.axes)
        # An axis with fewer positions fills the side of the cube with wider ones.
        self.scale = tuple(self.order - axis.bits for axis in spec.axes)

    @staticmethod
    def code_bits_of(axes: Sequence[Axis]) -> int:
        return len(axes) * _order(axes)

    def _what_takes_more(self) -> str:
        axes = self.spec.axes
        return f"a curve of order {_order(axes)} through {len(axes)} attributes"

    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys:
        codes: list[tuple[int, int]] = []
        for box in boxes_of(filter_, self.spec.axes):
            sides = list(zip(box, self.spec.axes, self.scale, strict=True))
            low = [span[0] << up for span, _, up in sides]
            # Nothing lies behind the last position: taken along, whole cubes can be joined.
            high = [
                (1 << self.order) - 1 if span[1] == axis.size - 1 else (span[1] + 1 << up) - 1
                for span, axis, up in sides
            ]
            codes += curve_ranges(low, high, self.order)
        return codes_to_keys(codes, self.code_bits, self.shift, filled=True)

    def event_keys(self, event: Dict[str, Value]) -> tuple[int, ...]:
        places = position_of(event, self.spec.axes)
        point = [place << up for place, up in zip(places, self.scale, strict=True)]
        return (curve_index(point, self.order) << self.shift,)

    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        boxes = boxes_of_table(table, self.spec.axes)
        up = np.array(self.scale, np.int64)
        ends = np.array([axis.size - 1 for axis in self.spec.axes], np.int64)
        high = ((boxes.high.astype(np.int64) + 1) << up) - 1
        high[boxes.high == ends] = (1 << self.order) - 1
        starts, first, end = curve_range_table(
            frozen(boxes.low.astype(np.int64) << up), frozen(high), self.order, CUBES_MAX
        )
        return codes_to_table(
            starts[box_starts(boxes, table.size)],
            first,
            end,
            self.code_bits,
            self.shift,
            filled=True,
        )

    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        points = positions_of(events, self.spec.axes) << np.array(self.scale, np.int64)
        return self.keys_of_codes(curve_indices(frozen(points), self.order))


def _order(axes: Sequence[Axis]) -> int:
    """Of the curve: the finest axis decides."""
    return max(axis.bits for axis in axes)


def prefix_zones(range_: KeyRange, bits: int) -> list[Prefix]:
    """A range of keys as the fewest prefixes, which nodes compare with their addresses."""
    return list(prefixes_of_range(range_.low, range_.high, bits))
