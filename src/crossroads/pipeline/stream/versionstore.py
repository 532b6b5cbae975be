"""Versions of a subscription table on disk: index files that never change, and who is in a version.

    FOLDER/levels/level-000000007.index      a compiled level with its rows; see `matching.live`
    FOLDER/versions/000000012.version        of each level of version 12: who is dead, who is paused
    FOLDER/rejects/part-00012.parquet        what was rejected with entry 12 of the journal
    FOLDER/journal.jsonl                     what happened, and which versions are committed

A version is a few levels and two masks for each, so it is taken up, opened by workers and brought
back after a crash without compiling or replaying anything. Files are written beside their place,
forced to the disk and renamed; one that no committed version names is of no use to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import OtherSchema
from crossroads.indexfile import OpenedIndex, open_index, save_index
from crossroads.indexfile.layout import read_arrays, sync_folder, write_arrays
from crossroads.matching.live import Bools, Level
from crossroads.model.schema import Schema
from crossroads.pipeline.output import part_path, write_rejects
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.stream.foldersink import sync_file

ROW = pa.schema(
    [
        ("id", pa.string()),
        ("subscriber", pa.string()),
        ("filter", pa.string()),
        ("valid_until", pa.int64()),
    ]
)
LEVELS = "levels"
NEVER = 2**63 - 1  # `valid_until` of a subscription that does not expire, in ms since 1970
UNTIL = "valid_until"
_FILTERS = "filters"


@dataclass(frozen=True)
class StoredLevel:
    """A level of a version: its file, and who of it is not reported."""

    file: Path
    dead: Bools
    paused: Bools


class VersionStore:
    """Files only; what they mean, and when they may go, is for `SubscriptionLog` to say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._levels = folder / LEVELS
        self._versions = folder / "versions"
        self._rejects = folder / "rejects"
        for each in (self._levels, self._versions):
            each.mkdir(parents=True, exist_ok=True)
        self._last = max((_number(file) for file in self._levels.glob("*.index")), default=0)

    # -- levels ------------------------------------------------------------------------------

    def save_level(self, level: Level, version: int) -> Path:
        """Under a name of its own: names are not used again while a file of that name exists."""
        self._last += 1
        path = self._levels / f"level-{self._last:09d}.index"
        until = level.rows[UNTIL].to_numpy()
        save_index(
            path,
            level.index,
            subscriptions=level.rows.select(["id", "subscriber"]),
            subscription_version=version,
            content_hash="",
            extra={UNTIL: np.asarray(until, np.int64), _FILTERS: _packed(level.rows["filter"])},
        )
        return path

    def open_level(self, stored: StoredLevel, schema: Schema) -> Level:
        opened = open_index(stored.file, schema)
        return Level.compiled(opened.index, rows_of(opened), stored.dead)

    # -- versions ----------------------------------------------------------------------------

    def version_file(self, version: int) -> Path:
        return self._versions / f"{version:09d}.version"

    def save_version(self, version: int, schema: Schema, levels: Sequence[StoredLevel]) -> None:
        arrays = {}
        for number, level in enumerate(levels):
            arrays[f"dead.{number}"] = np.packbits(level.dead)
            arrays[f"paused.{number}"] = np.packbits(level.paused)
        content = {
            "version": version,
            "schema": schema.describe(),
            "schema_hash": schema.hash,
            "levels": [[level.file.name, int(level.dead.size)] for level in levels],
        }
        write_arrays(self.version_file(version), arrays, content)

    def load_version(self, version: int, schema: Schema | None = None) -> list[StoredLevel]:
        return load_version(self.version_file(version), schema)

    def versions(self) -> list[int]:
        """All that have a file, ascending."""
        return sorted(_number(file) for file in self._versions.glob("*.version"))

    # -- rejects -----------------------------------------------------------------------------

    def save_rejects(self, number: int, rejects: Sequence[Reject]) -> None:
        if rejects:
            sync_file(write_rejects(self._rejects, rejects, "parquet", number))
            sync_folder(self._rejects)

    def load_rejects(self, number: int) -> list[Reject]:
        path = self._reject_file(number)
        return [Reject(**row) for row in pq.read_table(path).to_pylist()] if path.exists() else []

    def _reject_file(self, number: int) -> Path:
        return part_path(self._rejects, number, "parquet")

    # -- tidying -----------------------------------------------------------------------------

    def keep_only(
        self, versions: Iterable[int], levels: Iterable[Path], entries: Iterable[int]
    ) -> None:
        """Delete everything but these versions with their levels, these levels, and the rejects of
        these entries; also what half-finished writes left behind."""
        kept = {*levels, *(self._reject_file(number) for number in entries)}
        for version in versions:
            kept.add(self.version_file(version))
            kept |= {level.file for level in self.load_version(version)}
        # The versions first: none may name a level that is gone.
        for folder in (self._versions, self._levels, self._rejects):
            for path in folder.iterdir() if folder.exists() else ():
                if path not in kept:
                    path.unlink(missing_ok=True)


def load_version(path: Path, schema: Schema | None = None) -> list[StoredLevel]:
    """Of a version file; `OtherSchema` if it was made for another one."""
    stored = read_arrays(path, verify=True)
    if schema is not None and schema.hash != stored.content["schema_hash"]:
        changes = "; ".join(schema.changes_from(stored.content["schema"])) or "details differ"
        raise OtherSchema(
            f"{path} was made for another schema: {changes}",
            hint="give the schema it was made for, or start with a new checkpoint",
        )
    levels = path.parent.parent / LEVELS
    return [
        StoredLevel(
            levels / name,
            _bools(stored.arrays[f"dead.{number}"], size),
            _bools(stored.arrays[f"paused.{number}"], size),
        )
        for number, (name, size) in enumerate(stored.content["levels"])
    ]


def rows_of(opened: OpenedIndex) -> pa.Table:
    """The rows of a level, in columns that lie in its file."""
    with pa.ipc.open_stream(pa.py_buffer(opened.extra[_FILTERS])) as stream:
        filters = stream.read_all()["filter"]
    columns = [opened.ids, opened.subscribers, filters, pa.array(opened.extra[UNTIL])]
    return pa.table(columns, schema=ROW)


def _packed(filters: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """A column in Arrow's own stream format, which is read in place."""
    table = pa.table({"filter": filters})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _bools(packed: npt.NDArray[np.uint8], size: int) -> Bools:
    return np.unpackbits(packed, count=size).view(np.bool_)


def _number(file: Path) -> int:
    """That in the name of a file of ours."""
    return int(file.stem.rpartition("-")[2])
