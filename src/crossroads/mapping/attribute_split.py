"""CHORD's first mapping: every attribute alone; a subscription meets an event by any of them.

    SK(σ) = ∪ᵢ hᵢ(range of attribute i)        EK(e) = hⱼ(aⱼ) for one attribute j

h scales the positions of an axis to the whole key space, so a coarse axis (discretization) has few
keys, far apart. The document lets each event choose its attribute; here j is in the spec
(`parameters["by"]`), because who chooses well chooses the same one. An attribute without constraint
counts as its full range (ERRATA 3): such a subscription would stand everywhere and is at the root.
`parameters["hash"] = "identity"` takes positions as keys without scaling them, as Fig. 3 does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.mapping.axes import Axis
from crossroads.mapping.boxes import boxes_of
from crossroads.mapping.boxtable import BoxTable, Int32Array, boxes_of_table
from crossroads.mapping.contract import KeyTable, Mapping, Offsets, RangeTable, SubscriptionKeys
from crossroads.mapping.keyranges import (
    AT_ROOT,
    box_starts,
    join_ranges,
    joined,
    joined_table,
    one_key_each,
)
from crossroads.mapping.spec import MappingSpec, need_axes
from crossroads.model.compiled import compiled, frozen
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

Bools = npt.NDArray[np.bool_]


class AttributeSplit(Mapping):
    name = "attribute-split"
    one_key = True

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        need_axes(spec)
        self.by = int(spec.parameters.get("by", 0))
        if not 0 <= self.by < len(spec.axes):
            raise UsageError(f"attribute-split: there is no axis {self.by} to place events by")
        self.strides = strides_of(spec.axes, spec.bits)
        if spec.parameters.get("hash") == "identity":
            self.strides = tuple(1 for _ in spec.axes)

    @staticmethod
    def fit_parameters(
        axes: Sequence[Axis],
        boxes: BoxTable,
        positions: npt.NDArray[np.int64],
        *,
        by: int | None = None,
        hash: str = "scaled",  # noqa: A002  the documents' word
    ) -> dict[str, Any]:
        """Events go by the axis on which they meet the fewest sampled boxes."""
        if hash not in ("scaled", "identity"):
            raise UsageError(f"attribute-split: hash must be scaled or identity, not {hash!r}")
        if by is None:
            met = [
                _pairs_meeting(boxes.low[:, at], boxes.high[:, at], positions[:, at])
                for at in range(len(axes))
            ]
            by = int(np.argmin(met)) if boxes.owner.size and positions.shape[0] else 0
        return {"by": by, "hash": hash}

    @property
    def stride(self) -> int:
        return math.gcd(*self.strides)

    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys:
        boxes = boxes_of(filter_, self.spec.axes)
        ranges: list[tuple[int, int]] = []
        for at, (axis, stride) in enumerate(zip(self.spec.axes, self.strides, strict=True)):
            spans = joined((box[at][0], box[at][1] + 1) for box in boxes).ranges
            if any(one.high - one.low == axis.size for one in spans):
                return AT_ROOT
            ranges += [(one.low * stride, (one.high - 1) * stride + 1) for one in spans]
        return joined(ranges)

    def event_keys(self, event: Dict[str, Value]) -> tuple[int, ...]:
        axis = self.spec.axes[self.by]
        return (axis.position(event.get(axis.dimension.attribute)) * self.strides[self.by],)

    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        boxes = boxes_of_table(table, self.spec.axes)
        starts = box_starts(boxes, table.size)
        sizes = np.array([axis.size for axis in self.spec.axes], np.int64)
        strides = np.array(self.strides, np.int64)
        return joined_table(
            *_ranges(starts, frozen(boxes.low), frozen(boxes.high), frozen(sizes), frozen(strides))
        )

    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        axis = self.spec.axes[self.by]
        places = axis.positions(events.column(axis.dimension.attribute))
        keys = (places * self.strides[self.by]).view(np.uint64)
        return KeyTable(one_key_each(keys), keys)


def strides_of(axes: Sequence[Axis], bits: int) -> tuple[int, ...]:
    """How far apart the keys of neighbouring positions are when they fill the key space."""
    for axis in axes:
        if axis.size > 1 << bits:
            raise UsageError(
                f"m = {bits} bits are too few for the {axis.size:,} positions of "
                f"{axis.dimension.attribute}",
                hint="take more bits, or fewer intervals",
            )
    return tuple((1 << bits) // axis.size for axis in axes)


def _pairs_meeting(low: Int32Array, high: Int32Array, places: npt.NDArray[np.int64]) -> int:
    """Pairs of a box and an event that agree on one axis."""
    starts, ends = np.sort(low), np.sort(high)
    met = np.searchsorted(starts, places, "right") - np.searchsorted(ends, places, "left")
    return int(met.sum())


@compiled
def _ranges(
    starts: Offsets, low: Int32Array, high: Int32Array, sizes: Offsets, strides: Offsets
) -> tuple[Offsets, Offsets, Offsets, Bools]:
    """The ranges of every subscription on every axis, and where each subscription's begin."""
    first, end = np.empty(low.size, np.int64), np.empty(low.size, np.int64)
    found = np.zeros(starts.size, np.int64)
    root = np.zeros(starts.size - 1, np.bool_)
    size = 0
    for i in range(starts.size - 1):
        for axis in range(sizes.size):
            begin = size
            for box in range(starts[i], starts[i + 1]):
                first[size], end[size] = low[box, axis], high[box, axis] + 1
                size += 1
            size = join_ranges(first, end, begin, size)
            for at in range(begin, size):
                if end[at] - first[at] == sizes[axis]:
                    root[i] = True
                first[at] *= strides[axis]
                end[at] = (end[at] - 1) * strides[axis] + 1
        found[i + 1] = size
    return found, first[:size], end[:size], root
