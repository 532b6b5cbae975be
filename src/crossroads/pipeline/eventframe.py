"""Plans on DataFrames (`indexed`, `naive`): splits → a frame of events, a frame → notifications.

The events of all splits become one DataFrame with the schema's columns, `_event_id` and
`_event_row` (an ordinal in the order of the input); rejects travel in the same frame and are taken
out on the other side. Each partition writes its part of the output. No folder has to be shared
between workers and driver (`sharing`).
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from crossroads.matching.index import Matches
from crossroads.model.identity import identity_hashes
from crossroads.model.schema import Schema
from crossroads.pipeline.cellframe import Keying
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.delivery import write_partitions
from crossroads.pipeline.direct import Done, task_count
from crossroads.pipeline.frames import spark_fields
from crossroads.pipeline.indexed import Place
from crossroads.pipeline.notify import MatchedEvents, Notify, Part, Receivers, event_ordinals
from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import EventBatch, read_split, rejects_of_rows
from crossroads.pipeline.sharing import PlacedSplit, Sharing
from crossroads.pipeline.source import Split
from crossroads.pipeline.steps import Matcher, match_in_steps
from crossroads.pipeline.terms import REPEATED

ID, ROW, ORDINALS = "_event_id", "_event_row", "_ordinals"
_REJECT = ("_file", "_line", "_raw", "_reason")
_REJECT_TYPES = (pa.string(), pa.int64(), pa.string(), pa.string())
_OUTSIDE = "_outside"  # in a row that is no event: how many of a batch are not in the window
_HASH, _THERE = "_hash", "_there"
_SPLIT_BITS = 32
_TELLING = [
    pa.field(ROW, pa.int64()),
    *map(pa.field, _REJECT, _REJECT_TYPES),
    pa.field(_OUTSIDE, pa.int64()),
]
_OWN = [pa.field(ID, pa.string()), *_TELLING]
_LOOKED = pa.schema([pa.field(_HASH, pa.int64()), pa.field(_THERE, pa.bool_()), *_TELLING])


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
    keying: Callable[[], Keying] | None = None,
    often: bool = False,
) -> Frames:
    """`sharing`: how workers come to the files; by default they see them. `keying`: the events know
    their cells, which costs less here than afterwards; asked for when it is needed, as it may still
    be in the making. `often`: they will be read again and again.

    Everything is looked at once before it is used: how many events there are, what is wrong,
    whether ids repeat. Spark keeps the events where reading them again would cost more.
    """
    schema = notify.schema
    reading = _Reading((sharing or Sharing()).placed(splits), schema)
    kept: tuple[DataFrame, ...] = ()
    if often or any(split.format != "parquet" for split in splits):
        everything = reading.keyed(keying).everything(spark)
        kept = (everything.persist(),)
        hashed, there = F.xxhash64(ID).alias(_HASH), F.col(ID).isNotNull().alias(_THERE)
        look = everything.select(hashed, there, ROW, *_REJECT, _OUTSIDE)
        found = _looked(look, for_repeats=not keep_duplicates)
    else:
        looked_at = partial(reading.looked_at, for_repeats=not keep_duplicates)
        look = reading.frame(spark, from_arrow_schema(_LOOKED), looked_at)
        found = _looked(look, for_repeats=not keep_duplicates)
        everything = reading.keyed(keying).everything(spark)
    rejects = _rejects(look) if found.rejected else []
    good = everything.where(F.col(ID).isNotNull()).drop(*_REJECT, _OUTSIDE)
    repeated: list[tuple[int, Reject]] = []
    if found.repeats:
        good, repeated = _each_id_once(good, splits, schema)
    for number, told in _by_split(rejects + repeated).items():
        write_rejects(staging / "rejected_events", told, notify.format, number)
    total, again = len(rejects) + len(repeated), len(repeated)
    counts = Done(-1, found.events - again, total, again, 0, 0, found.outside)
    return Frames(good, counts, kept)


@dataclass(frozen=True)
class _Reading:
    """How workers read the splits; small, and pickled with every task."""

    splits: Sequence[PlacedSplit]
    schema: Schema
    keying: Keying | None = None

    def keyed(self, keying: Callable[[], Keying] | None) -> _Reading:
        return self if keying is None else replace(self, keying=keying())

    def everything(self, spark: SparkSession) -> DataFrame:
        return self.frame(spark, self.row_type, self.rows)

    @property
    def fields(self) -> pa.Schema:
        return pa.schema([*self.schema.arrow, *self._own])

    @property
    def row_type(self) -> T.StructType:
        own = from_arrow_schema(pa.schema(self._own))
        return T.StructType([*spark_fields(self.schema), *own.fields])

    @property
    def _own(self) -> list[pa.Field]:
        return [*_OWN, self.keying.field] if self.keying else _OWN

    def frame(
        self, spark: SparkSession, row: T.StructType, read: Callable[[Split], Iterator[pa.Table]]
    ) -> DataFrame:
        """What `read` makes of the splits."""
        rows = [(one.split.number, pickle.dumps(one)) for one in self.splits]
        tasks = task_count(len(rows), spark.sparkContext.defaultParallelism)
        given = spark.sparkContext.parallelize(rows, max(1, tasks))
        placed = spark.createDataFrame(given, "number int, split binary")

        def batches(cells: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in cells:
                for cell in batch.column("split").to_pylist():
                    # Our own bytes, made a few lines above by this very job.
                    for table in read(pickle.loads(cell).here()):
                        yield from table.to_batches()

        return placed.mapInArrow(batches, row)

    def rows(self, split: Split) -> Iterator[pa.Table]:
        """Events, and what `_others` has."""
        for batch in read_split(split, self.schema):
            if len(batch.ids):
                names = self.schema.names
                events = dict(zip(names, batch.table.combine_chunks().columns, strict=True))
                events |= {ID: batch.ids, ROW: pa.array(event_ordinals(split.number, batch.rows))}
                if self.keying is not None:
                    events[self.keying.field.name] = self.keying.cells(batch.table)
                yield _filled(self.fields, len(batch.ids), events)
            yield from _others(self.fields, split, batch)

    def looked_at(self, split: Split, *, for_repeats: bool) -> Iterator[pa.Table]:
        """Of an event only the hash of its id: enough to count, and to see whether ids repeat."""
        for batch in read_split(split, self.schema):
            size = len(batch.ids)
            seen = {_THERE: pa.repeat(True, size)}
            if for_repeats:
                seen[_HASH] = pa.array(identity_hashes(batch.ids).view(np.int64))
            yield _filled(_LOOKED, size, seen)
            yield from _others(_LOOKED, split, batch)


@dataclass(frozen=True)
class _Looked:
    events: int
    rejected: int
    outside: int
    repeats: bool  # may an id occur twice? Hashes may collide; ids decide.


def _looked(look: DataFrame, *, for_repeats: bool) -> _Looked:
    """In one job: by hash, since hashes are moved and compared faster than texts; where nobody
    looks for repeated ids nothing is moved at all."""
    counted = (F.count(F.when(F.col(_THERE), 1)), F.count("_reason"), F.sum(_OUTSIDE))
    names = ("events", "rejected", "outside")
    grouped = look.groupBy(_HASH) if for_repeats else look.groupBy()
    by_hash = grouped.agg(*(c.alias(n) for c, n in zip(counted, names, strict=True)))
    none = F.lit(0)
    sums = [F.coalesce(F.sum(name), none) for name in names]
    found = by_hash.agg(*sums, F.coalesce(F.max("events"), none)).collect()[0]
    return _Looked(found[0], found[1], found[2], repeats=for_repeats and found[3] > 1)


def _others(fields: pa.Schema, split: Split, batch: EventBatch) -> Iterator[pa.Table]:
    """Rejects and, in a row of its own, how many events are outside the window."""
    if batch.rejects:
        size = len(batch.rejects)
        told = {
            name: pa.array([getattr(reject, name[1:]) for reject in batch.rejects], kind)
            for name, kind in zip(_REJECT, _REJECT_TYPES, strict=True)
        }
        told[ROW] = pa.array(event_ordinals(split.number, np.zeros(size, np.int64)))
        yield _filled(fields, size, told)
    if batch.outside:
        yield _filled(fields, 1, {_OUTSIDE: pa.array([batch.outside], pa.int64())})


def _filled(fields: pa.Schema, size: int, columns: dict[str, pa.Array]) -> pa.Table:
    """Rows of a frame: these columns, and NULL in all others."""
    filled = [columns.get(field.name, pa.nulls(size, field.type)) for field in fields]
    return pa.table(filled, schema=fields)


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
    events: DataFrame, splits: Sequence[Split], schema: Schema
) -> tuple[DataFrame, list[tuple[int, Reject]]]:
    """Keep the first of each id; the others are rejects."""
    firsts = _firsts(events)
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
    place: Place,
    staging: Path,
    *,
    matched: bool = False,
    sharing: Sharing | None = None,
) -> list[Done]:
    """Each partition writes its part. `matched`: the frame says who, in a column `_ordinals`."""
    named = notify.include if matched else notify.schema.names
    columns = [F.col(quoted(name)) for name in (*named, ID, ROW)]
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
    batch: pa.RecordBatch, index: Matcher | None
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
