"""The rows of a split as they were written: columns that are not typed yet, lines, broken rows.

Each format gives the same `RawBlock`s, so that everything after this module is about values only.
A row that is not a row (wrong number of fields, not JSON, not UTF-8) is a reject with its line; the
others go on. A compressed file that ends early gives everything whole that it holds, then a reject.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from crossroads.errors import SourceError
from crossroads.model.csvrows import BROKEN, Rows, find_rows
from crossroads.model.table import Raw
from crossroads.pipeline.source import Split, TruncatedGzip, leaf_names, read_chunks
from crossroads.pipeline.terms import oversize

RAW_CHARACTERS_MAX = 10_000  # of a reject's text: enough to find it, too little to fill a disk
_NOT_UTF8 = "not valid UTF-8"

Ints = npt.NDArray[np.int64]
Skip = Callable[[pq.FileMetaData, Sequence[int]], Collection[int]]


@dataclass(frozen=True, slots=True)
class Reject:
    """Something in the input that could not be used, and why."""

    file: str
    line: int  # from 1; in Parquet the number of the row
    raw: str
    reason: str


@dataclass(slots=True, kw_only=True)
class RawBlock:
    """Some neighbouring rows of a split. `rows` number all its rows from 0, broken ones too."""

    count: int
    columns: Mapping[str, Raw]  # by the names asked for; a name that no row has is absent
    rows: Ints
    lines: Ints
    raw: Callable[[int], str]  # the text of the i-th row of this block
    bad: dict[int, str] = field(default_factory=dict)  # rows already known to be unusable
    rejects: list[Reject] = field(default_factory=list)  # what never became a row
    skipped: int = 0  # rows before these that were not read, because somebody said so


def raw_blocks(
    split: Split,
    names: Sequence[str],
    *,
    exact_numbers: bool,
    batch_rows: int,
    as_written: bool = False,
    skip: Skip | None = None,
) -> Iterator[RawBlock]:
    """All rows of a split, in order. `exact_numbers`: JSON fractions arrive as Decimal.

    `as_written`: each of them with its own digits, not with as many as its neighbours have.
    `skip` chooses row groups of Parquet that are numbered and counted, but not read.
    """
    try:
        match split.format:
            case "csv":
                yield from _csv_blocks(split, names)
            case "jsonl":
                yield from _json_blocks(split, names, exact_numbers, as_written)
            case _:
                yield from _parquet_blocks(split, names, batch_rows, skip)
    except OSError as error:
        raise SourceError(f"cannot read {split.path}: {_one_line(error)}") from error


def _one_line(error: OSError) -> str:
    """Arrow's have several, and quote the bytes that it stumbled over."""
    text = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _only_rejects(rejects: list[Reject]) -> RawBlock:
    none = np.zeros(0, dtype=np.int64)
    return RawBlock(count=0, columns={}, rows=none, lines=none, raw=lambda row: "", rejects=rejects)


def shorten(text: str) -> str:
    return text if len(text) <= RAW_CHARACTERS_MAX else text[: RAW_CHARACTERS_MAX - 1] + "…"


def _show(data: bytes) -> str:
    # four bytes are at most one character, so no more than this can be needed
    return shorten(data[: 4 * RAW_CHARACTERS_MAX + 4].decode(errors="replace"))


def _truncated(split: Split, error: TruncatedGzip, rest: bytes, line: int) -> RawBlock:
    reason = f"{error} after line {line - 1}"
    return _only_rejects([Reject(split.path, line, _show(rest), reason)])


# -- CSV ---------------------------------------------------------------------------------------


def _csv_blocks(split: Split, names: Sequence[str]) -> Iterator[RawBlock]:
    places = {column.casefold(): place for place, column in enumerate(split.header)}
    wanted = {name: places[name.casefold()] for name in names if name.casefold() in places}
    kept, line, row = b"", split.first_line, 0
    chunks = read_chunks(split.opened, split.compressed, split.start, split.end)
    final = False
    while not final:
        try:
            chunk = next(chunks, b"")
        except TruncatedGzip as error:
            yield _truncated(split, error, kept, line)
            return
        final = not chunk
        data = kept + chunk
        if split.header:
            rows = find_rows(data, line=line, final=final)
            if len(rows.starts):
                yield _csv_block(split, wanted, data, rows, row)
            row += len(rows.starts)
            kept, line = data[rows.consumed :], rows.next_line
        else:
            kept = data  # no header could be read: blank lines only, or a gzip cut short


def _csv_block(
    split: Split, wanted: Mapping[str, int], data: bytes, rows: Rows, first_row: int
) -> RawBlock:
    rejects: list[Reject] = []
    good = rows.fields == len(split.header)

    def text(row: int) -> bytes:
        return data[rows.starts[row] : rows.ends[row]]

    def reject(row: int, reason: str) -> None:
        rejects.append(Reject(split.path, int(rows.lines[row]), _show(text(row)), reason))

    for row in np.flatnonzero(~good).tolist():
        reject(row, _csv_problem(int(rows.fields[row]), len(split.header)))
    most = _record_bytes_max(split)
    if most is not None:
        for row in np.flatnonzero(good & (rows.ends - rows.starts > most)).tolist():
            good[row] = False
            reject(row, oversize(len(text(row)), most))
    try:
        table = _parse_csv(split, wanted, data, rows, good)
    except pa.ArrowInvalid:
        for row in np.flatnonzero(good).tolist():
            if not _is_utf8(text(row)):
                good[row] = False
                reject(row, _NOT_UTF8)
        table = _parse_csv(split, wanted, data, rows, good)
    kept = np.flatnonzero(good)
    assert table.num_rows == len(kept), (split.path, rows.lines[:1], table.num_rows, len(kept))
    return RawBlock(
        count=len(kept),
        columns={name: table.column(str(place)) for name, place in wanted.items()},
        rows=kept + first_row,
        lines=rows.lines[kept],
        raw=lambda row: _show(text(int(kept[row]))),
        rejects=rejects,
    )


def _record_bytes_max(split: Split) -> int | None:
    return None if split.terms is None else split.terms.record_bytes_max


def _csv_problem(fields: int, expected: int) -> str:
    if fields == BROKEN:
        return "a quote is opened in this line and never closed"
    return f"{fields} field{'s' if fields != 1 else ''} where the header has {expected}"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parse_csv(
    split: Split, wanted: Mapping[str, int], data: bytes, rows: Rows, good: npt.NDArray[np.bool_]
) -> pa.Table:
    if good.all():
        body = data[: rows.consumed]
    else:
        spans = zip(rows.starts[good].tolist(), rows.ends[good].tolist(), strict=True)
        body = b"".join(data[start:end] + b"\n" for start, end in spans)
    include = [str(place) for place in sorted(set(wanted.values()))]
    if not body.strip(b"\r\n"):
        return pa.table({place: pa.array([], pa.string()) for place in include})
    return pacsv.read_csv(
        pa.BufferReader(body),
        read_options=pacsv.ReadOptions(
            # the workers are parallel already; one block, because its rows are already whole
            use_threads=False,
            block_size=len(body) + 1,
            # by place: other columns may have any names, also the same one twice
            column_names=[str(place) for place in range(len(split.header))],
        ),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            include_columns=include,
            column_types={place: pa.string() for place in include},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


# -- JSON lines --------------------------------------------------------------------------------


def _json_blocks(
    split: Split, names: Sequence[str], exact_numbers: bool, as_written: bool
) -> Iterator[RawBlock]:
    # With decimals in the schema, 0.10 must not become the nearest double on its way.
    decoder = (
        msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
        if exact_numbers
        else msgspec.json.Decoder(dict[str, Any])
    )
    kept, line, row = b"", split.first_line, 0
    chunks = read_chunks(split.opened, split.compressed, split.start, split.end)
    final = False
    while not final:
        try:
            chunk = next(chunks, b"")
        except TruncatedGzip as error:
            yield _truncated(split, error, kept, line)
            return
        final = not chunk
        end = chunk.rfind(b"\n") + 1
        if not end and not final:
            kept += chunk  # a line longer than a chunk
            continue
        body, kept = kept + chunk[:end], chunk[end:]
        texts = body.split(b"\n")
        full = [place for place, text in enumerate(texts) if text and not text.isspace()]
        if full:
            lines = [texts[place] for place in full]
            block = _json_block(split, names, decoder, lines, np.array(full) + line, row)
            block.columns = {
                name: _as_arrow(values, as_written) for name, values in block.columns.items()
            }
            yield block
        row += len(full)
        line += len(texts) - 1


def _json_block(
    split: Split,
    names: Sequence[str],
    decoder: msgspec.json.Decoder[dict[str, Any]],
    texts: list[bytes],
    lines: Ints,
    first_row: int,
) -> RawBlock:
    rejects: list[Reject] = []
    rows = np.arange(first_row, first_row + len(texts), dtype=np.int64)
    most = _record_bytes_max(split)
    if most is not None and any(len(text) > most for text in texts):
        for place, text in enumerate(texts):
            if len(text) > most:
                problem = oversize(len(text), most)
                rejects.append(Reject(split.path, int(lines[place]), _show(text), problem))
        small = [place for place, text in enumerate(texts) if len(text) <= most]
        texts, lines, rows = [texts[place] for place in small], lines[small], rows[small]
    try:
        objects = [decoder.decode(text) for text in texts]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        objects, kept = [], []
        for place, text in enumerate(texts):
            problem = ""
            try:
                objects.append(decoder.decode(text))
                kept.append(place)
            except UnicodeDecodeError:
                problem = _NOT_UTF8
            except RecursionError:
                problem = "JSON nested too deeply"
            except msgspec.ValidationError as error:
                problem = f"not a JSON object: {error}"
            except msgspec.DecodeError as error:
                problem = f"not valid JSON: {error}"
            if problem:
                rejects.append(Reject(split.path, int(lines[place]), _show(text), problem))
        texts = [texts[place] for place in kept]
        lines, rows = lines[kept], rows[kept]
    bad: dict[int, str] = {}
    found = _Objects(objects, bad)
    return RawBlock(
        count=len(texts),
        columns={n: values for n in names if (values := found.column(n)) is not None},
        rows=rows,
        lines=lines,
        raw=lambda row: _show(texts[row]),
        bad=bad,
        rejects=rejects,
    )


class _Objects:
    """JSON objects as columns; names resolve without regard to case, objects within by dots."""

    def __init__(self, objects: Sequence[Mapping[str, Any]], bad: dict[int, str]) -> None:
        self.objects = objects
        self.bad = bad
        self.spellings: dict[str, list[str]] = {}
        for key in sorted(set().union(*objects)):
            self.spellings.setdefault(key.casefold(), []).append(key)

    def column(self, name: str) -> list[object] | None:
        """What each object has under a name: as a key, or as a path; None if no object has it."""
        literal = self._member(name)
        if "." not in name:
            return literal
        head, rest = name.split(".", 1)
        inner = self._member(head)
        if inner is None:
            return literal
        nothing: dict[str, Any] = {}
        within = [each if isinstance(each, dict) else nothing for each in inner]
        nested = _Objects(within, self.bad).column(rest)
        if literal is None or nested is None:
            return literal if nested is None else nested
        return [a if a is not None else b for a, b in zip(literal, nested, strict=True)]

    def _member(self, name: str) -> list[object] | None:
        spellings = self.spellings.get(name.casefold())
        if spellings is None:
            return None
        found: list[object] = [each.get(spellings[0]) for each in self.objects]
        for spelling in spellings[1:]:
            for row, each in enumerate(self.objects):
                if spelling in each:
                    if found[row] is not None:
                        self.bad.setdefault(row, f"two fields that differ only in case: {name!r}")
                    found[row] = each[spelling]
        return found


def _as_arrow(values: Raw, as_written: bool) -> Raw:
    try:
        array = pa.array(values, from_pandas=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return values  # of several types: looked at one by one
    if pa.types.is_decimal(array.type) and (as_written or any(map(_is_negative_zero, values))):
        return values  # Arrow's decimals share one scale, and know one zero only
    return values if pa.types.is_nested(array.type) else array


def _is_negative_zero(value: object) -> bool:
    return isinstance(value, Decimal) and value.is_signed() and value.is_zero()


# -- Parquet -----------------------------------------------------------------------------------


def _parquet_blocks(
    split: Split, names: Sequence[str], batch_rows: int, skip: Skip | None
) -> Iterator[RawBlock]:
    assert split.end is not None
    try:
        with pq.ParquetFile(
            split.opened, memory_map=True, page_checksum_verification=True
        ) as parquet:
            spelt = {column.casefold(): column for column in leaf_names(parquet.schema_arrow)}
            wanted = {n: spelt[n.casefold()] for n in names if n.casefold() in spelt}
            row = 0
            groups = range(split.start, split.end)
            skipped = skip(parquet.metadata, groups) if skip is not None else ()
            for unread, run in groupby(groups, lambda group: group in skipped):
                if unread:
                    rows = sum(parquet.metadata.row_group(group).num_rows for group in run)
                    yield replace(_only_rejects([]), skipped=rows)
                    row += rows
                    continue
                for batch in parquet.iter_batches(
                    batch_size=batch_rows,
                    row_groups=list(run),
                    columns=sorted(set(wanted.values())),
                    use_threads=False,
                ):
                    yield _parquet_block(split, wanted, batch, row)
                    row += batch.num_rows
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{split.path} cannot be read as Parquet: {reason}") from error


def _parquet_block(
    split: Split, wanted: Mapping[str, str], batch: pa.RecordBatch, first_row: int
) -> RawBlock:
    bad: dict[int, str] = {}
    columns = {name: _valid_text(_at_path(batch, path), bad) for name, path in wanted.items()}
    rows = np.arange(first_row, first_row + batch.num_rows, dtype=np.int64)

    def raw(row: int) -> str:
        try:
            values = batch.slice(row, 1).to_pylist()[0]
        except ValueError:  # text that is not UTF-8, a date beyond Python's calendar
            return str(batch.slice(row, 1))
        return shorten(json.dumps(values, ensure_ascii=False, default=str))

    return RawBlock(
        count=batch.num_rows,
        columns=columns,
        rows=rows,
        lines=rows + split.first_line,
        raw=raw,
        bad=bad,
    )


def _at_path(batch: pa.RecordBatch, path: str) -> pa.Array:
    if path in batch.schema.names:
        return batch.column(path)
    head, *rest = path.split(".")
    # struct_field gives NULL where a struct on the way is NULL
    return pc.struct_field(batch.column(head), rest)


def _valid_text(array: pa.Array, bad: dict[int, str]) -> pa.Array:
    """Parquet does not promise that its text is UTF-8, and everything after this relies on it."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return array
    try:
        array.validate(full=True)
        return array
    except pa.ArrowInvalid:
        data = array.cast(kind).cast(pa.large_binary())
        broken = [each is not None and not _is_utf8(each) for each in data.to_pylist()]
        for row in np.flatnonzero(broken).tolist():
            bad.setdefault(row, _NOT_UTF8)
        return pc.if_else(pa.array(broken), None, data).cast(pa.large_string())
