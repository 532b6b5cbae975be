"""The definition gives what Spark's own WHERE gives: true, false or unknown, event by event.

Random filters over random schemas and events, then named cases. Each Spark query evaluates many
filters as columns. RLIKE is left out: it has RE2's meaning, which is the one stated exception.
CROSSROADS_SPARK_EXAMPLES=500 runs a larger campaign with fresh randomness.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from crossroads.errors import FilterError
from crossroads.matching.definition import truth
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.testing.strategies import (
    Event,
    FilterText,
    event_lists,
    event_table,
    filter_twins,
    schemas,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CAMPAIGN = os.environ.get("CROSSROADS_SPARK_EXAMPLES")
EXAMPLES = int(CAMPAIGN or 12)  # queries; each takes about a second, nearly all of it planning
FILTERS_PER_EXAMPLE = 30
EVENTS_PER_EXAMPLE = 24


def spark_truths(
    spark: SparkSession, schema: Schema, events: Sequence[Event], texts: Sequence[str]
) -> list[list[bool | None]]:
    """For each event, what Spark says of each text."""
    from pyspark.sql.functions import expr

    frame = spark.createDataFrame(event_table(schema, events))
    columns = [expr(text).alias(f"f{at}") for at, text in enumerate(texts)]
    rows = frame.select("id", *columns).collect()
    by_id = {row["id"]: list(row)[1:] for row in rows}
    return [by_id[event["id"]] for event in events]


def assert_spark_agrees(
    spark: SparkSession, schema: Schema, events: Sequence[Event], twins: Sequence[FilterText]
) -> None:
    try:
        theirs = spark_truths(spark, schema, events, [twin.spark for twin in twins])
    except PySparkException as error:
        if len(twins) == 1:
            raise AssertionError(f"Spark refuses {twins[0].spark}: {str(error)[:400]}") from error
        half = len(twins) // 2
        assert_spark_agrees(spark, schema, events, twins[:half])
        assert_spark_agrees(spark, schema, events, twins[half:])
        return
    for at, twin in enumerate(twins):
        ours = parse(twin.text, schema)
        for event, row in zip(events, theirs, strict=True):
            assert truth(ours, event) is row[at], (twin, event, f"Spark: {row[at]}")


@settings(
    max_examples=EXAMPLES,
    derandomize=CAMPAIGN is None,
    database=None,
    phases=[Phase.generate],  # shrinking would take a query per step; the message names the pair
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_random_filters_mean_what_they_mean_in_spark(data, spark):
    schema = data.draw(schemas(max_attributes=8))
    events = data.draw(event_lists(schema, min_size=8, max_size=EVENTS_PER_EXAMPLE))
    twin = filter_twins(schema, depth=2, rlike=False)
    twins = data.draw(st.lists(twin, min_size=FILTERS_PER_EXAMPLE, max_size=FILTERS_PER_EXAMPLE))
    assert_spark_agrees(spark, schema, events, twins)
