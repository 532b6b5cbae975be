"""What waits for its digest, on disk: a file per delivery that changed it.

    digest/00000000000000262144.parquet    the rows that came, and who was told
    digest/published                       the last delivery that the sink has for sure

A file is written once, whole and durably, before the sink hears of its delivery. It has all that
the delivery decided, so after a crash nothing is decided again: the files in their order give the
rows that wait and, from the last one, those that leave. A file goes when neither its rows nor older
ones wait any more.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import OutputError
from crossroads.indexfile.layout import sync_folder
from crossroads.pipeline.output import replacing
from crossroads.pipeline.stream.digest import (
    ARRIVED_IN,
    ARRIVED_MS,
    STAYING,
    SUBSCRIBER,
    parted,
)

PUBLISHED = "published"
_FACTS = b"crossroads"


@dataclass(frozen=True)
class Waiting:
    """After the delivery `number`: what stays, and what leaves with it."""

    number: int  # -1 before the first
    staying: pa.Table | None  # None as long as nothing has come, for want of columns
    leaving: pa.Table | None


@dataclass(frozen=True)
class Entry:
    """One delivery: what came, when, and what was decided."""

    number: int
    now_ms: int
    rows: pa.Table | None
    told: pa.Table

    def after(self, before: Waiting) -> Waiting:
        waiting = arrived(before.staying, self.rows, self.number, self.now_ms)
        if waiting is None:
            return Waiting(self.number, None, None)
        leaving, staying = parted(waiting, self.told)
        return Waiting(self.number, staying, leaving)


def arrived(
    waiting: pa.Table | None, rows: pa.Table | None, number: int, now_ms: int
) -> pa.Table | None:
    """The rows that wait, with those that just came behind them."""
    if rows is None or rows.num_rows == 0:
        return waiting
    for name, value in ((ARRIVED_MS, now_ms), (ARRIVED_IN, number)):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows))
    return rows if waiting is None else pa.concat_tables([waiting, rows]).combine_chunks()


class DigestLog:
    """One writer: the stream that holds the checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self) -> Waiting:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            state = Waiting(-1, None, None)
            for path in self._files():
                state = _read(path).after(state)
        except (OSError, pa.ArrowInvalid) as error:
            raise OutputError(
                f"cannot read what waits in {self.folder}: {error}",
                hint="put back the whole checkpoint from a copy",
            ) from error
        return state

    def append(self, entry: Entry) -> None:
        path = self.folder / f"{entry.number:020d}.parquet"
        try:
            with replacing(path) as file:
                pq.write_table(_table(entry), file, compression="snappy")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.folder)
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror or error}",
                hint="check its permissions and the free space",
            ) from error

    def published(self) -> int:
        """-1 where nothing is known: then the last delivery is published again."""
        try:
            return int((self.folder / PUBLISHED).read_text())
        except (FileNotFoundError, ValueError):
            return -1

    def note_published(self, state: Waiting) -> None:
        # Not synced: without it the delivery is only offered once more.
        with replacing(self.folder / PUBLISHED) as file:
            file.write(str(state.number).encode())
        self._prune(state)

    def _prune(self, state: Waiting) -> None:
        """The last file stays in any case: it says which deliveries are done."""
        rows = state.staying
        oldest = rows[ARRIVED_IN][0].as_py() if rows is not None and rows.num_rows else state.number
        for path in self._files():
            if int(path.stem) < oldest:
                path.unlink()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))


def _table(entry: Entry) -> pa.Table:
    """Rows that came have no `staying`; who was told has nothing else but the name."""
    tables = [entry.told]
    if entry.rows is not None:
        empty = pa.nulls(entry.rows.num_rows, pa.int64())
        tables.insert(0, entry.rows.append_column(STAYING, empty))
    facts = {_FACTS: json.dumps({"now_ms": entry.now_ms, "rows": entry.rows is not None}).encode()}
    table = pa.concat_tables(tables, promote_options="default")
    return table.replace_schema_metadata(facts)


def _read(path: Path) -> Entry:
    with pq.ParquetFile(path) as file:
        table = file.read()
    facts = json.loads(table.schema.metadata[_FACTS])
    table = table.replace_schema_metadata(None)
    is_told = table[STAYING].is_valid()
    told = table.filter(is_told).select([SUBSCRIBER, STAYING])
    rows = table.filter(table[STAYING].is_null()).drop_columns([STAYING]) if facts["rows"] else None
    return Entry(int(path.stem), facts["now_ms"], rows, told)
