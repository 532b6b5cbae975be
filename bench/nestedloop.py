"""Spark's own nested-loop join over all stock subscriptions at once, written by hand.

One table with a column per bound, NULL where a subscription has none: what somebody would write who
has no index. Plan `naive` goes shape by shape instead, which is about twice as fast.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from bench.measure import RUNS
from crossroads.lab.workloads import Workload
from crossroads.pipeline.session import spark_session

BOUNDS = {
    "wanted": pa.string(),
    "open_least": pa.float64(),
    "open_most": pa.float64(),
    "low_most": pa.float64(),
    "high_least": pa.float64(),
    "volume_least": pa.int64(),
}
# The bounds that the parameters of each of MEGHDOOT's templates are, in order.
PARAMETERS = {
    "symbol = :p1 AND open BETWEEN :p2 AND :p3": ("wanted", "open_least", "open_most"),
    "symbol = :p1 AND low <= :p2": ("wanted", "low_most"),
    "symbol = :p1 AND high >= :p2": ("wanted", "high_least"),
    "symbol = :p1 AND volume >= :p2": ("wanted", "volume_least"),
    "volume >= :p1": ("volume_least",),
}


def one_join(workload: Workload, cores: int) -> dict[str, Any]:
    """Parquet to Parquet, on as many tasks as there are cores."""
    spark = spark_session(f"local[{cores}]")
    with tempfile.TemporaryDirectory() as scratch:
        events, bounds = Path(scratch, "events.parquet"), Path(scratch, "bounds.parquet")
        pq.write_table(workload.events(), events)
        pq.write_table(_bounds(workload), bounds)
        times, matches = [], 0
        for run in range(RUNS + 1):  # the first one warms up
            out = str(Path(scratch, f"out-{run}"))
            started = time.perf_counter()
            _joined(spark, str(events), str(bounds), cores).write.parquet(out)
            times.append(time.perf_counter() - started)
            matches = spark.read.parquet(out).count()
    return {"seconds": round(statistics.median(times[1:]), 4), "matches": matches}


def _bounds(workload: Workload) -> pa.Table:
    tables = []
    for template in workload.typed_templates():
        given = dict(zip(PARAMETERS[template.text], template.columns.columns[2:], strict=True))
        size = template.columns.num_rows
        columns = {name: template.columns[name] for name in ("id", "subscriber")}
        for name, kind in BOUNDS.items():
            columns[name] = given[name].cast(kind) if name in given else pa.nulls(size, kind)
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def _joined(spark: SparkSession, events: str, bounds: str, cores: int) -> DataFrame:
    def unless_free(bound: str, condition: Column) -> Column:
        return F.col(bound).isNull() | condition

    inside = (
        unless_free("wanted", F.col("symbol") == F.col("wanted"))
        & unless_free("open_least", F.col("open") >= F.col("open_least"))
        & unless_free("open_most", F.col("open") <= F.col("open_most"))
        & unless_free("low_most", F.col("low") <= F.col("low_most"))
        & unless_free("high_least", F.col("high") >= F.col("high_least"))
        & unless_free("volume_least", F.col("volume") >= F.col("volume_least"))
    )
    left = spark.read.parquet(events).repartition(cores)
    right = F.broadcast(spark.read.parquet(bounds))
    event_id = F.concat_ws("|", F.col("date").cast("string"), "symbol").alias("event_id")
    return left.join(right, inside).select(
        event_id, F.col("id").alias("subscription_id"), "subscriber"
    )
