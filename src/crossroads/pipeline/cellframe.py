"""A frame of events → one row per event and cell.

The cells of an event are computed by whole Arrow batches, where it is read (`Keying.cells`) or from
a frame (`cells_of_frame`); Spark then makes the rows (`by_cell`). Cells in which no subscription
stands are left out, and with them events that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from crossroads.model.compiled import compiled
from crossroads.pipeline.columns import EVENT_ROW
from crossroads.pipeline.frames import map_batches
from crossroads.pipeline.meeting import Meeting

CELL, SALT, CELLS, REPLICAS = "_cell", "_salt", "_cells", "_replicas"

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Keying:
    """What is added to each event: `_cell`, NULL if nobody waits for it; or, where the mapping
    gives an event several keys, the list `_cells`. Small, and pickled with every task."""

    meeting: Meeting
    used: Bools  # by cell whether a subscription stands in it

    @property
    def several(self) -> bool:
        return not self.meeting.mapping.one_key

    @property
    def field(self) -> pa.Field:
        return pa.field(CELLS, pa.list_(pa.int32())) if self.several else pa.field(CELL, pa.int32())

    def cells(self, events: pa.RecordBatch | pa.Table) -> pa.Array:
        found = self.meeting.cells.cells_of_keys(self.meeting.mapping.keys_of_events(events))
        if self.several:
            offsets, cells = _kept(found.offsets, found.cells, self.used)
            return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(cells))
        assert found.cells.size == events.num_rows  # a mapping of one key gives each event one
        return pa.array(found.cells, pa.int32(), mask=~self.used[found.cells])


def cells_of_frame(events: DataFrame, keying: Keying) -> DataFrame:
    """`events` has the attributes of the schema."""

    def key(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield batch.append_column(keying.field, keying.cells(batch))

    added = from_arrow_schema(pa.schema([keying.field]))
    return map_batches(events, key, T.StructType([*events.schema.fields, *added.fields]))


def by_cell(events: DataFrame, keying: Keying) -> DataFrame:
    """One row per event and cell; where cells are shared, with `_salt`, which of its replicas."""
    if keying.several:
        spread = events.select("*", F.explode(CELLS).alias(CELL))
    else:
        spread = events.where(F.col(CELL).isNotNull())
    if not keying.meeting.shared:
        return spread
    salt = F.pmod(F.col(EVENT_ROW), F.coalesce(F.col(REPLICAS), F.lit(1))).cast("int")
    return with_replicas(spread, keying.meeting).withColumn(SALT, salt).drop(REPLICAS)


def with_replicas(frame: DataFrame, meeting: Meeting) -> DataFrame:
    """Beside each cell that is shared the number of its replicas; NULL beside the others."""
    hot = np.flatnonzero(meeting.replicas > 1)
    counts = pa.table({CELL: hot.astype(np.int32), REPLICAS: meeting.replicas[hot]})
    return frame.join(F.broadcast(frame.sparkSession.createDataFrame(counts)), CELL, "left")


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
