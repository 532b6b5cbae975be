"""Plan `sql` gives exactly the pairs of the definition, each once, with every mapping.

CROSSROADS_SPARK_EXAMPLES=100 runs a larger campaign with fresh randomness.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crossroads.lab.workloads import stocks
from crossroads.mapping.cells import Cells
from crossroads.mapping.fit import MAPPINGS, Sample, fit
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, read_filters
from crossroads.pipeline.meeting import Meeting
from crossroads.pipeline.sql import sql_pairs
from crossroads.testing.strategies import Event, event_lists, event_table, filters, schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CAMPAIGN = os.environ.get("CROSSROADS_SPARK_EXAMPLES")
EXAMPLES = int(CAMPAIGN or 1)  # each is a query of many joins: some seconds, mostly planning
RANDOM = settings(
    max_examples=EXAMPLES,
    derandomize=CAMPAIGN is None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CELLS = 5  # few, uneven with any key space, so that pairs meet in several of them


def frame(spark: SparkSession, events: pa.Table) -> DataFrame:
    rows = pa.array(range(events.num_rows), pa.int64())
    return spark.createDataFrame(events.append_column("_event_row", rows))


def pairs(
    spark: SparkSession, table: FilterTable, events: pa.Table, mapping: str, replicas: int = 1
) -> list[tuple[int, int]]:
    fitted = fit(mapping, table.schema, Sample(table, events))
    cells = Cells(fitted.spec.bits, min(CELLS, 1 << fitted.spec.bits))
    shared = np.full(cells.count, replicas, np.int32)
    found = sql_pairs(frame(spark, events), table, Meeting(fitted, cells, shared))
    try:
        return sorted((row[0], row[1]) for row in found.pairs.collect())
    finally:
        found.kept.unpersist()


@pytest.mark.parametrize("mapping", MAPPINGS)
@RANDOM
@given(data=st.data())
def test_random_filters_and_events(spark: SparkSession, mapping: str, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    texts = data.draw(st.lists(filters(schema), min_size=4, max_size=16))
    events: list[Event] = data.draw(event_lists(schema, min_size=8, max_size=24))
    table = read_filters(pa.array(texts), schema)
    trees = {at: parse(text, schema) for at, text in enumerate(texts) if at not in table.errors}
    expected = sorted(
        (row, at)
        for row, event in enumerate(events)
        for at, tree in trees.items()
        if matches(tree, event)
    )
    assert pairs(spark, table, event_table(schema, events), mapping) == expected


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_stocks_with_hot_cells_in_several_replicas(spark: SparkSession, mapping: str) -> None:
    workload = stocks(3, 2_000, 400)
    events = workload.events()
    schema = Schema.from_toml(workload.schema_toml)
    rows = workload.subscriptions()
    table = read_filters(rows["filter"], schema)
    found = MatchIndex.build(table).match_batch(events)
    expected = sorted(zip(found.events.tolist(), found.ordinals.tolist(), strict=True))
    assert expected
    assert pairs(spark, table, events, mapping, replicas=3) == expected
