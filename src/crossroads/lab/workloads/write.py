"""Workloads to files: `schema.toml`, `events.*` and `subscriptions.*` in one folder.

One block at a time, so memory does not grow with the size. The same parameters give the same bytes
(no clock, no file name in gzip headers). Every file is written under a temporary name and renamed
when complete: whoever finds a file under its own name finds all of it.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from crossroads.errors import OutputError, UsageError
from crossroads.lab.workloads.workload import Workload

FORMATS = ("parquet", "csv", "jsonl")
# Readers share a file out by row groups: small enough that two cores both get work at 100k rows.
ROW_GROUP_ROWS = 32_768
GZIP_LEVEL = 6  # gzip's own default; pinned because it decides the bytes

Advance = Callable[[str, int], None]  # (events or subscriptions, how many more rows are written)


@dataclass(frozen=True, slots=True)
class Written:
    schema: Path
    events: Path
    subscriptions: Path

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        return self.schema, self.events, self.subscriptions


def targets(folder: Path, format: str, compress: bool) -> Written:  # noqa: A002 (the flag's name)
    """Where the files of a workload go."""
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", hint="one of " + ", ".join(FORMATS))
    if compress and format == "parquet":
        raise UsageError("Parquet is compressed inside already", hint="leave --gzip out")
    ending = format + (".gz" if compress else "")
    return Written(
        folder / "schema.toml", folder / f"events.{ending}", folder / f"subscriptions.{ending}"
    )


def write_workload(
    workload: Workload,
    folder: Path,
    *,
    format: str = "parquet",  # noqa: A002 (the flag's name)
    compress: bool = False,
    overwrite: bool = False,
    advance: Advance = lambda _what, _rows: None,
) -> Written:
    """Write all three files, or raise and leave what was there before."""
    files = targets(folder, format, compress)
    _check_free(files, overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as finish:
            # Renames happen when the stack closes, that is after all three were written.
            schema = finish.enter_context(_complete_or_absent(files.schema))
            events = finish.enter_context(_complete_or_absent(files.events))
            subscriptions = finish.enter_context(_complete_or_absent(files.subscriptions))
            schema.write_text(workload.schema_toml, encoding="utf-8", newline="\n")
            _write(workload.event_batches(), events, format, compress, "events", advance)
            _write(
                workload.subscription_batches(),
                subscriptions,
                format,
                compress,
                "subscriptions",
                advance,
            )
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write to {folder}: {reason}") from error
    return files


def _check_free(files: Written, overwrite: bool) -> None:
    taken = [path for path in files.paths if path.exists()]
    for path in taken:
        if path.is_dir():
            raise OutputError(f"{path} is a folder", hint="choose another --output")
    if taken and not overwrite:
        raise OutputError(
            f"{taken[0]} exists already", hint="choose another --output or add --force"
        )


@contextlib.contextmanager
def _complete_or_absent(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place on success and goes away on failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# -- formats -----------------------------------------------------------------------------------


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> object: ...

    def close(self) -> None: ...


def _write(
    batches: Iterable[pa.RecordBatch],
    path: Path,
    format: str,  # noqa: A002 (the flag's name)
    compress: bool,
    what: str,
    advance: Advance,
) -> None:
    with path.open("wb") as file, _sink(file, compress) as sink:
        ahead = iter(batches)
        first = next(ahead)  # a workload has at least one row of each
        # Closed on failure too, while the file under it is still open.
        with contextlib.closing(_WRITERS[format](sink, first.schema)) as writer:
            for batch in itertools.chain([first], ahead):
                writer.write(batch)
                advance(what, batch.num_rows)


def _sink(file: IO[bytes], compress: bool) -> contextlib.AbstractContextManager[IO[bytes]]:
    if not compress:
        return contextlib.nullcontext(file)
    # No name and no time of writing in the header: equal content gives equal bytes.
    packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=GZIP_LEVEL, mtime=0)
    return cast(contextlib.AbstractContextManager[IO[bytes]], packed)


class _ParquetWriter:
    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._file = pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write_batch(batch, row_group_size=ROW_GROUP_ROWS)

    def close(self) -> None:
        self._file.close()


class _JsonLinesWriter:
    def __init__(self, sink: IO[bytes], _schema: pa.Schema) -> None:
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(json_lines(batch))

    def close(self) -> None:
        """The file belongs to the caller."""


_WRITERS: dict[str, Callable[[IO[bytes], pa.Schema], _Writer]] = {
    "parquet": _ParquetWriter,
    "csv": pyarrow.csv.CSVWriter,
    "jsonl": _JsonLinesWriter,
}


def json_lines(batch: pa.RecordBatch) -> bytes:
    """One JSON object per row, column by column: a row at a time would take most of the run.

    NULL is written as `null`; dates as ISO text. The plain meaning is `json.loads` of each line.
    """
    pieces: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        pieces.append(("," if number else "{") + json.dumps(name, ensure_ascii=False) + ":")
        pieces.append(pc.fill_null(_json_values(column), "null"))
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    return "".join(lines.to_pylist()).encode()


def _json_values(column: pa.Array) -> pa.Array:
    text = pc.cast(column, pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_date(column.type)):
        return text
    if pc.any(pc.match_substring_regex(text, r'[\x00-\x1f"\\]')).as_py():
        return pa.array(
            [None if v is None else json.dumps(v, ensure_ascii=False) for v in text.to_pylist()],
            pa.string(),
        )
    return pc.binary_join_element_wise('"', text, '"', "")
