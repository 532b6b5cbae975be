"""MEGHDOOT's mapping: SK is the zone of each box, EK all zones that the event's region meets.

A box is stored once, an event travels: good where subscriptions are many and events few. The zones
are cut where sampled subscriptions are; the tree is part of the spec. A box that leaves every axis
open would be met by every event wherever it is, so it stands at the root.

`parameters`: "tree" (see `zone_tree`) and "replicas", the copies each zone should have because
of the events it sees (see `zone_load`). Copies are for whoever runs the mapping, to spread the
events of a zone over; the keys do not depend on them.
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
from crossroads.mapping.positions import position_of, positions_of
from crossroads.mapping.spec import MappingSpec, need_axes
from crossroads.mapping.zone_load import HOT_FACTOR, replicas
from crossroads.mapping.zone_tree import Ints, ZoneTree, grow
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

# An event visits 17 to 32 of 256 zones with the documents' workloads, and 35 to 90 of 1,024: more
# zones cost more copies of events than they save in candidates.
ZONES = 256
ZONES_MAX = 1 << 20  # the tree travels with the spec


class Zones(Mapping):
    name = "zones"

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        need_axes(spec)
        self.tree = ZoneTree.from_json(spec.parameters["tree"])
        if self.tree.zones > 1 << spec.bits:
            raise UsageError(f"m = {spec.bits} bits are too few for {self.tree.zones:,} zones")

    @staticmethod
    def fit_parameters(
        axes: Sequence[Axis],
        boxes: BoxTable,
        positions: Ints,
        *,
        zones: int = ZONES,
        boxes_per_zone: int = 1,
        hot_factor: float = HOT_FACTOR,
    ) -> dict[str, Any]:
        """From sampled boxes and the positions of sampled events (rows are events)."""
        if not 1 <= zones <= ZONES_MAX:
            raise UsageError(f"zones must be 1 to {ZONES_MAX:,}, not {zones:,}")
        if not hot_factor > 0:
            raise UsageError(f"hot_factor must be more than 0, not {hot_factor}")
        placed = boxes.constrained.any(axis=1)
        tree = grow(boxes.low[placed], boxes.high[placed], zones=zones, target=boxes_per_zone)
        _, visited = tree.leaves_of_events(positions)
        visits = np.bincount(visited, minlength=tree.zones)
        return {"tree": tree.to_json(), "replicas": replicas(visits, hot_factor).tolist()}

    @classmethod
    def bits_needed(cls, axes: Sequence[Axis], parameters: Dict[str, Any]) -> int:
        """Enough for the number of every zone."""
        return max(1, (ZoneTree.from_json(parameters["tree"]).zones - 1).bit_length())

    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys:
        boxes = boxes_of(filter_, self.spec.axes)
        if tuple(axis.whole for axis in self.spec.axes) in boxes:
            return AT_ROOT
        zones = [self.tree.zone_of(box) for box in boxes]
        return joined((zone, zone + 1) for zone in zones)

    def event_keys(self, event: Dict[str, Value]) -> tuple[int, ...]:
        at = position_of(event, self.spec.axes)
        return tuple(self.tree.zones_meeting(at, at))

    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        boxes = boxes_of_table(table, self.spec.axes)
        leaves = self.tree.leaves_of_boxes(boxes.low, boxes.high)
        root = np.zeros(table.size, np.bool_)
        root[boxes.owner[~boxes.constrained.any(axis=1)]] = True
        return joined_table(box_starts(boxes, table.size), leaves, leaves + 1, root)

    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        offsets, leaves = self.tree.leaves_of_events(positions_of(events, self.spec.axes))
        return KeyTable(offsets, leaves.view(np.uint64))
