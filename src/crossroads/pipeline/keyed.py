"""Plan `keyed`: both sides by cell, an index per cell, for sets that no single host could hold.

Events go to their cells in blocks (`cellmatch`) and are matched there with the index of the cell,
from the index store or as Spark brings it. Subscriptions without a cell are at the root, an index
of their own that every event meets in place. A pair that can meet in several cells is reported by
the smallest one, so notifications are written where they are found; only where an event's matches
must come together (lists, one notification per subscriber) do they take another shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.indexfile import save_index
from crossroads.matching.index import Matches, MatchIndex
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.blocks import Batches
from crossroads.pipeline.cellbuild import OpenCell, StoredSet
from crossroads.pipeline.cellindex import CellIndex
from crossroads.pipeline.cellmatch import (
    Cutting,
    Met,
    event_blocks,
    meeting_blocks,
    met_at_root,
    met_in_cells,
)
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.delivery import write_partitions
from crossroads.pipeline.direct import Done
from crossroads.pipeline.eventframe import ID, ORDINALS, ROW, write_notifications
from crossroads.pipeline.frames import map_batches
from crossroads.pipeline.indexed import IndexPlace, place_index
from crossroads.pipeline.keyedset import KeyedSet, held_frame
from crossroads.pipeline.meeting import TASKS_PER_CORE
from crossroads.pipeline.notify import MatchedEvents, Notify, Part, Receivers
from crossroads.pipeline.placement import FINENESS, Placement, place_cells, sampled_load
from crossroads.pipeline.sharing import Sharing
from crossroads.pipeline.sidesample import sample_events
from crossroads.pipeline.source import Split
from crossroads.pipeline.subscriptionframe import ROOT
from crossroads.pipeline.tally import Tally, matched_events, task_load

EVENTS_PER_TASK = 2_000  # at least, while a core has one: to start a task takes as long
NAMES_FILE = "_names.cri"  # scratch: removed before the output is committed

_LISTS = T.StructType(
    [T.StructField(ROW, T.LongType()), T.StructField(ORDINALS, T.ArrayType(T.IntegerType()))]
)

# Events, the ordinals of their matches, and who these mean if that has changed.
Told = tuple[pa.Table, Matches, Receivers | None]


@dataclass(frozen=True)
class Matching:
    """One run of the plan, once its subscriptions are known."""

    subscriptions: KeyedSet
    notify: Notify
    staging: Path
    sharing: Sharing

    @property
    def separable(self) -> bool:
        """May each match be written where it is found?"""
        compact, by_subscription = self.notify.shape == "compact", self.notify.per == "subscription"
        if self.notify.shape == "lists" or not by_subscription:
            return self._meet_once and not compact
        return True

    @property
    def _meet_once(self) -> bool:
        """Are all matches of an event found in one place?"""
        return self.subscriptions.pinned.mapping.one_key and self.subscriptions.root is None


def placement_for(
    subscriptions: KeyedSet,
    splits: Sequence[Split],
    events: int,
    cores: int,
    *,
    replicated: bool = True,
) -> Placement:
    """For so many events of these splits; foreseen from a sample of them (see `placement`)."""
    pinned = subscriptions.pinned
    sample = sample_events(splits, pinned.mapping.schema).sampled
    sampled = pinned.cells.cells_of_keys(pinned.mapping.keys_of_events(sample))
    load, seen = sampled_load(sampled, subscriptions.waiting)
    visits = int(seen[load > 0].sum()) / max(1, sample.num_rows)
    # A split is a fair load for a task, and so are the copies of its events.
    most = max(cores * TASKS_PER_CORE, round(len(splits) * visits))
    tasks = max(cores, min(most, int(events * visits) // EVENTS_PER_TASK))
    # An index that travels is sent to each of its replicas: then no more of them than needed.
    fineness = FINENESS if held_frame(subscriptions.built) is None else 1
    return place_cells(load, seen, tasks, fineness=fineness, replicated=replicated)


def match_keyed(
    events: DataFrame, matching: Matching, placement: Placement
) -> tuple[list[Done], dict[str, Any] | None]:
    """What was written; and the load of the tasks, where each has written for itself."""
    subscriptions = matching.subscriptions
    cutting = Cutting(subscriptions.pinned, subscriptions.waiting > 0, placement)
    chosen = events.select(*(F.col(quoted(n)) for n in (*matching.notify.schema.names, ID, ROW)))
    blocks = event_blocks(chosen, cutting)
    placed = meeting_blocks(blocks, placement, held_frame(subscriptions.built))
    built, root = subscriptions.built, subscriptions.root
    open_cell = built.open if isinstance(built, StoredSet) else _never
    # Like the index of plan `indexed`, this one must be on every host.
    place = None if root is None else place_index(events.sparkSession, built.path(root))
    if matching.separable:
        return _written(chosen, placed, matching, placement.tasks, open_cell, place)
    return _gathered(chosen, placed, matching, open_cell, place), None


def _never(cell: int) -> CellIndex:
    raise AssertionError(f"the index of cell {cell} did not come before its events")


def _at_root(batches: Batches, place: IndexPlace) -> Iterator[Met]:
    return met_at_root(batches, CellIndex(ROOT, place.open()))


# -- written where it is found ---------------------------------------------------------------------


def _written(
    events: DataFrame,
    placed: DataFrame,
    matching: Matching,
    tasks: int,
    open_cell: OpenCell,
    place: IndexPlace | None,
) -> tuple[list[Done], dict[str, Any]]:
    notify, staging = matching.notify, matching.staging
    compact = notify.shape == "compact"

    def in_cells(batches: Iterable[pa.RecordBatch], folder: Path, number: int) -> tuple[int, int]:
        told = _told(met_in_cells(batches, open_cell), notify)
        return _write(told, notify, folder, number, lookup=False)

    def in_place(batches: Iterable[pa.RecordBatch], folder: Path, number: int) -> tuple[int, int]:
        told = _nobody(batches) if place is None else _told(_at_root(batches, place), notify)
        return _write(told, notify, folder, number + tasks, lookup=True)

    written = write_partitions(placed, staging, in_cells, matching.sharing)
    done = [Done(one.part, 0, 0, 0, one.told, 0) for one in written]
    load = task_load(staging, tasks)
    if place is not None or compact:  # the look-up table has every event, and here each comes once
        written = write_partitions(events, staging, in_place, matching.sharing)
        done += [Done(one.part + tasks, 0, 0, 0, one.told, 0) for one in written]
    return [*done, Done(-1, 0, 0, 0, 0, matched_events(staging))], load


def _told(met: Iterator[Met], notify: Notify) -> Iterator[Told]:
    for one in met:
        if notify.shape == "compact":
            yield one.events, one.cell.everywhere(one.matches), None
        else:
            yield one.events, *one.cell.told(one.matches)


def _nobody(batches: Iterable[pa.RecordBatch]) -> Iterator[Told]:
    for batch in batches:
        none = Matches(np.zeros(batch.num_rows + 1, np.int64), np.empty(0, np.int32))
        yield pa.Table.from_batches([batch]), none, None


def _write(
    told: Iterator[Told], notify: Notify, folder: Path, number: int, *, lookup: bool
) -> tuple[int, int]:
    tally = Tally()
    nobody = Receivers(pa.array([], pa.string()), pa.array([], pa.string()))
    with Part(folder, number, notify, nobody, lookup=lookup) as part:
        for events, matches, receivers in told:
            ordinals = events[ROW].to_numpy()
            tally.add(ordinals, matches.offsets)
            if matches.ordinals.size or lookup:
                ids = events[ID].combine_chunks()
                part.write(MatchedEvents(events, ids, ordinals, matches), receivers)
    tally.write(folder, number)
    return part.told, 0


# -- brought together by event ---------------------------------------------------------------------


def _gathered(
    events: DataFrame,
    placed: DataFrame,
    matching: Matching,
    open_cell: OpenCell,
    place: IndexPlace | None,
) -> list[Done]:
    def in_cells(batches: Batches) -> Iterator[pa.RecordBatch]:
        return map(_lists, met_in_cells(batches, open_cell))

    found = placed.mapInArrow(in_cells, _LISTS)
    if place is not None:

        def at_root(batches: Batches) -> Iterator[pa.RecordBatch]:
            return map(_lists, _at_root(batches, place))

        found = found.unionAll(map_batches(events, at_root, _LISTS))
    lists = found.groupBy(ROW).agg(F.flatten(F.collect_list(ORDINALS)).alias(ORDINALS))
    nobody = F.array().cast("array<int>")
    told = events.join(lists, ROW, "left")
    told = told.withColumn(ORDINALS, F.coalesce(F.col(ORDINALS), nobody))
    names = place_index(events.sparkSession, _names_file(matching))
    return write_notifications(
        told, matching.notify, names, matching.staging, matched=True, sharing=matching.sharing
    )


def _lists(met: Met) -> pa.RecordBatch:
    """Of events with a match: the ordinal, and those of its matches over all subscriptions."""
    matches = met.cell.everywhere(met.matches)
    some = np.flatnonzero(np.diff(matches.offsets))
    offsets = np.append(matches.offsets[some], matches.ordinals.size).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(matches.ordinals))
    rows = pa.array(met.events[ROW].to_numpy()[some])
    return pa.record_batch({ROW: rows, ORDINALS: lists})


def _names_file(matching: Matching) -> Path:
    """An index that matches nothing and knows everybody's name."""
    subscriptions = matching.subscriptions
    names = subscriptions.names()
    path = matching.staging / NAMES_FILE
    names = names.set_column(0, "id", pc.fill_null(names["id"], ""))  # never asked for
    save_index(
        path,
        MatchIndex.build(FilterTable(matching.notify.schema, names.num_rows)),
        subscriptions=names,
        subscription_version=subscriptions.version,
        content_hash=subscriptions.content_hash,
        durable=False,
    )
    return path
