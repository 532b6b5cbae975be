"""Plan `indexed`: events stream through Python workers that hold the compiled index in memory.

Spark reads and writes; each worker process opens the index file once, by memory map, so that all
workers of a host share its pages. Where the executors do not see our files, the file is shipped
to them first. Arrow batches in, Arrow batches of bounded size out.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 (Spark's own habit)

from crossroads.errors import UsageError
from crossroads.indexfile import OpenedIndex, cached_index
from crossroads.matching.index import Matches
from crossroads.model.identity import event_ids
from crossroads.model.schema import Schema
from crossroads.pipeline.columns import EVENT_ROW, ORDINAL
from crossroads.pipeline.frames import map_batches, spark_fields
from crossroads.pipeline.session import is_local
from crossroads.pipeline.steps import Matcher, match_in_steps

NOTIFICATION = ("event_id", "subscription_id", "subscriber")

PAIRS_PER_BATCH = 1 << 18  # rows of an output batch: a few MB of ordinals, some ten MB of text

PAIRS_SCHEMA = T.StructType(
    [T.StructField(EVENT_ROW, T.LongType()), T.StructField(ORDINAL, T.IntegerType())]
)
_PAIRS_ARROW = pa.schema([(EVENT_ROW, pa.int64()), (ORDINAL, pa.int32())])

_Batches = Iterable[pa.RecordBatch]


def indexed_pairs(
    events: DataFrame, index_file: str | Path, *, distribute: bool | None = None
) -> DataFrame:
    """Every pair that matches, once: `_event_row` (bigint) of the event and `_ordinal` (int).

    `events` has `_event_row` and the attributes of the index's schema as flat columns. With
    `distribute` the file is shipped to the executors; by default, when the master is not local.
    """
    place = place_index(events.sparkSession, Path(index_file), distribute)

    def match(batches: _Batches) -> Iterator[pa.RecordBatch]:
        opened = place.open()
        for batch in batches:
            for _, rows, matches in match_in_steps(opened.index, batch):
                numbers = rows.column(EVENT_ROW)
                for at, ordinals in _chunks(matches):
                    columns = [numbers.take(at), ordinals]
                    yield pa.RecordBatch.from_arrays(columns, schema=_PAIRS_ARROW)

    return map_batches(events, match, PAIRS_SCHEMA)


def indexed_notifications(
    events: DataFrame,
    index_file: str | Path,
    schema: Schema,
    *,
    include: Sequence[str] = (),
    distribute: bool | None = None,
) -> DataFrame:
    """`event_id, subscription_id, subscriber` and the included attributes, a row per match.

    `events` has the attributes of the schema, which must be the index's, as flat columns.
    """
    place = place_index(events.sparkSession, Path(index_file), distribute)
    included = [schema.attribute(name) for name in include]
    texts = [(name, pa.string()) for name in NOTIFICATION]
    arrow = pa.schema([*texts, *((each.name, each.type.arrow) for each in included)])

    def match(batches: _Batches) -> Iterator[pa.RecordBatch]:
        opened = place.open()
        for batch in batches:
            for _, rows, matches in match_in_steps(opened.index, batch):
                if not matches.ordinals.size:
                    continue
                ids = event_ids(schema, rows)
                for at, ordinals in _chunks(matches):
                    columns = [
                        ids.take(at),
                        opened.ids.take(ordinals),
                        opened.subscribers.take(ordinals),
                        *(rows.column(each.name).take(at) for each in included),
                    ]
                    cast = [
                        column.cast(field.type)
                        for column, field in zip(columns, arrow, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(cast, schema=arrow)

    return map_batches(events, match, notification_schema(schema, include))


def notification_schema(schema: Schema, include: Sequence[str]) -> T.StructType:
    texts = [T.StructField(name, T.StringType()) for name in NOTIFICATION]
    return T.StructType([*texts, *spark_fields(schema, include)])


# -- in the worker -------------------------------------------------------------------------------


def _chunks(matches: Matches) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Pairs (row of the event, ordinal) in pieces of bounded size; one event may span several."""
    for start in range(0, matches.ordinals.size, PAIRS_PER_BATCH):
        ordinals = matches.ordinals[start : start + PAIRS_PER_BATCH]
        ends = np.clip(matches.offsets, start, start + ordinals.size)
        counts = np.diff(ends)
        rows = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
        yield pa.array(rows), pa.array(ordinals)


class Opened(Protocol):
    """An index and whom its ordinals mean."""

    @property
    def index(self) -> Matcher: ...
    @property
    def ids(self) -> pa.Array: ...
    @property
    def subscribers(self) -> pa.Array: ...

    def __hash__(self) -> int: ...


class Place(Protocol):
    """Where a worker finds an index; small, and pickled with the task."""

    def open(self) -> Opened:
        """The same object each time, while a process needs it."""


@dataclass(frozen=True)
class IndexPlace:
    """An index file."""

    name: str
    shipped: bool
    resident: bool = False  # it is in memory

    def open(self) -> OpenedIndex:
        path = SparkFiles.get(self.name) if self.shipped else self.name
        # ours was whole when we wrote it
        return cached_index(path, verify=self.shipped, resident=self.resident)


# -- in the driver -------------------------------------------------------------------------------


def place_index(
    spark: SparkSession, index_file: Path, distribute: bool | None = None
) -> IndexPlace:
    """On this machine the file itself, elsewhere a copy that Spark ships to every host once."""
    context = spark.sparkContext
    if distribute is None:
        distribute = not is_local(context.master or "")
    if not distribute:
        return IndexPlace(str(index_file.absolute()), shipped=False)
    lasting = lasting_copy(index_file)
    context.addFile(str(lasting))
    return IndexPlace(lasting.name, shipped=True)


def lasting_copy(given: Path) -> Path:
    """The same file under a name of its own that stays while this process lives.

    Executors that join later fetch every file that was ever added, and Spark refuses a second file
    of one name: so the name says which file it is, and the file is not removed with its job.
    """
    try:
        status = given.stat()
    except OSError as error:
        raise UsageError(f"cannot read the file {given}: {error.strerror}") from error
    which = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    name = f"{given.stem}-{'-'.join(f'{number:x}' for number in which)}{given.suffix}"
    lasting = scratch_folder() / name
    if not lasting.exists():
        try:
            os.link(given, lasting)
        except OSError:  # another file system, or one without links
            shutil.copyfile(given, lasting)
    return lasting


@cache
def scratch_folder() -> Path:
    """A folder for index files of lazy DataFrames; removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="crossroads-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
