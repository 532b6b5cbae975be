"""The physical plans by name: each takes a run whose input is known and reports what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.pipeline.direct import Done, Task, run_direct
from crossroads.pipeline.eventframe import (
    ORDINALS,
    ROW,
    Frames,
    read_events,
    write_notifications,
)
from crossroads.pipeline.indexed import place_index
from crossroads.pipeline.keyed import Matching, match_keyed, placement_for
from crossroads.pipeline.naive import naive_pairs
from crossroads.pipeline.planner import meeting_of
from crossroads.pipeline.sql import sql_pairs

if TYPE_CHECKING:
    from crossroads.pipeline.job import Run


def direct(run: Run) -> list[Done]:
    assert run.index is not None
    staging, keep = str(run.output.staging), run.request.keep_duplicates
    task = Task(run.notify, str(run.index), run.resident, staging, keep, run.sharing)
    return run_direct(run.spark.sparkContext, run.splits, task)


def indexed(run: Run) -> list[Done]:
    """Match where the events are, with the index on every host."""
    with _events(run) as read:
        return [read.counts, *_written(run, read.events, matched=False)]


def naive(run: Run) -> list[Done]:
    """The definition as a nested loop of Spark's own; the index file only names the receivers."""
    with _events(run) as read:
        pairs = naive_pairs(read.events, run.subscribed.table)
        return [read.counts, *_written(run, _with_lists(read.events, pairs), matched=True)]


def sql(run: Run) -> list[Done]:
    """Both sides by cell, joined by Spark."""
    assert run.chosen is not None
    meeting = meeting_of(run.chosen, run.spark)
    with _events(run) as read:
        found = sql_pairs(read.events, run.subscribed.table, meeting)
        try:
            events = _with_lists(read.events, found.pairs)
            return [read.counts, *_written(run, events, matched=True)]
        finally:
            found.kept.unpersist()


@contextmanager
def _events(run: Run) -> Iterator[Frames]:
    read = read_events(
        run.spark,
        run.splits,
        run.notify,
        run.output.staging,
        keep_duplicates=run.request.keep_duplicates,
        sharing=run.sharing,
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
