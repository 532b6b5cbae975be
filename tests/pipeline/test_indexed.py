"""Plan `indexed`: what it gives is tested beside `naive`; here how: batches, shipping, columns."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from crossroads.errors import UsageError
from crossroads.indexfile import save_index
from crossroads.matching.index import MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.indexed import PAIRS_PER_BATCH, indexed_notifications, indexed_pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = Schema.from_toml(
    """
    id = ["at", "order.id"]
    [attributes]
    at = { type = "timestamp" }
    "order.id" = { type = "int" }
    total = { type = "decimal(10,2)" }
    """
)
NOON = datetime(2020, 1, 31, 12, tzinfo=UTC)


def saved(path: Path, texts: list[str]) -> Path:
    index = MatchIndex.build(read_filters(pa.array(texts, pa.string()), SCHEMA))
    ids = [f"s{number}" for number in range(len(texts))]
    names = pa.table({"id": ids, "subscriber": [f"who {name}" for name in ids]})
    save_index(path, index, subscriptions=names, subscription_version=1, content_hash="")
    return path


def orders(spark: SparkSession, count: int) -> DataFrame:
    numbers = pa.array(range(count), pa.int64())
    table = pa.table(
        {
            "_event_row": numbers,
            "at": pa.array([NOON] * count, pa.timestamp("us", tz="UTC")),
            "order.id": numbers.cast(pa.int32()),
            "total": numbers.cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2)),
        }
    )
    return spark.createDataFrame(table)


def pairs_of(found: DataFrame) -> list[tuple[int, int]]:
    return sorted(tuple(row) for row in found.collect())


def test_pairs(spark, tmp_path):
    index = saved(tmp_path / "i.cri", ["total >= 2", "`order.id` = 0", "at < '2020-01-31'"])
    found = indexed_pairs(orders(spark, 4), index)
    assert found.dtypes == [("_event_row", "bigint"), ("_ordinal", "int")]
    assert pairs_of(found) == [(0, 1), (2, 0), (3, 0)]


def test_an_event_may_match_more_than_a_batch_holds(spark, tmp_path):
    subscriptions = PAIRS_PER_BATCH + 1000
    index = saved(tmp_path / "i.cri", ["TRUE"] * subscriptions)
    found = indexed_pairs(orders(spark, 2), index).groupBy("_event_row")
    rows = found.agg({"*": "count", "_ordinal": "sum"}).collect()
    every = sum(range(subscriptions))
    assert sorted(map(tuple, rows)) == [(row, subscriptions, every) for row in (0, 1)]


def test_more_events_than_the_first_step(spark, tmp_path):
    index = saved(tmp_path / "i.cri", ["`order.id` >= 990", "total = 5"])
    expected = [(5, 1), *((row, 0) for row in range(990, 1000))]
    assert pairs_of(indexed_pairs(orders(spark, 1000), index)) == expected


def test_the_file_is_shipped_and_may_be_gone_afterwards(spark, tmp_path):
    for texts in (["total >= 2"], ["total < 2"]):  # one name, two files: both must arrive
        index = saved(tmp_path / "i.cri", texts)
        found = indexed_pairs(orders(spark, 3), index, distribute=True)
        index.unlink()
        assert {row for row, _ in pairs_of(found)} == ({2} if ">=" in texts[0] else {0, 1})


def test_shipping_a_file_that_is_not_there(spark, tmp_path):
    with pytest.raises(UsageError, match="cannot read the file"):
        indexed_pairs(orders(spark, 1), tmp_path / "none.cri", distribute=True)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_notifications_name_events_and_receivers(spark, tmp_path, zone):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    index = saved(tmp_path / "i.cri", ["total >= 1", "at = '2020-01-31 12:00:00'"])
    found = indexed_notifications(
        orders(session, 2), index, SCHEMA, include=["order.id", "total", "at"]
    )
    names = ["event_id", "subscription_id", "subscriber", "order.id", "total", "at"]
    assert found.columns == names
    rows = found.selectExpr(*names[:3], "`order.id`", "total", "unix_micros(at)").collect()
    micros = int(NOON.timestamp()) * 10**6
    assert sorted((row[0], row[1], row[2], row[3], int(row[4]), row[5]) for row in rows) == [
        ("2020-01-31 12:00:00|0", "s1", "who s1", 0, 0, micros),
        ("2020-01-31 12:00:00|1", "s0", "who s0", 1, 1, micros),
        ("2020-01-31 12:00:00|1", "s1", "who s1", 1, 1, micros),
    ]
