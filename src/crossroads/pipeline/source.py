"""Where events come from: the files of a path, and how they are cut into splits for parallel work.

A split is a small, picklable piece of one file that a worker reads on its own: row groups of
Parquet; a range of bytes of a large CSV or JSON-lines file, cut between rows and carrying its first
line number; a whole file when it is compressed. What can be known before the work starts (a header
without the id attributes, a damaged Parquet footer) is found here, so that it is one error at once.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import os
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import SourceError
from crossroads.model.csvrows import find_rows
from crossroads.model.schema import Schema
from crossroads.pipeline.terms import Terms
from crossroads.pipeline.window import Window

CHUNK_BYTES = 4 << 20  # enough rows to amortise each call, and still in the cache of a core
SPLIT_BYTES = 64 << 20  # about a second of reading per task
BOM = b"\xef\xbb\xbf"
_FORMATS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_GZIP_MEMBER = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class SourceFile:
    path: str
    format: str  # csv, jsonl or parquet
    compressed: bool
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A piece of one file: a range of uncompressed bytes, or of row groups for Parquet."""

    number: int
    path: str
    format: str
    compressed: bool
    start: int
    end: int | None  # None: to the end of the file
    first_line: int  # of the file, from 1; for Parquet the number of the first row, from 1
    header: tuple[str, ...] = ()  # the columns of a CSV
    warnings: tuple[str, ...] = ()  # about the file; on its first split only
    window: Window | None = None  # of its events, only those in it are meant
    terms: Terms | None = None  # of a stream: what it asks of the rows
    place: str | None = None  # where a copy of the file is, for workers who do not see `path`

    @property
    def opened(self) -> str:
        """What to open; `path` is what the file is called in everything that is said of it."""
        return self.place or self.path


class TruncatedGzip(Exception):
    """The compressed file ends, or breaks, before its contents do; what came before is good."""


# -- files -------------------------------------------------------------------------------------


def list_files(path: str | Path) -> list[SourceFile]:
    """The data files of a path, at any depth, sorted. Names that begin with . or _ are not data."""
    root = Path(path)
    try:
        if root.is_dir():
            found = sorted(_files_under(root))
        elif root.exists():
            found = [root]
        else:
            raise SourceError(f"{root} does not exist")
        files = [source_file(each) for each in found]
        for each in found:
            with each.open("rb"):
                pass
    except OSError as error:
        raise SourceError(
            f"cannot read {error.filename or root}: {error.strerror or error}",
            hint="check that it exists and that you may read it",
        ) from error
    if not files:
        raise SourceError(
            f"{root} is a folder without data files",
            hint="expected .csv, .jsonl, .json or .parquet",
        )
    return files


def _files_under(root: Path) -> Iterator[Path]:
    """Links are followed; a folder that several of them lead to, or back to, is read once."""

    def fail(error: OSError) -> None:
        raise error  # os.walk would skip a folder it may not enter

    seen: set[str] = set()
    for where, folders, names in os.walk(root, followlinks=True, onerror=fail):
        real = os.path.realpath(where)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not _hidden(name))
        for name in names:
            file = Path(where, name)
            # a link to nothing is kept, so that it is an error, and not data that is missing
            if not _hidden(name) and (file.is_file() or not file.exists()):
                yield file


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def source_file(path: Path) -> SourceFile:
    name = path.name.lower()
    compressed = name.endswith(".gz")
    bare = Path(name.removesuffix(".gz")).suffix
    kind = _FORMATS.get(bare)
    if kind is None or (compressed and kind == "parquet"):
        raise SourceError(
            f"{path}: unknown format {''.join(Path(name).suffixes) or '(no suffix)'}",
            hint="known: .csv, .jsonl, .ndjson, .json, each also with .gz, and .parquet",
        )
    return SourceFile(str(path), kind, compressed, path.stat().st_size)


def fingerprint(files: Sequence[SourceFile]) -> str:
    """A hash of all content, in order: equal for equal inputs, wherever they lie."""
    whole = hashlib.sha256()
    for file in files:
        with Path(file.path).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(f"{Path(file.path).name}\0{file.size}\0{digest}\n".encode())
    return whole.hexdigest()


# -- bytes -------------------------------------------------------------------------------------


def read_chunks(
    path: str, compressed: bool, start: int, end: int | None, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """The uncompressed bytes [start, end) in order. TruncatedGzip comes after all that is good."""
    if compressed:
        position = 0
        for chunk in _gunzip(path, chunk_bytes):
            if position + len(chunk) > start:
                yield chunk[max(0, start - position) :]
            position += len(chunk)
        return
    with Path(path).open("rb") as stream:
        stream.seek(start)
        left = end - start if end is not None else -1
        while left:
            chunk = stream.read(chunk_bytes if left < 0 else min(left, chunk_bytes))
            if not chunk:
                return
            left -= len(chunk) if left > 0 else 0
            yield chunk


def _gunzip(path: str, chunk_bytes: int) -> Iterator[bytes]:
    # zlib itself, not `gzip`: that loses what it has already unpacked when the file ends early
    with Path(path).open("rb") as stream:
        pending = stream.read(chunk_bytes)
        while pending:
            member = zlib.decompressobj(_GZIP_MEMBER)
            while not member.eof:
                if not pending:
                    pending = stream.read(chunk_bytes)
                    if not pending:
                        raise TruncatedGzip("truncated gzip")
                try:
                    unpacked = member.decompress(pending, chunk_bytes)
                except zlib.error as error:
                    raise TruncatedGzip(f"damaged gzip: {error}") from error
                pending = member.unconsumed_tail
                if unpacked:
                    yield unpacked
            pending = member.unused_data or stream.read(chunk_bytes)
            while pending and not pending.strip(b"\0"):  # padding between and after members
                pending = stream.read(chunk_bytes)


# -- splits ------------------------------------------------------------------------------------


def plan_splits(
    files: Sequence[SourceFile],
    schema: Schema | None,
    target_bytes: int = SPLIT_BYTES,
    *,
    cores: int = 1,
) -> list[Split]:
    """All splits of all files, numbered in order. With a schema, headers are checked against it.

    A Parquet file is cut evenly, into as many pieces for each of the `cores`: where there are few
    pieces, one more for one core would be what all wait for.
    """
    if all(file.size == 0 for file in files):
        names = ", ".join(file.path for file in files[:3]) + (", …" if len(files) > 3 else "")
        raise SourceError(f"nothing to read: {names} is empty")
    planned: list[Split] = []
    for file in files:
        try:
            planned += _plan_file(file, schema, target_bytes, cores)
        except OSError as error:
            raise SourceError(f"cannot read {file.path}: {error.strerror or error}") from error
    return [replace(split, number=number) for number, split in enumerate(planned)]


def warnings_of(splits: Sequence[Split]) -> list[str]:
    """Everything noticed while planning, for the summary."""
    return [warning for split in splits for warning in split.warnings]


def _plan_file(
    file: SourceFile, schema: Schema | None, target_bytes: int, cores: int
) -> Iterator[Split]:
    if file.size == 0:
        return
    if file.format == "parquet":
        yield from _plan_parquet(file, schema, target_bytes, cores)
        return
    whole = Split(
        number=0,
        path=file.path,
        format=file.format,
        compressed=file.compressed,
        start=_bom_length(file),
        end=None,
        first_line=1,
    )
    if file.format == "csv":
        whole = _with_header(whole, schema)
    else:
        _refuse_json_array(whole)
        if schema is not None:
            _refuse_partition(file.path, schema, ())
    if file.compressed or file.size - whole.start <= target_bytes:
        yield whole
        return
    cuts = _csv_cuts if file.format == "csv" else _line_cuts
    begin, line = whole.start, whole.first_line
    warnings = whole.warnings
    for cut, next_line in cuts(whole, target_bytes):
        if cut < file.size:
            yield replace(whole, start=begin, end=cut, first_line=line, warnings=warnings)
            begin, line, warnings = cut, next_line, ()
    yield replace(whole, start=begin, first_line=line, warnings=warnings)


def _bom_length(file: SourceFile) -> int:
    data, _ = _beginning(file.path, file.compressed, 0, 4)
    return len(BOM) if data.startswith(BOM) else 0


def _beginning(path: str, compressed: bool, start: int, count: int) -> tuple[bytes, bool]:
    """At least the first `count` bytes, or all there are; and whether the file was cut short."""
    found = b""
    try:
        for chunk in read_chunks(path, compressed, start, None, 64 << 10):
            found += chunk
            if len(found) >= count:
                break
    except TruncatedGzip:
        return found, True  # the reader reports it, with everything that could be read
    return found, False


def _line_cuts(split: Split, target_bytes: int) -> Iterator[tuple[int, int]]:
    """Offsets just after a line end, about `target_bytes` apart, and the lines that begin there."""
    position, line = split.start, split.first_line
    wanted = split.start + target_bytes
    for chunk in read_chunks(split.path, False, split.start, None):
        done = 0
        while position + len(chunk) > wanted:
            found = chunk.find(b"\n", max(done, wanted - position - 1))
            if found < 0:
                break
            line += chunk.count(b"\n", done, found + 1)
            done = found + 1
            yield position + done, line
            wanted = position + done + target_bytes
        line += chunk.count(b"\n", done)
        position += len(chunk)


def _csv_cuts(split: Split, target_bytes: int) -> Iterator[tuple[int, int]]:
    """As `_line_cuts`, never inside quotes: rows are followed from the beginning of the file."""
    position, line, kept = split.start, split.first_line, b""
    wanted = split.start + target_bytes
    for chunk in read_chunks(split.path, False, split.start, None):
        data = kept + chunk
        rows = find_rows(data, line=line, final=False)
        at = 0
        while True:
            at += int(rows.starts[at:].searchsorted(wanted - position))
            if at == len(rows.starts):
                break
            cut = position + int(rows.starts[at])
            yield cut, int(rows.lines[at])
            wanted = cut + target_bytes
        kept, line = data[rows.consumed :], rows.next_line
        position += rows.consumed


# -- what the files say of themselves ----------------------------------------------------------


def _with_header(split: Split, schema: Schema | None) -> Split:
    """The split without its header, which it carries instead."""
    count = 64 << 10
    while True:
        data, cut = _beginning(split.path, split.compressed, split.start, count)
        whole = len(data) < count and not cut
        rows = find_rows(data, line=1, final=whole)
        if len(rows.starts) or whole or cut:
            break
        count *= 16
    if not len(rows.starts):
        return split  # nothing but blank lines, or a gzip cut within its header: the reader tells
    raw = data[rows.starts[0] : rows.ends[0]]
    try:
        header = tuple(next(csv.reader([raw.decode()], strict=True)))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{split.path}: the header is not readable: {error}") from error
    more = len(rows.starts) > 1
    follows = int(rows.starts[1]) if more else rows.consumed
    line = int(rows.lines[1]) if more else rows.next_line
    warnings = check_columns(split.path, header, schema) if schema is not None else ()
    return replace(
        split,
        start=split.start + follows,
        first_line=line,
        header=header,
        warnings=warnings,
    )


def check_columns(path: str, columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Refuse columns that cannot be events of the schema; warn of those that mean nothing in it."""
    known: dict[str, str] = {}
    unknown = []
    for column in columns:
        attribute = schema.find(column)
        if attribute is None:
            unknown.append(column)
        elif attribute.name in known:
            raise SourceError(
                f"{path}: two columns, {known[attribute.name]!r} and {column!r}, "
                f"both mean the attribute {attribute.name!r}"
            )
        else:
            known[attribute.name] = column
    _refuse_partition(path, schema, known)
    shown = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
    if not known:
        hint = f"it has: {shown}; attributes: {', '.join(schema.names[:12])}"
        if len(columns) == 1 and (";" in columns[0] or "\t" in columns[0]):
            hint = "its columns seem to be separated by something else than commas"
        raise SourceError(f"{path}: no column is an attribute of schema {schema.name!r}", hint=hint)
    for name in schema.id:
        if name not in known:
            near = difflib.get_close_matches(name.casefold(), [c.casefold() for c in unknown], n=1)
            hint = f"rename its column {near[0]!r}?" if near else f"it has: {shown}"
            raise SourceError(
                f"{path}: there is no column for the id attribute {name!r}", hint=hint
            )
    warnings = []
    if unknown:
        guesses = _with_guesses(unknown, schema, known)
        warnings.append(f"{path}: columns not in the schema, ignored: {guesses}")
    absent = [name for name in schema.names if name not in known]
    if absent:
        shown = ", ".join(absent[:12]) + (", …" if len(absent) > 12 else "")
        warnings.append(f"{path}: no column for: {shown}: NULL in every event")
    return tuple(warnings)


def _refuse_partition(path: str, schema: Schema, known: Collection[str]) -> None:
    """A value that only the name of a folder tells (`day=1/`, as Hive does) would be NULL."""
    for folder in Path(path).parts[:-1]:
        name, equals, _ = folder.partition("=")
        attribute = schema.find(name) if equals else None
        if attribute is not None and attribute.name not in known:
            raise SourceError(
                f"{path}: the attribute {attribute.name!r} is in the folder name {folder!r}, "
                "which is not read",
                hint="write the column into the files, in folders without = in their names",
            )


def _with_guesses(unknown: Sequence[str], schema: Schema, known: dict[str, str]) -> str:
    absent = {name.casefold(): name for name in schema.names if name not in known}
    parts = []
    for column in unknown[:12]:
        near = difflib.get_close_matches(column.casefold(), absent, n=1, cutoff=0.7)
        parts.append(f"{column} (did you mean {absent[near[0]]!r}?)" if near else column)
    return ", ".join(parts) + (", …" if len(unknown) > 12 else "")


def _refuse_json_array(split: Split) -> None:
    if not split.path.lower().removesuffix(".gz").endswith(".json"):
        return
    data, _ = _beginning(split.path, split.compressed, split.start, 1)
    if data.lstrip().startswith(b"["):
        raise SourceError(
            f"{split.path} is one JSON array, not JSON lines",
            hint="write one object per line, for example with: jq -c '.[]'",
        )


def _plan_parquet(
    file: SourceFile, schema: Schema | None, target_bytes: int, cores: int
) -> Iterator[Split]:
    try:
        with pq.ParquetFile(file.path) as parquet:
            columns = leaf_names(parquet.schema_arrow)
            groups = [
                (group.num_rows, group.total_byte_size)
                for group in map(parquet.metadata.row_group, range(parquet.num_row_groups))
            ]
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{file.path} cannot be read as Parquet: {reason}") from error
    warnings = check_columns(file.path, columns, schema) if schema is not None else ()
    total = sum(size for _, size in groups)
    pieces = -(-total // target_bytes)
    if pieces > 1:
        pieces = max(cores, pieces // cores * cores)
    row, begin, begin_row, gathered, cut = 1, 0, 1, 0, 1
    for number, (rows, size) in enumerate(groups):
        gathered += size
        row += rows
        if gathered * pieces >= cut * total or number == len(groups) - 1:
            yield Split(
                number=0,
                path=file.path,
                format="parquet",
                compressed=False,
                start=begin,
                end=number + 1,
                first_line=begin_row,
                warnings=warnings,
            )
            begin, begin_row, warnings = number + 1, row, ()
            cut = gathered * pieces // max(1, total) + 1


def leaf_names(schema: pa.Schema | pa.StructType, prefix: str = "") -> list[str]:
    """Column names; those inside structs dotted."""
    found: list[str] = []
    for field in schema:
        name = prefix + field.name
        if pa.types.is_struct(field.type):
            found += leaf_names(field.type, name + ".")
        else:
            found.append(name)
    return found
