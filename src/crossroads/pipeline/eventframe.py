"""Plans on DataFrames (`indexed`, `naive`): splits → a frame of events, a frame → notifications.

The events of all splits become one DataFrame with the schema's columns, `_event_id` and
`_event_row` (an ordinal in the order of the input); rejects travel in the same frame and are taken
out on the other side. Each partition writes its part of the output. No folder has to be shared
between workers and driver (`sharing`).
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.matching.index import Matches, MatchIndex
from crossroads.model.schema import Schema
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.delivery import write_partitions
from crossroads.pipeline.direct import REPEATED, Done
from crossroads.pipeline.frames import spark_fields
from crossroads.pipeline.indexed import IndexPlace
from crossroads.pipeline.notify import MatchedEvents, Notify, Part, Receivers, event_ordinals
from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import read_split, rejects_of_rows
from crossroads.pipeline.sharing import PlacedSplit, Sharing
from crossroads.pipeline.source import Split
from crossroads.pipeline.steps import match_in_steps

ID, ROW, ORDINALS = "_event_id", "_event_row", "_ordinals"
_REJECT = ("_file", "_line", "_raw", "_reason")
_REJECT_TYPES = (pa.string(), pa.int64(), pa.string(), pa.string())
_OUTSIDE = "_outside"  # in a row that is no event: how many of a batch are not in the window
_SPLIT_BITS = 32


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
    sharing: Sharing | None = None,
) -> Frames:
    """`sharing`: how workers come to the files; by default they see them."""
    schema = notify.schema
    sharing = sharing or Sharing()
    everything = _everything(spark, sharing.placed(splits), schema).persist()
    # One job that reads everything, on all cores; what follows finds it in Spark's memory.
    counted = (F.count(ID), F.count("_reason"), F.coalesce(F.sum(_OUTSIDE), F.lit(0)))
    events, wrong, outside = everything.agg(*counted).collect()[0]
    rejects = _rejects(everything) if wrong else []
    good = everything.where(F.col(ID).isNotNull()).drop(*_REJECT, _OUTSIDE)
    repeated: list[tuple[int, Reject]] = []
    kept = [everything]
    if not keep_duplicates:
        firsts = _firsts(good).persist()
        kept.append(firsts)
        good, repeated = _each_id_once(good, firsts, splits, schema)
    for number, found in _by_split(rejects + repeated).items():
        write_rejects(staging / "rejected_events", found, notify.format, number)
    total, again = len(rejects) + len(repeated), len(repeated)
    counts = Done(-1, events - again, total, again, 0, 0, outside)
    return Frames(good, counts, tuple(kept))


def _everything(spark: SparkSession, splits: Sequence[PlacedSplit], schema: Schema) -> DataFrame:
    rows = [(one.split.number, pickle.dumps(one)) for one in splits]
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
            T.StructField(_OUTSIDE, T.LongType()),
        ]
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for cell in batch.column("split").to_pylist():
                # Our own bytes, made a few lines above by this very job.
                yield from _rows_of(pickle.loads(cell).here(), schema)

    return frame.mapInArrow(read, out)


def _rows_of(split: Split, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Events, rejects and, in a row of its own, how many are outside the window."""
    for batch in read_split(split, schema):
        if len(batch.ids):
            events = dict(zip(schema.names, batch.table.combine_chunks().columns, strict=True))
            ordinals = pa.array(event_ordinals(split.number, batch.rows))
            yield from _filled(schema, len(batch.ids), {**events, ID: batch.ids, ROW: ordinals})
        if batch.rejects:
            size = len(batch.rejects)
            told = {
                name: pa.array([getattr(reject, name[1:]) for reject in batch.rejects], kind)
                for name, kind in zip(_REJECT, _REJECT_TYPES, strict=True)
            }
            told[ROW] = pa.array(event_ordinals(split.number, np.zeros(size, np.int64)))
            yield from _filled(schema, size, told)
        if batch.outside:
            yield from _filled(schema, 1, {_OUTSIDE: pa.array([batch.outside], pa.int64())})


def _filled(schema: Schema, size: int, columns: dict[str, pa.Array]) -> list[pa.RecordBatch]:
    """Rows of the frame: these columns, and NULL in all others."""
    own = [(ID, pa.string()), (ROW, pa.int64()), *zip(_REJECT, _REJECT_TYPES, strict=True)]
    fields = pa.schema([*schema.arrow, *(pa.field(*one) for one in (*own, (_OUTSIDE, pa.int64())))])
    filled = [columns.get(field.name, pa.nulls(size, field.type)) for field in fields]
    return list(pa.table(filled, schema=fields).to_batches())


def _rejects(everything: DataFrame) -> list[tuple[int, Reject]]:
    wrong = everything.where(F.col("_reason").isNotNull()).select(ROW, *_REJECT)
    return [
        (row[ROW] >> _SPLIT_BITS, Reject(row._file, row._line, row._raw, row._reason))
        for row in wrong.toLocalIterator()  # part by part: there may be many, with their text
    ]


def _firsts(events: DataFrame) -> DataFrame:
    """Of each id that occurs several times the first place, in the order of the input."""
    counted = events.groupBy(ID).agg(F.min(ROW).alias("_first"), F.count("*").alias("_copies"))
    return counted.where("_copies > 1").drop("_copies")


def _each_id_once(
    events: DataFrame, firsts: DataFrame, splits: Sequence[Split], schema: Schema
) -> tuple[DataFrame, list[tuple[int, Reject]]]:
    """Keep the first of each id; the others are rejects."""
    if not firsts.count():
        return events, []
    again = events.join(F.broadcast(firsts), ID).where(F.col(ROW) != F.col("_first"))
    rows: dict[int, list[int]] = defaultdict(list)
    for row in again.select(ROW).toLocalIterator():
        rows[row[ROW] >> _SPLIT_BITS].append(row[ROW] & ((1 << _SPLIT_BITS) - 1))
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
    sharing: Sharing | None = None,
) -> list[Done]:
    """Each partition writes its part. `matched`: the frame says who, in a column `_ordinals`."""
    columns = [F.col(quoted(name)) for name in (*notify.schema.names, ID, ROW)]
    given = events.select(*columns, *([ORDINALS] if matched else []))

    def write(batches: Iterable[pa.RecordBatch], folder: Path, number: int) -> tuple[int, int]:
        opened = place.open()
        some = 0
        part = Part(folder, number, notify, Receivers(opened.ids, opened.subscribers))
        with part:
            for batch in batches:
                for rows, found in _matched(batch, None if matched else opened.index):
                    table = pa.Table.from_batches([rows])
                    ordinals = rows.column(ROW).to_numpy(zero_copy_only=False)
                    part.write(MatchedEvents(table, rows.column(ID), ordinals, found))
                    some += int(np.count_nonzero(np.diff(found.offsets)))
        return part.told, some

    written = write_partitions(given, staging, write, sharing or Sharing())
    return [Done(one.part, 0, 0, 0, one.told, one.some) for one in written]


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
