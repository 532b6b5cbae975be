"""Plans on DataFrames (`indexed`, `naive`): splits → a frame of events, a frame → notifications.

The events of all splits become one DataFrame with the schema's columns, `_event_id` and
`_event_row` (an ordinal in the order of the input); rejects travel in the same frame and are taken
out on the other side. Only the output folder must be seen by workers and driver alike: each
partition writes its part of it.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.matching.index import Matches, MatchIndex
from crossroads.model.schema import Schema
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.direct import REPEATED, Done
from crossroads.pipeline.frames import map_batches, spark_fields
from crossroads.pipeline.indexed import IndexPlace
from crossroads.pipeline.notify import MatchedEvents, Notify, Part, Receivers, event_ordinals
from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import read_split, rejects_of_rows
from crossroads.pipeline.source import Split
from crossroads.pipeline.steps import match_in_steps

ID, ROW, ORDINALS = "_event_id", "_event_row", "_ordinals"
_REJECT = ("_file", "_line", "_raw", "_reason")
_SPLIT_BITS = 32
_WRITTEN = T.StructType([T.StructField(name, T.LongType()) for name in ("part", "told", "some")])


@dataclass(frozen=True)
class Frames:
    """The events of a run, each id once (or as often as it came, if that was asked for)."""

    events: DataFrame
    counts: Done  # without notifications
    kept: tuple[DataFrame, ...]  # in Spark's memory until `release`

    def release(self) -> None:
        for frame in self.kept:
            frame.unpersist()


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
        for row in wrong.toLocalIterator()  # part by part: there may be many, with their text
    ]
    good = everything.where(F.col("_reason").isNull()).drop(*_REJECT)
    repeated: list[tuple[int, Reject]] = []
    kept = [everything]
    if not keep_duplicates:
        firsts = _firsts(good).persist()
        kept.append(firsts)
        good, repeated = _each_id_once(good, firsts, splits, schema)
    for number, found in _by_split(rejects + repeated).items():
        write_rejects(staging / "rejected_events", found, notify.format, number)
    total = len(rejects) + len(repeated)
    counts = Done(-1, good.count(), total, len(repeated), 0, 0)
    return Frames(good, counts, tuple(kept))


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


def _firsts(events: DataFrame) -> DataFrame:
    """Of each id that occurs several times the first place, in the order of the input."""
    counted = events.groupBy(ID).agg(F.min(ROW).alias("_first"), F.count("*").alias("_copies"))
    return counted.where("_copies > 1").drop("_copies")


def _each_id_once(
    events: DataFrame, firsts: DataFrame, splits: Sequence[Split], schema: Schema
) -> tuple[DataFrame, list[tuple[int, Reject]]]:
    """Keep the first of each id; the others are rejects."""
    again = events.join(F.broadcast(firsts), ID).where(F.col(ROW) != F.col("_first"))
    rows: dict[int, list[int]] = defaultdict(list)
    for row in again.select(ROW).toLocalIterator():
        rows[row[ROW] >> _SPLIT_BITS].append(row[ROW] & ((1 << _SPLIT_BITS) - 1))
    if not rows:
        return events, []
    kept = events.join(F.broadcast(firsts), ID, "left").where(
        F.col("_first").isNull() | (F.col(ROW) == F.col("_first"))
    )
    found: list[tuple[int, Reject]] = []
    for split in splits:
        if split.number in rows:
            rejects = rejects_of_rows(split, schema, rows[split.number], REPEATED)
            found += [(split.number, reject) for reject in rejects]
    return kept.drop("_first"), found


def _by_split(rejects: list[tuple[int, Reject]]) -> dict[int, list[Reject]]:
    found: dict[int, list[Reject]] = {}
    for number, reject in sorted(rejects, key=lambda one: (one[0], one[1].line)):
        found.setdefault(number, []).append(reject)
    return found


# -- notifications -------------------------------------------------------------------------------


def write_notifications(
    events: DataFrame,
    notify: Notify,
    place: IndexPlace,
    staging: Path,
    *,
    matched: bool = False,
) -> list[Done]:
    """Each partition writes its part. `matched`: the frame says who, in a column `_ordinals`."""
    columns = [F.col(quoted(name)) for name in (*notify.schema.names, ID, ROW)]
    given = events.select(*columns, *([ORDINALS] if matched else []))
    folder = str(staging)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        opened = place.open()
        some = 0
        part = Part(Path(folder), number, notify, Receivers(opened.ids, opened.subscribers))
        with part:
            for batch in batches:
                for rows, found in _matched(batch, None if matched else opened.index):
                    table = pa.Table.from_batches([rows])
                    ordinals = rows.column(ROW).to_numpy(zero_copy_only=False)
                    part.write(MatchedEvents(table, rows.column(ID), ordinals, found))
                    some += int(np.count_nonzero(np.diff(found.offsets)))
        yield pa.record_batch({"part": [number], "told": [part.told], "some": [some]})

    rows = map_batches(given, write, _WRITTEN).collect()
    return [Done(row.part, 0, 0, 0, row.told, row.some) for row in rows]


def _matched(
    batch: pa.RecordBatch, index: MatchIndex | None
) -> Iterator[tuple[pa.RecordBatch, Matches]]:
    """Events and their matches; without an index, those that the batch lists."""
    if index is None:
        yield batch, _listed(batch)
        return
    for _, rows, found in match_in_steps(index, batch):
        yield rows, found


def _listed(batch: pa.RecordBatch) -> Matches:
    lists = batch.column(ORDINALS)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    ordinals = lists.flatten().to_numpy(zero_copy_only=False)
    return Matches(offsets - offsets[0], ordinals.astype(np.int32))
