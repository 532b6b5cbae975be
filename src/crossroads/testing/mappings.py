"""The contract of a mapping as a test that anyone can run on their own.

    def test_my_mapping():
        check_mapping(lambda schema, sample: MyMapping(my_spec(schema, sample), schema))

draws schemas, filters of the whole language and events, lets the mapping be fitted to some of them,
and checks everything below on others too. `check_mapping(mapping, filters, events)` checks one
on given data, `check_mapping(mapping)` on data drawn for its schema.

Checked: the law (what matches meets, judged by the definition of a match); keys sorted, apart and
within the key space; columns give what single values give; a spec that went through JSON, and a
mapping that was pickled, give the same keys; and whatever way the keys are grouped into cells,
every matching pair that is not at the root has exactly one reporting cell.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.balance import balanced
from crossroads.mapping.cells import (
    CellRanges,
    Cells,
    EventCells,
    reported_here,
    reporting_cell,
)
from crossroads.mapping.contract import Mapping, SubscriptionKeys
from crossroads.mapping.sample import Sample
from crossroads.mapping.spec import MappingSpec
from crossroads.matching.definition import matches
from crossroads.model.filter import Filter
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import GROUP_ROWS_MIN, FilterTable, read_filters
from crossroads.testing.strategies import Event, event_lists, event_table, filters, schemas

MakeMapping = Callable[[Schema, Sample], Mapping]

CELL_COUNTS = (1, 2, 7, 64)


def check_mapping(
    mapping: Mapping | MakeMapping,
    filter_texts: Sequence[str] | None = None,
    events: Sequence[Event] | None = None,
) -> None:
    """Raises AssertionError with the smallest case found in which the contract is broken."""
    if isinstance(mapping, Mapping):
        if filter_texts is not None and events is not None:
            _check(mapping, filter_texts, events)
        else:
            _drawn_for(mapping)
    else:
        _drawn_with(mapping)


def _drawn_for(mapping: Mapping) -> None:
    @given(st.data())
    def run(data: st.DataObject) -> None:
        _check(mapping, *_draw(data, mapping.schema))

    run()


def _drawn_with(make: MakeMapping) -> None:
    @given(st.data())
    def run(data: st.DataObject) -> None:
        schema = data.draw(schemas(max_attributes=4))
        texts, events = _draw(data, schema)
        seen = data.draw(st.integers(0, len(texts)))
        sampled = read_filters(pa.array(texts[:seen], pa.string()), schema)
        sample = Sample(sampled, event_table(schema, events[: data.draw(st.integers(0, 4))]))
        _check(make(schema, sample), texts, events)

    run()


def _draw(data: st.DataObject, schema: Schema) -> tuple[list[str], list[Event]]:
    texts = data.draw(st.lists(filters(schema, depth=2), min_size=1, max_size=5))
    # Repeated: filters of one shape are read as columns, rare ones by themselves.
    return texts * data.draw(st.sampled_from((1, GROUP_ROWS_MIN))), data.draw(
        event_lists(schema, max_size=8)
    )


def _check(mapping: Mapping, texts: Sequence[str], events: Sequence[Event]) -> None:
    table = read_filters(pa.array(texts, pa.string()), mapping.schema)
    assert not table.errors, table.errors
    parsed = [parse(text, mapping.schema) for text in texts]
    wanted = [mapping.subscription_keys(filter_) for filter_ in parsed]
    found = [mapping.event_keys(event) for event in events]
    for keys in wanted:
        _check_ranges(mapping, keys)
    for event_keys in found:
        assert list(event_keys) == sorted(set(event_keys)), "keys of an event must ascend"
        assert all(0 <= key < 1 << mapping.spec.bits for key in event_keys)
        for one in (one for keys in wanted for one in keys.ranges):
            assert all((key - one.low) % mapping.stride == 0 for key in event_keys if key in one)
    _check_columns(mapping, table, events, wanted, found)
    pairs = _check_law(parsed, texts, events, wanted, found)
    _check_again(mapping, parsed, events, wanted, found)
    for count in CELL_COUNTS:
        _check_cells(mapping, table, events, count, pairs)


def _check_ranges(mapping: Mapping, keys: SubscriptionKeys) -> None:
    for one in keys.ranges:
        assert 0 <= one.low < one.high <= 1 << mapping.spec.bits, one
    for one, other in pairwise(keys.ranges):
        assert one.high < other.low, "ranges must ascend and not touch"


def _check_columns(
    mapping: Mapping,
    table: FilterTable,
    events: Sequence[Event],
    wanted: Sequence[SubscriptionKeys],
    found: Sequence[tuple[int, ...]],
) -> None:
    ranges = mapping.keys_of_subscriptions(table)
    assert ranges.offsets.size == table.size + 1
    assert ranges.root.tolist() == [keys.root for keys in wanted]
    for row, keys in enumerate(wanted):
        start, end = ranges.offsets[row], ranges.offsets[row + 1]
        columns = list(
            zip(ranges.low[start:end].tolist(), ranges.high[start:end].tolist(), strict=True)
        )
        assert columns == [(one.low, one.high) for one in keys.ranges], f"subscription {row}"
    batch = event_table(mapping.schema, events)
    listed = mapping.keys_of_events(batch)
    assert listed.offsets.size == len(events) + 1
    for row, event_keys in enumerate(found):
        at = slice(listed.offsets[row], listed.offsets[row + 1])
        assert listed.keys[at].tolist() == list(event_keys), f"event {row}"


def _check_law(
    parsed: Sequence[Filter],
    texts: Sequence[str],
    events: Sequence[Event],
    wanted: Sequence[SubscriptionKeys],
    found: Sequence[tuple[int, ...]],
) -> list[tuple[int, int]]:
    """Returns the matching pairs that are not at the root."""
    pairs: list[tuple[int, int]] = []
    for row, filter_ in enumerate(parsed):
        for at, event in enumerate(events):
            if wanted[row].root or not matches(filter_, event):
                continue
            shared = any(key in one for key in found[at] for one in wanted[row].ranges)
            assert shared, f"{texts[row]} matches {event}, but they share no key"
            pairs.append((row, at))
    return pairs


def _check_again(
    mapping: Mapping,
    parsed: Sequence[Filter],
    events: Sequence[Event],
    wanted: Sequence[SubscriptionKeys],
    found: Sequence[tuple[int, ...]],
) -> None:
    spec = MappingSpec.from_json(mapping.spec.to_json())
    assert spec == mapping.spec and spec.id == mapping.spec.id
    # From the spec, and as it travels to the tasks of a cluster.
    for again in (type(mapping)(spec, mapping.schema), pickle.loads(pickle.dumps(mapping))):
        assert [again.subscription_keys(filter_) for filter_ in parsed] == list(wanted)
        assert [again.event_keys(event) for event in events] == list(found)


def _check_cells(
    mapping: Mapping,
    table: FilterTable,
    events: Sequence[Event],
    count: int,
    pairs: Sequence[tuple[int, int]],
) -> None:
    ranges = mapping.keys_of_subscriptions(table)
    batch = event_table(mapping.schema, events)
    keys = mapping.keys_of_events(batch)
    count = min(count, 1 << mapping.spec.bits)
    for cells in (
        Cells(mapping.spec.bits, count),
        balanced(mapping, Sample(table, batch), count),
        _random_cells(mapping.spec.bits, count),
    ):
        assert cells.count <= count
        placed, visited = cells.cells_of_ranges(ranges), cells.cells_of_keys(keys)
        for row, at in pairs:
            runs = range(int(placed.offsets[row]), int(placed.offsets[row + 1]))
            mine = [(int(placed.first[run]), int(placed.last[run])) for run in runs]
            theirs = visited.cells[visited.offsets[at] : visited.offsets[at + 1]].tolist()
            shared = [cell for cell in theirs if any(low <= cell <= high for low, high in mine)]
            reporting = [cell for cell in shared if _reports(cell, row, at, placed, visited)]
            assert reporting == [reporting_cell(mine, theirs)] == [min(shared, default=None)]


def _reports(cell: int, row: int, at: int, placed: CellRanges, visited: EventCells) -> bool:
    """As a task that has only this cell would judge."""
    found = reported_here(
        cell,
        np.array([at], np.int64),
        visited.offsets,
        visited.cells,
        np.array([row], np.int32),
        placed.offsets,
        placed.first,
        placed.last,
    )
    return bool(found[0])


def _random_cells(bits: int, count: int) -> Cells:
    """Cuts anywhere; always the same for a count, so that a failure can be repeated."""
    dice = random.Random(count)
    return Cells.cut_at(bits, [dice.randint(1, (1 << bits) - 1) for _ in range(count - 1)])
