"""A small proof, as `make prove` does at length: bulk definition = definition = index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crossroads.lab.workloads import stocks
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.testing.bulk import BulkDefinition
from crossroads.testing.seeded import SeededFilters

WORKLOAD = stocks(9, 3_000, 1)
SCHEMA = Schema.from_toml(WORKLOAD.schema_toml)


def some_events(count: int) -> pa.Table:
    """Some quotes, every seventh value NULL."""
    rng = np.random.default_rng(9)
    table = WORKLOAD.events()
    table = table.take(pa.array(np.sort(rng.choice(table.num_rows, count, replace=False))))
    columns = []
    for name in table.column_names:
        gone = pa.array(rng.random(count) < 1 / 7)
        column = table[name].combine_chunks()
        columns.append(pa.array(column.to_pylist(), column.type, mask=np.asarray(gone)))
    return pa.table(columns, names=table.column_names)


def test_the_index_is_the_definition_on_thousands_of_filters() -> None:
    events = some_events(50)
    drawn = SeededFilters(SCHEMA, WORKLOAD.events(), 9)
    texts = [drawn.filter().text for _ in range(2_000)]
    found = MatchIndex.build(read_filters(pa.array(texts), SCHEMA)).match_batch(events)
    given = set(zip(found.events.tolist(), found.ordinals.tolist(), strict=True))
    assert len(given) == len(found.ordinals)  # each pair once
    definition = BulkDefinition(events.to_pylist())
    expected = {
        (event, ordinal)
        for ordinal, text in enumerate(texts)
        for event in np.flatnonzero(definition.matches(parse(text, SCHEMA))).tolist()
    }
    assert given == expected


def test_the_bulk_definition_is_the_definition() -> None:
    events = some_events(20).to_pylist()
    drawn = SeededFilters(SCHEMA, WORKLOAD.events(), 10)
    definition = BulkDefinition(events)
    for _ in range(200):
        filter_ = parse(drawn.filter().text, SCHEMA)
        assert definition.matches(filter_).tolist() == [matches(filter_, e) for e in events]


def test_equal_seeds_give_equal_filters() -> None:
    one, other = (SeededFilters(SCHEMA, WORKLOAD.events(), 3) for _ in range(2))
    assert [one.filter() for _ in range(50)] == [other.filter() for _ in range(50)]
