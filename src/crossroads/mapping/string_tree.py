"""STRINGS' mapping: SK is the Tnodes that fill a box's most selective side, EK the event's paths.

`parameters`:
  base        β, the digits of a label
  levels      per axis the depths in use; an event has one key for each
  slack       how finely ranges are cut (see `tnode_keys`); 0 is exactly
  offsets     per axis what is added to its keys: domain relocation; zeros are none
  replicas    RF: copies of every Tnode, an event looks into one
  shares      the sampled events on each axis, by which the most selective side is chosen

A box without a side on an axis in use stands at the root.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.mapping.axes import Axis
from crossroads.mapping.boxes import boxes_of
from crossroads.mapping.boxtable import BoxTable, boxes_of_table
from crossroads.mapping.contract import KeyTable, Mapping, RangeTable, SubscriptionKeys
from crossroads.mapping.keyranges import AT_ROOT, box_starts, joined, joined_table
from crossroads.mapping.mixing import mix
from crossroads.mapping.positions import position_of, positions_of
from crossroads.mapping.shares import Shares, shares_of
from crossroads.mapping.spec import MappingSpec, need_axes
from crossroads.mapping.tnode_keys import Ints, TnodeKeys
from crossroads.mapping.tnodes import Forest
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

# With these two a subscription of the documents' workloads has 1 to 5 keys and an event 4 to 10;
# base 16 and slack 8 give 2 to 17 and 8, for a fifth fewer candidates.
BASE = 8
SLACK = 2  # ranges at most double, and grow by a fifth or so on average
BASE_MAX = 1 << 16
BITS = 40  # a million Tnodes rarely share a key by chance
REPLICAS_MAX = 64  # every subscription is stored so many times
OFFSET_BITS = 62  # offsets are cut to the bits of the key when they are used


class StringTree(Mapping):
    name = "string-tree"

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        need_axes(spec)
        self.core = _core(spec.axes, spec.bits, spec.parameters)

    @staticmethod
    def fit_parameters(
        axes: Sequence[Axis],
        boxes: BoxTable,
        positions: Ints,
        *,
        base: int = BASE,
        replicas: int = 1,
        relocation: bool = True,
        slack: int = SLACK,
    ) -> dict[str, Any]:
        """From sampled boxes and the positions of sampled events (rows are events)."""
        if not 2 <= base <= BASE_MAX:
            raise UsageError(f"base must be 2 to {BASE_MAX:,}, not {base:,}")
        if not 1 <= replicas <= REPLICAS_MAX:
            raise UsageError(f"replicas must be 1 to {REPLICAS_MAX}, not {replicas:,}")
        if slack < 0:
            raise UsageError(f"slack must be 0 (exact) or more, not {slack}")
        sizes = [axis.size for axis in axes]
        parameters: dict[str, Any] = {
            "base": base,
            "levels": [list(Forest.holding(size, base).depths) for size in sizes],
            "slack": slack,
            "offsets": [mix(number) >> (64 - OFFSET_BITS) for number in range(len(axes))],
            "replicas": replicas,
            "shares": shares_of(positions, sizes).to_json(),
        }
        if not relocation:
            parameters["offsets"] = [0] * len(axes)
        if boxes.owner.size:
            worth = _core(axes, BITS, parameters).levels_worth(boxes.low, boxes.high)
            parameters["levels"] = [list(depths) for depths in worth]
        return parameters

    @classmethod
    def bits_needed(cls, axes: Sequence[Axis], parameters: Dict[str, Any]) -> int:
        return BITS

    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys:
        found: list[int] = []
        for box in boxes_of(filter_, self.spec.axes):
            keys = self.core.keys_of_box(box)
            if keys is None:
                return AT_ROOT
            found += keys
        return joined((key, key + 1) for key in found)

    def event_keys(self, event: Dict[str, Value]) -> tuple[int, ...]:
        at = position_of(event, self.spec.axes)
        return self.core.keys_of_event(at)

    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        boxes = boxes_of_table(table, self.spec.axes)
        counts, keys, at_root = self.core.keys_of_boxes(boxes.low, boxes.high)
        root = np.zeros(table.size, np.bool_)
        root[boxes.owner[at_root]] = True
        first_keys = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return joined_table(first_keys[box_starts(boxes, table.size)], keys, keys + 1, root)

    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        offsets, keys = self.core.keys_of_events(positions_of(events, self.spec.axes))
        return KeyTable(offsets, keys.view(np.uint64))


def _core(axes: Sequence[Axis], bits: int, parameters: Dict[str, Any]) -> TnodeKeys:
    sizes = tuple(axis.size for axis in axes)
    return TnodeKeys(
        sizes,
        tuple(Forest.holding(size, parameters["base"]) for size in sizes),
        tuple(tuple(depths) for depths in parameters["levels"]),
        tuple(parameters["offsets"]),
        Shares.from_json(parameters["shares"]),
        parameters["slack"],
        parameters["replicas"],
        bits,
    )
