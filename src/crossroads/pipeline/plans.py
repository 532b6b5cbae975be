"""The physical plans by name: each takes a run whose input is known and reports what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.pipeline.direct import Done, Task, run_direct
from crossroads.pipeline.eventframe import (
    ORDINALS,
    ROW,
    read_events,
    write_notifications,
)
from crossroads.pipeline.indexed import place_index
from crossroads.pipeline.naive import naive_pairs

if TYPE_CHECKING:
    from crossroads.pipeline.job import Run


def direct(run: Run) -> list[Done]:
    assert run.index is not None
    task = Task(run.notify, str(run.index), str(run.output.staging), run.request.keep_duplicates)
    return run_direct(run.spark.sparkContext, run.splits, task)


def indexed(run: Run) -> list[Done]:
    """Match where the events are, with the index on every host."""
    return _on_frames(run, naive=False)


def naive(run: Run) -> list[Done]:
    """The definition as a nested loop of Spark's own; the index file only names the receivers."""
    return _on_frames(run, naive=True)


def _on_frames(run: Run, *, naive: bool) -> list[Done]:
    assert run.index is not None
    staging = run.output.staging
    read = read_events(
        run.spark, run.splits, run.notify, staging, keep_duplicates=run.request.keep_duplicates
    )
    try:
        events = read.events
        if naive:
            pairs = naive_pairs(events, run.subscribed.table)
            lists = pairs.groupBy(ROW).agg(F.collect_list("_ordinal").alias(ORDINALS))
            nobody = F.array().cast("array<int>")
            events = events.join(lists, ROW, "left")
            events = events.withColumn(ORDINALS, F.coalesce(F.col(ORDINALS), nobody))
        place = place_index(run.spark, run.index)
        told = write_notifications(events, run.notify, place, staging, matched=naive)
        return [read.counts, *told]
    finally:
        read.release()


RUN: dict[str, Callable[[Run], list[Done]]] = {
    "direct": direct,
    "indexed": indexed,
    "naive": naive,
}
