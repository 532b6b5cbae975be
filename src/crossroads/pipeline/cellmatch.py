"""Events to their cells, and what they match there.

Every Arrow batch of events is cut by cell into blocks, which go to the tasks that the placement
says; events of cells where nobody waits are left behind. There the blocks of a cell come one after
the other: its index is opened once and matches them together. Where the indexes are kept by Spark,
the index of a cell is itself a few blocks that come before its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.mapping.cells import EventCells
from crossroads.matching.index import Matches
from crossroads.pipeline.blocks import (
    BLOCK,
    DATA,
    KIND,
    NUMBER,
    PLACE,
    TURN,
    Batches,
    Block,
    batch_of,
    gathered,
    grouped,
    packed,
)
from crossroads.pipeline.cellbuild import HeldSet, OpenCell, travelled
from crossroads.pipeline.cellframe import CELLS
from crossroads.pipeline.cellindex import CellIndex
from crossroads.pipeline.frames import map_batches
from crossroads.pipeline.indexstore import Pinned
from crossroads.pipeline.placement import Placement
from crossroads.pipeline.steps import match_in_steps
from crossroads.pipeline.subscriptionframe import ROOT, ROWS

Bools = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]

EVENTS_AT_A_TIME = 65_536  # of one cell that are matched together, if it has so many
EVENTS_PER_BLOCK = 256  # fewer would be mostly the header of the block
EVENTS_CUT_MAX = 1 << 20  # that a task gathers until its blocks are large enough
_INDEX, _EVENTS = range(2)  # kinds of blocks


@dataclass(frozen=True)
class Cutting:
    """How events come to their cells; pickled with every task."""

    pinned: Pinned
    used: Bools  # by cell: does anybody wait there?
    placement: Placement


def event_blocks(events: DataFrame, cutting: Cutting) -> DataFrame:
    """Blocks of events by cell; `events` has the attributes, and what is to come along."""

    def cut(batches: Batches) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        # Tasks begin at different replicas, or the first of each cell would get most.
        for turn, table in enumerate(
            _together(batches, _rows_wanted(cutting)), context.partitionId()
        ):
            blocks = list(_cut(table, cutting, turn))
            if blocks:
                yield batch_of(blocks)

    return map_batches(events, cut, BLOCK)


def _rows_wanted(cutting: Cutting) -> int:
    used = int(cutting.used.sum())
    return min(max(used * EVENTS_PER_BLOCK, EVENTS_AT_A_TIME), EVENTS_CUT_MAX)


def _together(batches: Iterable[pa.RecordBatch | pa.Table], rows: int) -> Iterator[pa.Table]:
    """Batches joined to tables of about so many rows."""
    held: list[pa.RecordBatch | pa.Table] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield _joined(held)
            held, count = [], 0
    if count:
        yield _joined(held)


def _joined(parts: list[pa.RecordBatch | pa.Table]) -> pa.Table:
    tables = [
        pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part
        for part in parts
    ]
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]


def _cut(events: pa.Table, cutting: Cutting, turn: int) -> Iterator[Block]:
    found = cutting.pinned.cells.cells_of_keys(cutting.pinned.mapping.keys_of_events(events))
    at, cell = _copies(found, cutting.used)
    if not cell.size:
        return
    if not cutting.pinned.mapping.one_key:
        lists = pa.ListArray.from_arrays(
            pa.array(found.offsets.astype(np.int32)), pa.array(found.cells)
        )
        events = events.append_column(CELLS, lists)
    copies = events.take(pa.array(at))
    begins = np.flatnonzero(np.diff(cell, prepend=np.int32(-1)))
    for begin, end in pairwise([*begins.tolist(), cell.size]):
        number = int(cell[begin])
        places = cutting.placement.of(number)
        pieces = min(places.size, max(1, (end - begin) // EVENTS_PER_BLOCK))
        cuts = np.linspace(begin, end, pieces + 1).astype(np.int64).tolist()
        for piece, (start, stop) in enumerate(pairwise(cuts)):
            place = int(places[(turn + piece) % places.size])
            yield Block(place, _EVENTS, number, turn, packed(copies.slice(start, stop - start)))


def _copies(found: EventCells, used: Bools) -> tuple[Int64Array, npt.NDArray[np.int32]]:
    """Rows of events and their cells, cell by cell; without the cells where nobody waits."""
    at = np.repeat(np.arange(found.offsets.size - 1), np.diff(found.offsets))
    kept = used[found.cells]
    at, cell = at[kept], found.cells[kept]
    order = np.argsort(cell, kind="stable")
    return at[order], cell[order]


# -- where they meet -------------------------------------------------------------------------------


def meeting_blocks(blocks: DataFrame, placement: Placement, held: HeldSet | None) -> DataFrame:
    """Everything at its place: events, and before them the index where that travels."""
    if held is not None:
        spark = blocks.sparkSession
        places = spark.createDataFrame(placement.pairs(), f"{NUMBER} int, {PLACE} int")
        indexes = held.frame.where((F.col(KIND) == ROWS) & (F.col(NUMBER) != ROOT))
        sent = indexes.join(F.broadcast(places), NUMBER).withColumn(KIND, F.lit(_INDEX))
        blocks = sent.select(PLACE, KIND, NUMBER, TURN, DATA).unionByName(blocks)
    return gathered(blocks, placement.tasks)


@dataclass(frozen=True)
class Met:
    """Events of one cell and their matches there, as ordinals of the cell."""

    cell: CellIndex
    events: pa.Table
    matches: Matches


def met_in_cells(batches: Batches, open_cell: OpenCell) -> Iterator[Met]:
    """Of the blocks of one task, in bounded steps."""
    cell: CellIndex | None = None
    for kind, number, blocks in grouped(batches):
        if kind == _INDEX:
            cell = travelled(number, (block.data for block in blocks))
            continue
        if cell is None or cell.number != number:
            cell = open_cell(number)
        for table in _together((block.table for block in blocks), EVENTS_AT_A_TIME):
            yield from met(cell, table)


def met_at_root(batches: Batches, root: CellIndex) -> Iterator[Met]:
    for batch in batches:
        yield from met(root, pa.Table.from_batches([batch]))


def met(cell: CellIndex, events: pa.Table) -> Iterator[Met]:
    for _, rows, matches in match_in_steps(cell.index, events):
        assert isinstance(rows, pa.Table)
        if CELLS in rows.column_names:
            lists = _array(rows[CELLS])
            offsets = lists.offsets.to_numpy().astype(np.int64)
            matches = cell.reported(
                matches, offsets - offsets[0], lists.flatten().to_numpy(zero_copy_only=False)
            )
        yield Met(cell, rows, matches)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
