"""The physical plans by name: each takes a run whose input is known and reports what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.pipeline.cellframe import Keying
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.direct import Done, Identified, Task, run_direct
from crossroads.pipeline.eventframe import (
    ID,
    ORDINALS,
    ROW,
    Frames,
    read_events,
    write_notifications,
)
from crossroads.pipeline.indexed import IndexPlace, place_index
from crossroads.pipeline.keyed import Matching, match_keyed, placement_for
from crossroads.pipeline.naive import naive_pairs
from crossroads.pipeline.planner import meeting_of
from crossroads.pipeline.sql import Placed, placed_pairs

HASH_JOIN_BYTES = "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"
PARTITION_BYTES = "spark.sql.adaptive.advisoryPartitionSizeInBytes"

if TYPE_CHECKING:
    from crossroads.pipeline.job import Run


def direct(run: Run) -> list[Done]:
    assert run.index is not None
    place = IndexPlace(str(run.index), shipped=False, resident=run.resident)
    identified: Identified = "no" if run.request.keep_duplicates else "hashes"
    task = Task(run.notify, place, str(run.output.staging), identified, run.sharing)
    return run_direct(run.spark.sparkContext, run.splits, task)


def indexed(run: Run) -> list[Done]:
    """Match where the events are, with the index on every host."""
    with _events(run) as read:
        return [read.counts, *_written(run, read.events, matched=False)]


def naive(run: Run) -> list[Done]:
    """The definition as a nested loop of Spark's own; the index file only names the receivers."""
    with _events(run, often=True) as read:
        pairs = naive_pairs(read.events, run.subscribed.table)
        return [read.counts, *_written(run, _with_lists(read.events, pairs), matched=True)]


def sql(run: Run) -> list[Done]:
    """Both sides by cell, joined by Spark."""
    assert run.chosen is not None
    meeting = meeting_of(run.chosen, run.spark)
    with ThreadPoolExecutor(1) as pool:
        # Placed while Spark looks at the events for the first time.
        placing = pool.submit(Placed.of, run.subscribed.table, meeting)
        with _events(run, lambda: placing.result().keying) as read, _hash_joins(run.spark):
            return _joined(run, read, placing.result())


def _joined(run: Run, read: Frames, placed: Placed) -> list[Done]:
    lookup = run.notify.shape == "compact"  # names all events, not only those that matched
    keep = (ROW,) if lookup else (ROW, ID, *run.notify.include)
    found = placed_pairs(read.events, placed, run.subscribed.table, keep=keep)
    try:
        events = _with_lists(read.events, found.pairs) if lookup else _lists(found.pairs)
        return [read.counts, *_written(run, events, matched=True)]
    finally:
        found.kept.unpersist()


@contextmanager
def _hash_joins(spark: SparkSession) -> Iterator[None]:
    """Partitions that fit are joined by hashing, which spares sorting every copy of a subscription.
    Spark decides that while it runs, when it knows how large they are."""
    before = spark.conf.get(HASH_JOIN_BYTES)
    spark.conf.set(HASH_JOIN_BYTES, str(spark.conf.get(PARTITION_BYTES)))
    try:
        yield
    finally:
        spark.conf.set(HASH_JOIN_BYTES, str(before))


@contextmanager
def _events(
    run: Run, keying: Callable[[], Keying] | None = None, *, often: bool = False
) -> Iterator[Frames]:
    read = read_events(
        run.spark,
        run.splits,
        run.notify,
        run.output.staging,
        keep_duplicates=run.request.keep_duplicates,
        sharing=run.sharing,
        keying=keying,
        often=often,
    )
    try:
        yield read
    finally:
        read.release()


def _with_lists(events: DataFrame, pairs: DataFrame) -> DataFrame:
    """Beside each event who is told of it; an event of nobody's stays, with an empty list."""
    lists = pairs.groupBy(ROW).agg(F.collect_list("_ordinal").alias(ORDINALS))
    nobody = F.array().cast("array<int>")
    listed = events.join(lists, ROW, "left")
    return listed.withColumn(ORDINALS, F.coalesce(F.col(ORDINALS), nobody))


def _lists(pairs: DataFrame) -> DataFrame:
    """Each event that somebody is told of, once, with all of them."""
    others = [name for name in pairs.columns if name not in (ROW, "_ordinal")]
    same = [F.first(quoted(name)).alias(name) for name in others]  # of one event, all the same
    told = F.collect_list("_ordinal").alias(ORDINALS)
    return pairs.groupBy(ROW).agg(told, *same)


def _written(run: Run, events: DataFrame, *, matched: bool) -> list[Done]:
    assert run.index is not None
    place = place_index(run.spark, run.index)
    staging = run.output.staging
    return write_notifications(
        events, run.notify, place, staging, matched=matched, sharing=run.sharing
    )


def keyed(run: Run) -> list[Done]:
    """By cells, with an index for each."""
    assert run.keyed is not None
    with _events(run) as read:
        cores = run.spark.sparkContext.defaultParallelism
        placement = placement_for(run.keyed, run.splits, read.counts.events, cores)
        matching = Matching(run.keyed, run.notify, run.output.staging, run.sharing)
        told, run.load = match_keyed(read.events, matching, placement)
        return [read.counts, *told]


RUN: dict[str, Callable[[Run], list[Done]]] = {
    "direct": direct,
    "indexed": indexed,
    "sql": sql,
    "keyed": keyed,
    "naive": naive,
}
