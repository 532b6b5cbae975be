"""Plan `sql`: both sides get their cells, and Spark joins them on the cell.

Subscriptions and events are keyed vectorised, in Python; the join runs in the JVM, an equi-join on
the cell with the exact condition of the shape as the residual. Filters without a place (at the
root) are asked of every event, as in `naive`. A pair that can meet in several cells is reported by
the smallest one they share, so nothing is made distinct afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.mapping.cells import CellRanges
from crossroads.model.filter import Filter
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.cellframe import (
    CELL,
    CELLS,
    REPLICAS,
    SALT,
    Keying,
    by_cell,
    cells_of_frame,
    with_replicas,
)
from crossroads.pipeline.columns import EVENT_ROW, ORDINAL, Conditions, literal_column
from crossroads.pipeline.meeting import Meeting
from crossroads.pipeline.naive import (
    kept,
    literal_columns,
    nothing,
    pairs_of,
    shape_condition,
)
from crossroads.pipeline.parameters import FILTERS_PER_PASS, Parametrised, parametrise
from crossroads.pipeline.regexhits import RegexHits

_RUNS, _RUN = "_runs", "_run"

Ordinals = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]
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
    placed = Placed.of(table, meeting)
    return placed_pairs(cells_of_frame(events, placed.keying), placed, table, keep=keep)


def placed_pairs(
    events: DataFrame, placed: Placed, table: FilterTable, *, keep: Sequence[str] = (EVENT_ROW,)
) -> SqlPairs:
    """The same for events that know their cells."""
    shared, alone = parametrise(table)
    keyed = by_cell(events, placed.keying)
    here, root = ~placed.ranges.root, placed.ranges.root
    by_shape, by_one = _chosen(shared, here), _some(alone, here)
    if len(by_shape) + len(by_one) > 1:
        # Laid out by cell once: the joins of all shapes then move only their subscriptions.
        where = (CELL, SALT) if placed.meeting.shared else (CELL,)
        keyed = keyed.repartition(*where).persist(StorageLevel.MEMORY_AND_DISK)
    found = [_joined(keyed, placed, one, keep) for one in by_shape]
    found += _asked(keyed, placed, by_one, keep)
    if root.any():
        found.append(pairs_of(events, _chosen(shared, root), _some(alone, root), keep=keep))
    return SqlPairs(reduce(DataFrame.unionAll, found or [nothing(events, keep)]), keyed)


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
class Placed:
    """The cells of every subscription, as rows to join with."""

    ranges: CellRanges
    meeting: Meeting

    @classmethod
    def of(cls, table: FilterTable, meeting: Meeting) -> Placed:
        keys = meeting.mapping.keys_of_subscriptions(table)
        return cls(meeting.cells.cells_of_ranges(keys), meeting)

    @cached_property
    def keying(self) -> Keying:
        return Keying(self.meeting, self.ranges.load(self.meeting.cells.count) > 0)

    @property
    def several(self) -> bool:
        """Can a pair meet in more than one cell?"""
        return self.keying.several

    def rows(
        self, spark: SparkSession, ordinals: Ordinals, columns: Mapping[str, pa.Array]
    ) -> DataFrame:
        """One row per subscription, cell and replica, made by Spark of one per subscription."""
        table = pa.table(
            {
                ORDINAL: pa.array(ordinals.astype(np.int32)),
                _RUNS: _lists_of_runs(*self.ranges.runs_of(ordinals), ordinals.size),
                **columns,
            }
        )
        frame = spark.createDataFrame(table)
        by_run = frame.select("*", F.explode(_RUNS).alias(_RUN))
        cells = F.explode(F.sequence(f"{_RUN}.first", f"{_RUN}.last")).alias(CELL)
        spent = [_RUN] if self.several else [_RUN, _RUNS]
        return self._replicated(by_run.select("*", cells).drop(*spent))

    def _replicated(self, frame: DataFrame) -> DataFrame:
        if not self.meeting.shared:
            return frame
        last = F.coalesce(F.col(REPLICAS), F.lit(1)) - 1
        replicas = F.explode(F.sequence(F.lit(0), last)).alias(SALT)
        return with_replicas(frame, self.meeting).select("*", replicas).drop(REPLICAS)

    def meet(self, left: DataFrame, right: DataFrame, condition: Column | None) -> DataFrame:
        on = left[CELL] == right[CELL]
        if self.meeting.shared:
            on &= left[SALT] == right[SALT]
        if condition is not None:
            on &= condition
        if self.several:
            on &= ~F.exists(CELLS, lambda cell: (cell < left[CELL]) & _within(cell))
        return left.join(right, on)


def _within(cell: Column) -> Column:
    """Does the subscription stand in this cell too?"""
    return F.exists(_RUNS, lambda run: (run["first"] <= cell) & (cell <= run["last"]))


def _lists_of_runs(at: Ordinals, first: Cells, last: Cells, size: int) -> pa.Array:
    """By subscription all its runs of cells, given run by run."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=size))]).astype(np.int32)
    runs = pa.StructArray.from_arrays([pa.array(first), pa.array(last)], ["first", "last"])
    return pa.ListArray.from_arrays(pa.array(offsets), runs)


def _joined(keyed: DataFrame, placed: Placed, one: Parametrised, keep: Sequence[str]) -> DataFrame:
    """Filters of one shape."""
    hits, one = RegexHits.of_parameters(one)
    right = placed.rows(keyed.sparkSession, one.ordinals, literal_columns(one))
    left = hits.added_to(keyed)
    condition = shape_condition(one, hits)
    return placed.meet(left, right, condition).select(*kept(keep), ORDINAL)


def _asked(
    keyed: DataFrame, placed: Placed, filters: Mapping[int, Filter], keep: Sequence[str]
) -> Iterator[DataFrame]:
    """Filters that share no shape: a pair that meets is asked the one question it is about."""
    every = sorted(filters.items())
    for start in range(0, len(every), FILTERS_PER_PASS):
        some = every[start : start + FILTERS_PER_PASS]
        hits = RegexHits.of(filter_ for _, filter_ in some)
        conditions = Conditions(literal_column, hits.constant)
        ordinals = np.array([ordinal for ordinal, _ in some], np.int64)
        right = placed.rows(keyed.sparkSession, ordinals, {})
        met = placed.meet(hits.added_to(keyed), right, None)
        answer = F.coalesce(
            *(F.when(F.col(ORDINAL) == o, conditions.condition(f)) for o, f in some), F.lit(False)
        )
        yield met.where(answer).select(*kept(keep), ORDINAL)
