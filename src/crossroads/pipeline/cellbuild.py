"""Building the indexes of all cells, in Spark's workers: into a folder, or kept by Spark itself.

With an index store every task saves the files of its cells there. Without one, on a cluster, nobody
knows a folder that all workers see: then the bytes of the files stay in Spark, on the disks of its
executors, and travel to the events of their cell when these are matched.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.errors import IndexFileError, SourceError
from crossroads.indexfile import OpenedIndex, cached_index, open_index
from crossroads.model.schema import Schema
from crossroads.pipeline.blocks import DATA, KIND, NUMBER, TURN, Batches, Block, grouped
from crossroads.pipeline.cellindex import CellIndex, save_cell
from crossroads.pipeline.indexstore import Manifest, StoredFile, build_id
from crossroads.pipeline.sharing import Sharing
from crossroads.pipeline.source import SourceFile, Split, fingerprint
from crossroads.pipeline.storefolder import Folder
from crossroads.pipeline.subscriptionframe import (
    NAMES,
    REJECTS,
    ROOT,
    ROWS,
    Keying,
    keyed_blocks,
)

FileState = tuple[int, int, int]  # which file it is, its size, when it was changed

CHUNK_BYTES = 8 << 20  # of a file that Spark keeps: a row of Spark's must stay well below 2 GB
_WORDS = {ROWS: "cell", NAMES: "names", REJECTS: "rejects"}
_BUILT = T.StructType(
    [
        *(T.StructField(name, T.IntegerType()) for name in (KIND, NUMBER)),
        *(T.StructField(name, T.LongType()) for name in (TURN, "bytes", "count")),
        T.StructField("name", T.StringType()),
        T.StructField(DATA, T.BinaryType()),
    ]
)
_ARROW = pa.schema(
    [
        *((name, pa.int32()) for name in (KIND, NUMBER)),
        *((name, pa.int64()) for name in (TURN, "bytes", "count")),
        ("name", pa.string()),
        (DATA, pa.binary()),
    ]
)


class BuiltSet(ABC):
    """A set of subscriptions as indexes by cell, wherever they are."""

    manifest: Manifest

    @abstractmethod
    def table(self, file: StoredFile) -> pa.Table:
        """Names or rejects, for the driver."""

    @abstractmethod
    def path(self, file: StoredFile) -> Path:
        """The file of one cell where the driver can open it."""


@dataclass(frozen=True)
class StoredSet(BuiltSet):
    """Files in a folder that all workers see, or can fetch from. Pickled with every task."""

    folder: Folder
    manifest: Manifest
    verify: bool  # checksums: not for what this very run has written

    def table(self, file: StoredFile) -> pa.Table:
        with pa.memory_map(str(self.path(file))) as source:
            return pa.ipc.open_file(source).read_all()

    def path(self, file: StoredFile) -> Path:
        if file.kind == ROWS:
            self._index(file)  # whole, before anybody opens it by its path
        return self._here(file)

    def open(self, cell: int) -> CellIndex:
        return CellIndex(cell, self._index(self.manifest.of_kind(ROWS)[cell]))

    def _index(self, file: StoredFile) -> OpenedIndex:
        copy = self._here(file)
        try:
            return cached_index(copy, verify=self.verify)
        except IndexFileError:
            # A copy on this host may have made room for another between the look and the opening,
            # or be damaged: then it is fetched once more.
            if self.folder.local is not None:
                raise
            copy.unlink(missing_ok=True)
            return cached_index(self._here(file), verify=self.verify)

    def _here(self, file: StoredFile) -> Path:
        return self.folder.fetch(file.name, file.bytes)


@dataclass(frozen=True)
class HeldSet(BuiltSet):
    """Files as rows of a frame that Spark keeps: `kind, number, turn, data`."""

    frame: DataFrame
    manifest: Manifest
    scratch: Path  # of the driver, for what it opens itself

    def table(self, file: StoredFile) -> pa.Table:
        return pa.ipc.open_file(pa.py_buffer(b"".join(self._chunks(file)))).read_all()

    def path(self, file: StoredFile) -> Path:
        path = self.scratch / file.name
        with path.open("wb") as out:
            for chunk in self._chunks(file):
                out.write(chunk)
        return path

    def _chunks(self, file: StoredFile) -> Iterator[bytes]:
        here = (F.col(KIND) == file.kind) & (F.col(NUMBER) == file.number)
        for row in self.frame.where(here).orderBy(TURN).select(DATA).toLocalIterator():
            yield bytes(row[DATA])


# -- building --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Subscriptions to build from."""

    files: Sequence[SourceFile]
    splits: Sequence[Split]
    content_hash: str
    states: Sequence[FileState]  # of the files, from before their content was hashed

    @staticmethod
    def of(files: Sequence[SourceFile], splits: Sequence[Split]) -> Source:
        states = _states(files)
        return Source(files, splits, fingerprint(files), states)

    def is_unchanged(self) -> bool:
        """What was read under this hash has it: else later jobs would be served other content."""
        try:
            return _states(self.files) == self.states
        except SourceError:  # gone
            return False

    def file_of(self) -> dict[int, int]:
        """By split which of the files, in order, it is of."""
        order = {file.path: at for at, file in enumerate(self.files)}
        return {split.number: order[split.path] for split in self.splits}


def _states(files: Sequence[SourceFile]) -> list[FileState]:
    try:
        found = [Path(file.path).stat() for file in files]
    except OSError as error:
        raise SourceError(f"cannot read {error.filename}: {error.strerror or error}") from error
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


def _changed() -> SourceError:
    return SourceError(
        "the subscriptions changed while their index was built: nothing was kept of it",
        hint="run it again when nobody writes to them",
    )


def build_stored(
    spark: SparkSession,
    source: Source,
    keying: Keying,
    folder: Folder,
    sharing: Sharing,
    *,
    durable: bool,
) -> Manifest:
    """All files of the set, in the folder; the manifest is the caller's to publish."""
    build = build_id()
    mark = f".build-{build}"
    folder.replace(mark, b"")
    saving = partial(_save_here, keying.schema, source.content_hash, durable)

    def save(batches: Batches) -> Iterator[pa.RecordBatch]:
        if folder.read(mark) is None:
            raise IndexFileError(
                f"a worker does not see the index store {folder.shown}",
                hint="choose a folder that all machines see under one name, or a URI",
            )
        for kind, number, blocks in grouped(batches):
            name = _name(kind, number, build)
            size, count = folder.put(name, partial(saving, kind=kind, blocks=blocks))
            yield _row(kind, number, 0, size, count, name, None)

    try:
        rows = (
            keyed_blocks(spark, source.splits, keying, sharing).mapInArrow(save, _BUILT).collect()
        )
    finally:
        folder.delete(mark)
    manifest = _manifest(source, keying, rows)
    if not source.is_unchanged():
        for one in manifest.files:
            folder.delete(one.name)
        raise _changed()
    return manifest


def build_held(
    spark: SparkSession, source: Source, keying: Keying, scratch: Path, sharing: Sharing
) -> HeldSet:
    """The same within Spark, until the application ends or the frame is released."""
    build = build_id()
    saving = partial(_save_here, keying.schema, source.content_hash, False)

    def save(batches: Batches) -> Iterator[pa.RecordBatch]:
        for kind, number, blocks in grouped(batches):
            with tempfile.TemporaryDirectory(prefix="crossroads-") as folder:
                path = Path(folder, "file")
                count = saving(path, kind=kind, blocks=blocks)
                size = path.stat().st_size
                name = _name(kind, number, build)
                with path.open("rb") as file:
                    for turn, chunk in enumerate(iter(lambda: file.read(CHUNK_BYTES), b"")):
                        yield _row(kind, number, turn, size, count, name, chunk)

    blocks = keyed_blocks(spark, source.splits, keying, sharing)
    frame = blocks.mapInArrow(save, _BUILT).persist(StorageLevel.DISK_ONLY)
    rows = frame.where(F.col(TURN) == 0).drop(DATA).collect()
    if not source.is_unchanged():
        frame.unpersist()
        raise _changed()
    return HeldSet(frame, _manifest(source, keying, rows), scratch)


def _manifest(source: Source, keying: Keying, built: Sequence[Row]) -> Manifest:
    files = sorted(
        (StoredFile(row.kind, row.number, row.name, row.bytes, row["count"]) for row in built),
        key=lambda one: (one.kind, one.number),
    )
    usable = sum(one.count for one in files if one.kind == NAMES)
    rejected = sum(one.count for one in files if one.kind == REJECTS)
    rows = keying.looked.rows
    return Manifest(source.content_hash, rows, usable, rejected, source.file_of(), tuple(files))


def _save_here(
    schema: Schema,
    content_hash: str,
    durable: bool,
    path: Path,
    *,
    kind: int,
    blocks: Iterator[Block],
) -> int:
    """What the blocks hold as one file; how many subscriptions or rejects that are."""
    tables = [block.table for block in blocks]
    if kind == ROWS:
        return save_cell(path, tables, schema, content_hash, durable=durable)
    table = pa.concat_tables(tables)
    with path.open("wb") as file:
        with pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    without = table["id"].null_count if kind == NAMES else 0
    return int(table.num_rows - without)


def _name(kind: int, number: int, build: str) -> str:
    if kind == ROWS and number == ROOT:
        return f"root-{build}.xroads"
    return f"{_WORDS[kind]}-{number:05d}-{build}.{'xroads' if kind == ROWS else 'arrow'}"


def _row(
    kind: int, number: int, turn: int, size: int, count: int, name: str, data: bytes | None
) -> pa.RecordBatch:
    values = (kind, number, turn, size, count, name, data)
    arrays = [pa.array([value], field.type) for value, field in zip(values, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


# -- an index that travelled -----------------------------------------------------------------------


def travelled(cell: int, chunks: Iterator[pa.Buffer]) -> CellIndex:
    """The index of a cell from the bytes of its file. The pages stay while it is in use; the file
    is gone at once."""
    with tempfile.TemporaryDirectory(prefix="crossroads-") as folder:
        path = Path(folder, "cell")
        with path.open("wb") as out:
            for chunk in chunks:
                out.write(chunk)
        return CellIndex(cell, open_index(path, verify=False))


OpenCell = Callable[[int], CellIndex]
