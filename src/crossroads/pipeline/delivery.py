"""Each partition of a frame writes files of its own, and they end in the driver's folder.

Where the workers see that folder they write there. Where they do not, a partition writes into a
scratch folder, its bytes wait on the executors' disks as rows of Spark's, and the driver fetches
them piece by piece, so that a part may be larger than anybody's memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path

import pyarrow as pa
from pyspark import RDD, StorageLevel, TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T  # noqa: N812 (Spark's own habit)

from crossroads.pipeline.frames import map_batches
from crossroads.pipeline.output import replacing
from crossroads.pipeline.sharing import Sharing, require_seen

CHUNK_BYTES = 1 << 20  # of a file on its way: Spark packs rows for Python by the megabyte
CHUNKS_AT_A_TIME = 32  # that the driver holds
# Scratch. On a cluster parts are gathered here until the last is written: should one worker not see
# the folder and the plan be run again, tasks that were given up may go on writing, to no effect.
GATHERED = "_gathered"

_REPORT = [T.StructField(name, T.LongType()) for name in ("part", "told", "some")]
_WRITTEN = T.StructType(_REPORT)
_BROUGHT = T.StructType(
    [*_REPORT, T.StructField("file", T.StringType()), T.StructField("data", T.BinaryType())]
)


@dataclass(frozen=True)
class Written:
    """What a partition reports: the number of its part, who was told, events with a match."""

    part: int
    told: int
    some: int


# What a partition does: write files below a folder under its number, and count `told` and `some`.
Write = Callable[[Iterable[pa.RecordBatch], Path, int], tuple[int, int]]


def write_partitions(
    frame: DataFrame, staging: Path, write: Write, sharing: Sharing
) -> list[Written]:
    """All partitions, in parallel; afterwards their files are below `staging`."""
    if sharing.brought:
        return _bring(frame, staging, write)
    beacon = sharing.beacon
    gathered = staging if beacon is None else staging / GATHERED
    gathered.mkdir(exist_ok=True)
    folder = str(gathered)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        require_seen(beacon)
        done = _numbered(write, batches, Path(folder))
        yield pa.record_batch({"part": [done.part], "told": [done.told], "some": [done.some]})

    rows = map_batches(frame, work, _WRITTEN).collect()
    if beacon is not None:
        _move(gathered, staging)
    return [Written(row.part, row.told, row.some) for row in rows]


def _move(gathered: Path, staging: Path) -> None:
    for path in [each for each in gathered.rglob("*") if _is_whole(each)]:
        target = staging / path.relative_to(gathered)
        target.parent.mkdir(exist_ok=True)
        path.replace(target)


def _is_whole(path: Path) -> bool:
    """A file, and not one that a killed worker has begun."""
    return path.is_file() and not path.name.startswith(".")


def _numbered(write: Write, batches: Iterable[pa.RecordBatch], folder: Path) -> Written:
    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    return Written(number, *write(batches, folder, number))


# -- through Spark -------------------------------------------------------------------------------


def _bring(frame: DataFrame, staging: Path, write: Write) -> list[Written]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryDirectory(prefix="crossroads-") as folder:
            done = _numbered(write, batches, Path(folder))
            yield _row(done)
            for file, data in _chunks(Path(folder)):
                yield _row(done, file, data)

    rows = map_batches(frame, work, _BROUGHT).rdd.persist(StorageLevel.DISK_ONLY)
    try:
        # This works through all partitions; from now on they are read from disk.
        reports = rows.filter(lambda row: row.file is None).collect()
        for report in reports:
            for file, pieces in groupby(_fetched(rows, report.part), lambda row: str(row.file)):
                with replacing(staging / file) as out:
                    for piece in pieces:
                        out.write(piece.data)
        return [Written(row.part, row.told, row.some) for row in reports]
    finally:
        rows.unpersist()


def _row(done: Written, file: str | None = None, data: bytes | None = None) -> pa.RecordBatch:
    columns = {
        "part": pa.array([done.part], pa.int64()),
        "told": pa.array([done.told], pa.int64()),
        "some": pa.array([done.some], pa.int64()),
        "file": pa.array([file], pa.string()),
        "data": pa.array([data], pa.binary()),
    }
    return pa.record_batch(columns)


def _chunks(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files below a folder in pieces; of an empty file one, so that it arrives too."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            yield name, file.read(CHUNK_BYTES)
            while data := file.read(CHUNK_BYTES):
                yield name, data


def _fetched(rows: RDD[Row], part: int) -> Iterator[Row]:
    """The pieces of one partition, in order, a few at a time."""
    start = 1  # the first row is the report
    while True:
        some = partial(_between, start=start, end=start + CHUNKS_AT_A_TIME)
        found = rows.context.runJob(rows, some, [part])
        yield from found
        if len(found) < CHUNKS_AT_A_TIME:
            return
        start += CHUNKS_AT_A_TIME


def _between(rows: Iterable[Row], start: int, end: int) -> Iterator[Row]:
    return islice(rows, start, end)
