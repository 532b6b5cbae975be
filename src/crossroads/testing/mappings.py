"""The contract of a mapping as a test that anyone can run on their own.

    def test_my_mapping():
        check_mapping(lambda schema, sample: MyMapping(my_spec(schema, sample), schema))

draws schemas (with and without domains), filters of the whole language and events, lets the mapping
be fitted to some of them, and checks everything below on others too. `check_mapping(mapping,
filters, events)` checks one on given data, `check_mapping(mapping)` on data drawn for its schema.

Checked: the law (what matches meets, judged by the definition of a match); keys sorted, apart and
within the key space, one per event where `one_key` says so; columns give what single values give; a
spec that went through JSON, a mapping that was pickled, and another process with other hashes of
Python's own give the same keys; and whatever way the keys are grouped into cells, every matching
pair that is not at the root has exactly one reporting cell.

How many keys a subscription has is not checked: it is what mappings differ in. The counts that the
documents give (C3) are tests of those mappings, in tests/mapping/test_chord.py.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

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
from crossroads.mapping.contract import KeyTable, Mapping, RangeTable, SubscriptionKeys
from crossroads.mapping.sample import Sample
from crossroads.mapping.spec import MappingSpec
from crossroads.matching.definition import matches
from crossroads.model.filter import Filter
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.testing.strategies import Event, event_lists, event_table, filter_lists, schemas

MakeMapping = Callable[[Schema, Sample], Mapping]
Case = tuple[Mapping, Sequence[str], Sequence[Event]]

CELL_COUNTS = (1, 2, 7, 64)
CASES_ELSEWHERE = 20  # of the drawn ones: enough to have every type of attribute among them
PROGRAM_ELSEWHERE = "from crossroads.testing.mappings import answer_cases; answer_cases()"


def check_mapping(
    mapping: Mapping | MakeMapping,
    filter_texts: Sequence[str] | None = None,
    events: Sequence[Event] | None = None,
    *,
    another_process: bool = True,
) -> None:
    """Raises AssertionError with the smallest case found in which the contract is broken.

    `another_process=False` leaves out the one check that starts a process, a second or two: for
    tests that call this once per example. Otherwise the class must be one that Python can import.
    """
    if not isinstance(mapping, Mapping):
        if filter_texts is not None or events is not None:
            raise TypeError(
                "filters and events are for a mapping, not for a function that fits one"
            )
        cases = _drawn_with(mapping)
    elif filter_texts is not None and events is not None:
        _check(mapping, filter_texts, events)
        cases = [(mapping, filter_texts, events)]
    elif filter_texts is None and events is None:
        cases = _drawn_for(mapping)
    else:
        raise TypeError("give filters and events, or neither: then both are drawn")
    if another_process:
        _check_elsewhere(cases)


def _drawn_for(mapping: Mapping) -> list[Case]:
    """Returns a few of the cases that were checked."""
    last: deque[Case] = deque(maxlen=CASES_ELSEWHERE)

    @given(st.data())
    def run(data: st.DataObject) -> None:
        texts, events = _draw(data, mapping.schema)
        _check(mapping, texts, events)
        last.append((mapping, texts, events))

    run()
    return list(last)


def _drawn_with(make: MakeMapping) -> list[Case]:
    last: deque[Case] = deque(maxlen=CASES_ELSEWHERE)

    @given(st.data())
    def run(data: st.DataObject) -> None:
        schema = data.draw(schemas(max_attributes=4, domains=True))
        texts, events = _draw(data, schema)
        seen = data.draw(st.integers(0, len(texts)))
        sampled = read_filters(pa.array(texts[:seen], pa.string()), schema)
        sample = Sample(sampled, event_table(schema, events[: data.draw(st.integers(0, 4))]))
        mapping = make(schema, sample)
        _check(mapping, texts, events)
        last.append((mapping, texts, events))

    run()
    return list(last)


def _draw(data: st.DataObject, schema: Schema) -> tuple[list[str], list[Event]]:
    return data.draw(filter_lists(schema)), data.draw(event_lists(schema, max_size=8))


def _check(mapping: Mapping, texts: Sequence[str], events: Sequence[Event]) -> None:
    table = read_filters(pa.array(texts, pa.string()), mapping.schema)
    assert not table.errors, table.errors
    parsed = [parse(text, mapping.schema) for text in texts]
    wanted = [mapping.subscription_keys(filter_) for filter_ in parsed]
    found = [mapping.event_keys(event) for event in events]
    for keys in wanted:
        _check_ranges(mapping, keys)
    for event_keys in found:
        _check_event(mapping, event_keys, wanted)
    batch = event_table(mapping.schema, events)
    ranges, keys_of_events = mapping.keys_of_subscriptions(table), mapping.keys_of_events(batch)
    _check_columns(ranges, keys_of_events, wanted, found)
    pairs = _check_law(parsed, texts, events, wanted, found)
    _check_again(mapping, parsed, events, wanted, found)
    for count in CELL_COUNTS:
        for cells in _ways_to_cut(mapping, Sample(table, batch), count):
            _check_cells(cells.cells_of_ranges(ranges), cells.cells_of_keys(keys_of_events), pairs)


def _check_ranges(mapping: Mapping, keys: SubscriptionKeys) -> None:
    assert not (keys.root and keys.ranges), "what stands at the root has no ranges besides"
    for one in keys.ranges:
        assert 0 <= one.low < one.high <= 1 << mapping.spec.bits, one
    for one, other in pairwise(keys.ranges):
        assert one.high < other.low, "ranges must ascend and not touch"


def _check_event(
    mapping: Mapping, keys: tuple[int, ...], wanted: Sequence[SubscriptionKeys]
) -> None:
    assert list(keys) == sorted(set(keys)), "keys of an event must ascend"
    assert all(0 <= key < 1 << mapping.spec.bits for key in keys), "a key outside the key space"
    assert len(keys) == 1 or not mapping.one_key, f"one_key, but an event has {len(keys)} keys"
    for one in (one for subscription in wanted for one in subscription.ranges):
        within = [key for key in keys if key in one]
        assert all((key - one.low) % mapping.stride == 0 for key in within), "a key off the stride"


def _check_columns(
    ranges: RangeTable,
    keys: KeyTable,
    wanted: Sequence[SubscriptionKeys],
    found: Sequence[tuple[int, ...]],
) -> None:
    assert ranges.offsets.size == len(wanted) + 1
    at_root = [subscription.root for subscription in wanted]
    assert ranges.root.tolist() == at_root, "columns: others stand at the root"
    for row, subscription in enumerate(wanted):
        at = slice(ranges.offsets[row], ranges.offsets[row + 1])
        columns = list(zip(ranges.low[at].tolist(), ranges.high[at].tolist(), strict=True))
        alone = [(one.low, one.high) for one in subscription.ranges]
        assert columns == alone, f"columns: other ranges of subscription {row}"
    assert keys.offsets.size == len(found) + 1
    for row, event_keys in enumerate(found):
        at = slice(keys.offsets[row], keys.offsets[row + 1])
        assert keys.keys[at].tolist() == list(event_keys), f"columns: other keys of event {row}"


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
    assert spec == mapping.spec and spec.id == mapping.spec.id, "a spec is not what its JSON says"
    # From the spec, and as it travels to the tasks of a cluster.
    for again in (type(mapping)(spec, mapping.schema), pickle.loads(pickle.dumps(mapping))):
        same = [again.subscription_keys(filter_) for filter_ in parsed] == list(wanted)
        same &= [again.event_keys(event) for event in events] == list(found)
        assert same, "made again from its spec, a mapping has other keys"


# -- cells -----------------------------------------------------------------------------------------


def _ways_to_cut(mapping: Mapping, sample: Sample, count: int) -> tuple[Cells, ...]:
    bits = mapping.spec.bits
    count = min(count, 1 << bits)
    found = Cells(bits, count), balanced(mapping, sample, count), _random_cells(bits, count)
    assert all(cells.count <= count for cells in found)
    return found


def _random_cells(bits: int, count: int) -> Cells:
    """Cuts anywhere; always the same for a count, so that a failure can be repeated."""
    dice = random.Random(count)
    return Cells.cut_at(bits, [dice.randint(1, (1 << bits) - 1) for _ in range(count - 1)])


def _check_cells(placed: CellRanges, visited: EventCells, pairs: Sequence[tuple[int, int]]) -> None:
    """Of the cells in which a matching pair meets, one reports it: the smallest."""
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


# -- another process -------------------------------------------------------------------------------


def _check_elsewhere(cases: Sequence[Case]) -> None:
    """All cases in one process, which has our modules but other hashes of Python's own."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_ELSEWHERE],
        input=pickle.dumps(cases),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"not usable in another process:\n{done.stderr.decode()}"
    for case, answer in zip(cases, pickle.loads(done.stdout), strict=True):
        assert answer == _both_forms(case), f"other keys in another process: {case[1]}, {case[2]}"


def answer_cases() -> None:
    """What the other process does: cases come in, their keys go out."""
    cases: Sequence[Case] = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps([_both_forms(case) for case in cases]))


def _both_forms(case: Case) -> tuple[list[Any], ...]:
    """The keys of a case one by one, and by columns."""
    mapping, texts, events = case
    table = read_filters(pa.array(texts, pa.string()), mapping.schema)
    ranges = mapping.keys_of_subscriptions(table)
    keys = mapping.keys_of_events(event_table(mapping.schema, events))
    columns = (ranges.offsets, ranges.low, ranges.high, ranges.root, keys.offsets, keys.keys)
    return (
        [mapping.subscription_keys(parse(text, mapping.schema)) for text in texts],
        [mapping.event_keys(event) for event in events],
        *(column.tolist() for column in columns),
    )
