"""A frame of events → one row per event and cell, computed by whole Arrow batches.

Beside the event's columns a row has `_cell`, `_salt` (which of the cell's replicas) and, where a
mapping gives an event several keys, `_cells`, all of them. Cells in which no subscription stands
are left out, and with them events that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (Spark's own habit)

from crossroads.mapping.cells import EventCells
from crossroads.model.compiled import compiled
from crossroads.pipeline.columns import EVENT_ROW
from crossroads.pipeline.frames import map_batches
from crossroads.pipeline.meeting import Meeting

CELL, SALT, CELLS = "_cell", "_salt", "_cells"

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def cells_of_frame(events: DataFrame, meeting: Meeting, used: Bools) -> DataFrame:
    """`events` has the attributes of the schema and `_event_row`; `used` says by cell whether a
    subscription stands in it."""
    several = not meeting.mapping.one_key
    fields = [
        *events.schema.fields,
        T.StructField(CELL, T.IntegerType()),
        T.StructField(SALT, T.IntegerType()),
    ]
    if several:
        fields.append(T.StructField(CELLS, T.ArrayType(T.IntegerType())))

    def key(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _keyed(batch, meeting, used, several=several)

    return map_batches(events, key, T.StructType(fields))


def _keyed(
    batch: pa.RecordBatch, meeting: Meeting, used: Bools, *, several: bool
) -> pa.RecordBatch:
    found = meeting.cells.cells_of_keys(meeting.mapping.keys_of_events(batch))
    kept = EventCells(*_kept(found.offsets, found.cells, used))
    at = np.repeat(np.arange(batch.num_rows), np.diff(kept.offsets))
    rows = pa.array(at)
    copies = batch if _each_once(at, batch.num_rows) else batch.take(rows)
    number = copies.column(EVENT_ROW).to_numpy(zero_copy_only=False)
    salt = number % meeting.replicas[kept.cells]
    columns = {CELL: pa.array(kept.cells), SALT: pa.array(salt.astype(np.int32))}
    if several:
        lists = pa.ListArray.from_arrays(
            pa.array(kept.offsets.astype(np.int32)), pa.array(kept.cells)
        )
        columns[CELLS] = lists.take(rows)
    names = [*batch.schema.names, *columns]
    return pa.RecordBatch.from_arrays([*copies.columns, *columns.values()], names=names)


def _each_once(at: Int64Array, rows: int) -> bool:
    return at.size == rows and bool((at == np.arange(rows)).all())


@compiled
def _kept(offsets: Int64Array, cells: Int32Array, used: Bools) -> tuple[Int64Array, Int32Array]:
    """Without the cells in which nobody waits."""
    new_offsets, kept = np.zeros(offsets.size, np.int64), np.empty_like(cells)
    n = 0
    for i in range(offsets.size - 1):
        for at in range(offsets[i], offsets[i + 1]):
            if used[cells[at]]:
                kept[n] = cells[at]
                n += 1
        new_offsets[i + 1] = n
    return new_offsets, kept[:n].copy()
