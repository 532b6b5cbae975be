"""Plan `sql`: both sides get their cells, and Spark joins them on the cell.

Subscriptions and events are keyed vectorised, in Python; the join runs in the JVM, an equi-join on
the cell with the exact condition of the shape as the residual. Filters without a place (at the
root) are asked of every event, as in `naive`. A pair that can meet in several cells is reported by
the smallest one they share, so nothing is made distinct afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.mapping.cells import CellRanges
from crossroads.model.filter import Filter
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.cellframe import CELL, CELLS, SALT, cells_of_frame
from crossroads.pipeline.columns import EVENT_ROW, ORDINAL, Conditions, literal_column, quoted
from crossroads.pipeline.meeting import Meeting
from crossroads.pipeline.naive import (
    FILTERS_PER_PASS,
    literal_columns,
    pairs_of,
    shape_condition,
)
from crossroads.pipeline.parameters import Parametrised, parametrise
from crossroads.pipeline.regexhits import RegexHits

_FIRST, _LAST, _RUNS = "_first", "_last", "_runs"

Ordinals = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SqlPairs:
    """Every pair that matches, once: `_event_row` and `_ordinal`."""

    pairs: DataFrame
    kept: DataFrame  # the keyed events, in Spark's memory until the caller releases them


def sql_pairs(
    events: DataFrame, table: FilterTable, meeting: Meeting, *, keep: Sequence[str] = (EVENT_ROW,)
) -> SqlPairs:
    """`events` has the attributes of the table's schema as flat columns, besides those to keep."""
    placed = _Placed.of(events.sparkSession, table, meeting)
    shared, alone = parametrise(table)
    keyed = cells_of_frame(events, meeting, placed.used)
    # Laid out by cell once: the joins of all shapes then move only their subscriptions.
    keyed = keyed.repartition(CELL, SALT).persist(StorageLevel.MEMORY_AND_DISK)
    here, root = ~placed.ranges.root, placed.ranges.root
    found = [_joined(keyed, placed, one, keep) for one in _chosen(shared, here)]
    found += _asked(keyed, placed, _some(alone, here), keep)
    found.append(pairs_of(events, _chosen(shared, root), _some(alone, root), keep=keep))
    return SqlPairs(reduce(DataFrame.unionAll, found), keyed)


def _chosen(shared: Sequence[Parametrised], mask: Mask) -> list[Parametrised]:
    """Of each shape the filters that the mask names by ordinal."""
    found = []
    for one in shared:
        rows = np.flatnonzero(mask[one.ordinals])
        if rows.size == one.ordinals.size:
            found.append(one)
        elif rows.size:
            columns = tuple(column.take(pa.array(rows)) for column in one.columns)
            found.append(Parametrised(one.template, one.ordinals[rows], columns))
    return found


def _some(alone: Mapping[int, Filter], mask: Mask) -> dict[int, Filter]:
    return {ordinal: filter_ for ordinal, filter_ in alone.items() if mask[ordinal]}


@dataclass(frozen=True)
class _Placed:
    """The cells of every subscription, as rows to join with."""

    spark: SparkSession
    ranges: CellRanges
    meeting: Meeting

    @classmethod
    def of(cls, spark: SparkSession, table: FilterTable, meeting: Meeting) -> _Placed:
        keys = meeting.mapping.keys_of_subscriptions(table)
        return cls(spark, meeting.cells.cells_of_ranges(keys), meeting)

    @property
    def used(self) -> Mask:
        return self.ranges.load(self.meeting.cells.count) > 0

    @property
    def several(self) -> bool:
        """Can a pair meet in more than one cell?"""
        return not self.meeting.mapping.one_key

    def rows(self, ordinals: Ordinals, columns: Mapping[str, pa.Array]) -> DataFrame:
        """One row per subscription, cell and replica, made of one per run of cells by Spark."""
        at, first, last = self.ranges.runs_of(ordinals)
        place = pa.array(at)
        found: dict[str, pa.Array] = {
            ORDINAL: pa.array(ordinals[at].astype(np.int32)),
            _FIRST: pa.array(first),
            _LAST: pa.array(last),
            **{name: column.take(place) for name, column in columns.items()},
        }
        if self.several:
            found[_RUNS] = _lists_of_runs(at, first, last)
        frame = self.spark.createDataFrame(pa.table(found))
        cells = F.explode(F.sequence(_FIRST, _LAST)).alias(CELL)
        return self._replicated(frame.select("*", cells).drop(_FIRST, _LAST))

    def _replicated(self, frame: DataFrame) -> DataFrame:
        hot = np.flatnonzero(self.meeting.replicas > 1)
        if not hot.size:
            return frame.withColumn(SALT, F.lit(0))
        counts = pa.table({CELL: hot.astype(np.int32), "_replicas": self.meeting.replicas[hot]})
        shared = F.broadcast(self.spark.createDataFrame(counts))
        last = F.coalesce(F.col("_replicas"), F.lit(1)) - 1
        replicas = F.explode(F.sequence(F.lit(0), last)).alias(SALT)
        return frame.join(shared, CELL, "left").select("*", replicas).drop("_replicas")

    def meet(self, left: DataFrame, right: DataFrame, condition: Column | None) -> DataFrame:
        on = (left[CELL] == right[CELL]) & (left[SALT] == right[SALT])
        if condition is not None:
            on &= condition
        if self.several:
            on &= ~F.exists(CELLS, lambda cell: (cell < left[CELL]) & _within(cell))
        return left.join(right, on)


def _within(cell: Column) -> Column:
    """Does the subscription stand in this cell too?"""
    return F.exists(_RUNS, lambda run: (run["first"] <= cell) & (cell <= run["last"]))


def _lists_of_runs(at: Ordinals, first: pa.Array, last: pa.Array) -> pa.Array:
    """Beside each run all runs of its subscription."""
    counts = np.bincount(at) if at.size else np.zeros(0, np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    runs = pa.StructArray.from_arrays([pa.array(first), pa.array(last)], ["first", "last"])
    return pa.ListArray.from_arrays(pa.array(offsets), runs).take(pa.array(at))


def _kept(keep: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in keep]


def _joined(keyed: DataFrame, placed: _Placed, one: Parametrised, keep: Sequence[str]) -> DataFrame:
    """Filters of one shape."""
    hits, one = RegexHits.of_parameters(one)
    right = placed.rows(one.ordinals, literal_columns(one))
    left = hits.added_to(keyed)
    condition = shape_condition(one, hits)
    return placed.meet(left, right, condition).select(*_kept(keep), ORDINAL)


def _asked(
    keyed: DataFrame, placed: _Placed, filters: Mapping[int, Filter], keep: Sequence[str]
) -> Iterator[DataFrame]:
    """Filters that share no shape: a pair that meets is asked the one question it is about."""
    every = sorted(filters.items())
    for start in range(0, len(every), FILTERS_PER_PASS):
        some = every[start : start + FILTERS_PER_PASS]
        hits = RegexHits.of(filter_ for _, filter_ in some)
        conditions = Conditions(literal_column, hits.constant)
        right = placed.rows(np.array([ordinal for ordinal, _ in some], np.int64), {})
        met = placed.meet(hits.added_to(keyed), right, None)
        answer = F.coalesce(
            *(F.when(F.col(ORDINAL) == o, conditions.condition(f)) for o, f in some), F.lit(False)
        )
        yield met.where(answer).select(*_kept(keep), ORDINAL)
