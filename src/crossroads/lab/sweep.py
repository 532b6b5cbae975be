"""A sweep on Spark: configurations in, one task each; rows to Parquet; means and intervals by SQL.

The configurations are a DataFrame, the longest first and each in a partition of its own, so that
the cores stay busy until the last one. Every task measures with plain numpy; rows of all
experiments have one schema, so one sweep runs several experiments side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from crossroads.lab.experiment import Configuration, Experiment
from crossroads.lab.experiments import experiment_of
from crossroads.lab.findings import NORMAL, STUDENT_T, Findings, Point
from crossroads.pipeline.job import Reporter
from crossroads.pipeline.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "rows"
SUMMARY = "summary"
ROW_SCHEMA = (
    "experiment string, configuration string, seed bigint, "
    "series string, metric string, x double, value double"
)


@dataclass(frozen=True)
class Task:
    experiment: str
    configuration: str  # as JSON
    cost: float

    @classmethod
    def of(cls, experiment: Experiment, configuration: Configuration) -> Task:
        text = msgspec.json.encode(configuration).decode()
        return cls(experiment.id, text, configuration.cost)


def sweep(spark: SparkSession, tasks: Sequence[Task], folder: Path, reporter: Reporter) -> None:
    """Measure every task; rows and their summary in `folder`, by experiment.

    What it holds of other experiments stays; of these it is replaced.
    """
    rows = _queue(spark, tasks).mapInArrow(_measure, ROW_SCHEMA)
    with watched(spark.sparkContext, len(tasks), reporter):
        # One exchange at the end: a file per experiment instead of one per configuration.
        _write(rows.repartition("experiment"), folder / ROWS)
    measured = spark.read.parquet(str(folder / ROWS))
    ran = sorted({task.experiment for task in tasks})
    _write(summary_of(measured.where(measured.experiment.isin(ran))), folder / SUMMARY)


def _queue(spark: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """One configuration in each partition; Spark starts them in the order of their numbers."""
    from pyspark.sql import functions as F  # noqa: N812  (the usual name)

    ordered = sorted(tasks, key=lambda task: -task.cost)
    given = [(place, one.experiment, one.configuration) for place, one in enumerate(ordered)]
    listed = spark.createDataFrame(given, "id bigint, experiment string, configuration string")
    places = spark.range(0, len(ordered), 1, numPartitions=max(1, len(ordered)))
    return places.join(F.broadcast(listed), "id").drop("id")


def _measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for task in batch.to_pylist():
            yield measured(task["experiment"], task["configuration"])


def measured(experiment: str, configuration: str) -> pa.RecordBatch:
    """The rows of one task."""
    found = experiment_of(experiment)
    decoded = msgspec.json.decode(configuration, type=found.kind)
    rows = list(found.measure(decoded))
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    series, metric, x, value = (list(column) for column in columns)
    return pa.record_batch(
        {
            "experiment": pa.array([experiment] * len(rows), pa.string()),
            "configuration": pa.array([configuration] * len(rows), pa.string()),
            "seed": pa.array([decoded.seed] * len(rows), pa.int64()),
            "series": pa.array(series, pa.string()),
            "metric": pa.array(metric, pa.string()),
            "x": pa.array(x, pa.float64()),
            "value": pa.array(value, pa.float64()),
        }
    )


def summary_of(rows: DataFrame) -> DataFrame:
    """By experiment, series, metric and x: mean, deviation, runs and the margin of the mean."""
    spark = rows.sparkSession
    quantiles = list(enumerate(STUDENT_T, 1))
    spark.createDataFrame(quantiles, "freedom bigint, quantile double").createOrReplaceTempView(
        "student_t"
    )
    rows.createOrReplaceTempView("lab_rows")
    return spark.sql(
        f"""
        WITH grouped AS (
            SELECT experiment, series, metric, x,
                   avg(value) AS mean, coalesce(stddev_samp(value), 0) AS sd, count(*) AS runs
            FROM lab_rows GROUP BY experiment, series, metric, x
        )
        SELECT /*+ BROADCAST(student_t) */ experiment, series, metric, x, mean, sd, runs,
               IF(runs > 1, coalesce(quantile, {NORMAL}) * sd / sqrt(runs), 0) AS margin
        FROM grouped LEFT JOIN student_t ON freedom = runs - 1
        ORDER BY experiment, series, metric, x
        """
    )


def _write(frame: DataFrame, folder: Path) -> None:
    """Replace the experiments that the frame has, and leave the others."""
    (
        frame.write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy("experiment")
        .parquet(str(folder))
    )


def read_findings(folder: Path, experiment: str) -> Findings:
    """Of an experiment in a folder that a sweep has written. Needs no Spark."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / SUMMARY / f"experiment={experiment}", partitioning=None)
    wanted = table.select(["series", "metric", "x", "mean", "sd", "runs", "margin"])
    return Findings(Point(**row) for row in wanted.to_pylist())
