"""Plans on DataFrames (`indexed`, `naive`): splits → a frame of events, a frame → notifications.

The events of all splits become one DataFrame with the schema's columns, `_event_id` and
`_event_row` (an ordinal in the order of the input); rejects travel in the same frame and are taken
out on the other side. Only the output folder must be seen by workers and driver alike: each
partition writes its part of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.indexfile import OpenedIndex, cached_index
from crossroads.matching.index import Matches
from crossroads.model.schema import Schema
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.direct import REPEATED, Done
from crossroads.pipeline.frames import spark_fields
from crossroads.pipeline.notify import MatchedEvents, Notify, Part, Receivers, event_ordinals
from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import read_split, rejects_of_rows
from crossroads.pipeline.session import is_local
from crossroads.pipeline.source import Split

ID, ROW, ORDINALS = "_event_id", "_event_row", "_ordinals"
_REJECT = ("_file", "_line", "_raw", "_reason")
_SPLIT_BITS = 32


@dataclass(frozen=True)
class Frames:
    """The events of a run, each id once (or as often as it came, if that was asked for)."""

    events: DataFrame
    counts: Done  # without notifications


def read_events(
    spark: SparkSession,
    splits: Sequence[Split],
    notify: Notify,
    staging: Path,
    *,
    keep_duplicates: bool,
) -> Frames:
    schema = notify.schema
    everything = _everything(spark, splits, schema).persist()
    wrong = everything.where(F.col("_reason").isNotNull()).select(ROW, *_REJECT)
    rejects = [
        (row[ROW] >> _SPLIT_BITS, Reject(row._file, row._line, row._raw, row._reason))
        for row in wrong.collect()
    ]
    good = everything.where(F.col("_reason").isNull()).drop(*_REJECT)
    repeated: list[tuple[int, Reject]] = []
    if not keep_duplicates:
        good, repeated = _each_id_once(good, splits, schema)
    for number, found in _by_split(rejects + repeated).items():
        write_rejects(staging / "rejected_events", found, notify.format, number)
    total = len(rejects) + len(repeated)
    return Frames(good, Done(-1, good.count(), total, len(repeated), 0, 0))


def _everything(spark: SparkSession, splits: Sequence[Split], schema: Schema) -> DataFrame:
    rows = [(split.number, pickle.dumps(split)) for split in splits]
    given = spark.sparkContext.parallelize(rows, max(1, len(rows)))
    frame = spark.createDataFrame(given, "number int, split binary")
    out = T.StructType(
        [
            *spark_fields(schema),
            T.StructField(ID, T.StringType()),
            T.StructField(ROW, T.LongType()),
            T.StructField("_file", T.StringType()),
            T.StructField("_line", T.LongType()),
            T.StructField("_raw", T.StringType()),
            T.StructField("_reason", T.StringType()),
        ]
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for cell in batch.column("split").to_pylist():
                # Our own bytes, made a few lines above by this very job.
                yield from _rows_of(pickle.loads(cell), schema)

    return frame.mapInArrow(read, out)


def _rows_of(split: Split, schema: Schema) -> Iterator[pa.RecordBatch]:
    texts = [pa.string(), pa.int64(), pa.string(), pa.string()]
    for batch in read_split(split, schema):
        if len(batch.ids):
            size = len(batch.ids)
            columns = [*batch.table.combine_chunks().columns, batch.ids]
            columns.append(pa.array(event_ordinals(split.number, batch.rows)))
            columns += [pa.nulls(size, kind) for kind in texts]
            yield from _table(columns, schema).to_batches()
        if batch.rejects:
            size = len(batch.rejects)
            columns = [pa.nulls(size, a.type.arrow) for a in schema.attributes]
            columns += [pa.nulls(size, pa.string())]
            columns += [pa.array(np.full(size, event_ordinals(split.number, np.int64(0))))]  # type: ignore[arg-type]
            columns += [
                pa.array([getattr(reject, name[1:]) for reject in batch.rejects], kind)
                for name, kind in zip(_REJECT, texts, strict=True)
            ]
            yield from _table(columns, schema).to_batches()


def _table(columns: list[pa.Array], schema: Schema) -> pa.Table:
    return pa.table(columns, names=[*schema.names, ID, ROW, *_REJECT])


def _each_id_once(
    events: DataFrame, splits: Sequence[Split], schema: Schema
) -> tuple[DataFrame, list[tuple[int, Reject]]]:
    """Keep the first of each id, in the order of the input; the others are rejects."""
    firsts = (
        events.groupBy(ID)
        .agg(F.min(ROW).alias("_first"), F.count("*").alias("_copies"))
        .where("_copies > 1")
        .drop("_copies")
        .persist()
    )
    again = events.join(F.broadcast(firsts), ID).where(F.col(ROW) != F.col("_first"))
    rows = [int(row[ROW]) for row in again.select(ROW).collect()]
    if not rows:
        return events, []
    kept = events.join(F.broadcast(firsts), ID, "left").where(
        F.col("_first").isNull() | (F.col(ROW) == F.col("_first"))
    )
    found: list[tuple[int, Reject]] = []
    for split in splits:
        mine = [
            row & ((1 << _SPLIT_BITS) - 1) for row in rows if row >> _SPLIT_BITS == split.number
        ]
        if mine:
            rejects = rejects_of_rows(split, schema, mine, REPEATED)
            found += [(split.number, reject) for reject in rejects]
    return kept.drop("_first"), found


def _by_split(rejects: list[tuple[int, Reject]]) -> dict[int, list[Reject]]:
    found: dict[int, list[Reject]] = {}
    for number, reject in sorted(rejects, key=lambda one: (one[0], one[1].line)):
        found.setdefault(number, []).append(reject)
    return found


# -- notifications -------------------------------------------------------------------------------


def index_opener(spark: SparkSession, path: Path) -> Callable[[], OpenedIndex]:
    """How a worker gets the index: from the same path on this machine, else from a copy that
    Spark ships to every host once."""
    if is_local(str(spark.sparkContext.master)):
        return partial(cached_index, str(path))
    spark.sparkContext.addFile(str(path))
    return partial(_shipped, path.name)


def _shipped(name: str) -> OpenedIndex:
    return cached_index(SparkFiles.get(name))


def write_notifications(
    events: DataFrame,
    notify: Notify,
    opened: Callable[[], OpenedIndex],
    staging: Path,
    *,
    matched: bool = False,
) -> list[Done]:
    """Each partition writes its part. `matched`: the frame says who, in a column `_ordinals`."""
    columns = [quoted(name) for name in notify.schema.names] + [ID, ROW]
    given = events.select(*columns, *([ORDINALS] if matched else []))
    folder = str(staging)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        index = opened()
        some = told = 0
        part = Part(Path(folder), number, notify, Receivers(index.ids, index.subscribers))
        with part:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                found = _listed(batch) if matched else index.index.match_batch(table)
                ordinals = table[ROW].combine_chunks().to_numpy(zero_copy_only=False)
                ids = table[ID].combine_chunks()
                part.write(MatchedEvents(table, ids, ordinals, found))
                some += int(np.count_nonzero(np.diff(found.offsets)))
        told = part.rows
        yield pa.record_batch({"part": [number], "told": [told], "some": [some]})

    rows = given.mapInArrow(write, "part bigint, told bigint, some bigint").collect()
    return [Done(row.part, 0, 0, 0, row.told, row.some) for row in rows]


def _listed(batch: pa.RecordBatch) -> Matches:
    lists = batch.column(ORDINALS)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    ordinals = lists.flatten().to_numpy(zero_copy_only=False)
    return Matches(offsets - offsets[0], ordinals.astype(np.int32))
