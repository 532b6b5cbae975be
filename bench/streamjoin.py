"""The rival: a stream-static equi-join in Spark Structured Streaming, by somebody who knows it.

Both sides get the cell of a grid over the four attributes as their key; a subscription is repeated
for each cell that it touches. The static side is typed, cached and loaded before the first event.
Spark would broadcast or shuffle a static side anew for every batch, which takes over a second; so
the few events of the batch are broadcast instead, and the cached side is streamed past them.
The ranges themselves are checked after the join, so the result is exact.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql.streaming.query import StreamingQuery

from bench.streamload import ATTRIBUTES, DOMAIN, told_to_stop
from crossroads.pipeline.session import spark_session

EVENT = "id long, " + ", ".join(f"a{n} int" for n in range(1, ATTRIBUTES + 1))
NAMES = tuple(f"a{n}" for n in range(1, ATTRIBUTES + 1))
FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    # Plans of a few tasks gain nothing from being planned again while they run.
    "spark.sql.adaptive.enabled": "false",
}


@dataclass(frozen=True)
class Join:
    typed: str
    inbox: str
    output: str
    checkpoint: str
    trigger_ms: int
    cores: int
    bits: int  # of the grid, per attribute
    plain: bool = False  # as most would write it: Spark chooses how to join
    sink: Literal["files", "batches"] = "files"


def cells(bits: int, places: list[Column]) -> Column:
    found = F.lit(0)
    for one in places:
        found = F.shiftleft(found, bits).bitwiseOR(one)
    return found


def place(column: Column, bits: int) -> Column:
    return F.floor(column.cast("long") * (1 << bits) / (DOMAIN + 1)).cast("int")


def static_side(spark: SparkSession, join: Join) -> DataFrame:
    """Every subscription under each of its cells, in as many partitions as there are cores."""
    frame = spark.read.parquet(join.typed)
    for at, name in enumerate(NAMES):
        low, high = (place(F.col(f"p{2 * at + end}"), join.bits) for end in (1, 2))
        frame = frame.withColumn(f"cell_{name}", F.explode(F.sequence(low, high)))
    frame = frame.withColumn("cell", cells(join.bits, [F.col(f"cell_{name}") for name in NAMES]))
    frame = frame.drop(*(f"cell_{name}" for name in NAMES)).withColumnRenamed(
        "id", "subscription_id"
    )
    frame = frame.repartition(join.cores).cache()
    frame.count()
    return frame


def joined(events: DataFrame, subscriptions: DataFrame, bits: int, *, plain: bool) -> DataFrame:
    keyed = events.withColumn("cell", cells(bits, [place(F.col(name), bits) for name in NAMES]))
    within = F.lit(True)
    for at, name in enumerate(NAMES):
        within = within & F.col(name).between(F.col(f"p{2 * at + 1}"), F.col(f"p{2 * at + 2}"))
    sides = (keyed, subscriptions) if plain else (subscriptions, F.broadcast(keyed))
    found = sides[0].join(sides[1], "cell").where(within)
    return found.select(
        F.col("id").cast("string").alias("event_id"), "subscription_id", "subscriber"
    )


def start(spark: SparkSession, join: Join) -> StreamingQuery:
    events = spark.readStream.schema(EVENT).parquet(join.inbox)
    frame = joined(events, static_side(spark, join), join.bits, plain=join.plain)
    if join.sink == "files":
        writer = frame.writeStream.format("parquet").option("path", join.output)
    else:

        def write(batch: DataFrame, number: int) -> None:
            # Under its number: done again after a crash, it replaces itself.
            batch.write.mode("overwrite").parquet(f"{join.output}/batch={number:09d}")

        writer = frame.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", join.checkpoint)
    return writer.trigger(processingTime=f"{join.trigger_ms} milliseconds").start()


def main() -> None:
    join = Join(**json.loads(Path(sys.argv[1]).read_text()))
    spark = spark_session(f"local[{join.cores}]", settings=SETTINGS)
    query = start(spark, join)
    print("READY", flush=True)
    stop = told_to_stop()
    while not stop.wait(0.2):
        if not query.isActive:
            raise SystemExit(str(query.exception()))
    progress = [json.loads(one.json) for one in query.recentProgress]
    query.stop()
    Path(join.checkpoint).with_name("progress.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main()
