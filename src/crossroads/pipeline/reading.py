"""Splits to batches of valid events, and every row that is not one to a reject with its line.

Nothing is lost: each row of a split is either in `table` of one batch or in `rejects` of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import SourceError
from crossroads.model.convert import Mask, plain
from crossroads.model.identity import event_ids
from crossroads.model.schema import Schema
from crossroads.model.table import Raw, conform_columns
from crossroads.model.types import Kind
from crossroads.pipeline.raw import Ints, RawBlock, Reject, raw_blocks
from crossroads.pipeline.source import Split, leaf_names, list_files, plan_splits
from crossroads.pipeline.window import Window, skipped_groups

__all__ = ["EventBatch", "Reject", "RowsRead", "read_rows", "read_split", "rejects_of_rows"]

BATCH_ROWS = 65_536  # what the matching kernels take at a time


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Valid events in the order of the input, and the rejects found on the way."""

    table: pa.Table  # exactly schema.arrow
    ids: pa.StringArray
    rows: Ints  # of each event: its number within the split, from 0, counting rejected rows too
    lines: Ints  # of each event: its line in the file
    rejects: list[Reject]
    outside: int = 0  # rows on the way whose time is not in the split's window


def read_split(split: Split, schema: Schema, batch_rows: int = BATCH_ROWS) -> Iterator[EventBatch]:
    """The events of a split, of its window if it has one. A batch may be empty: then it is there
    for its rejects, or for those outside."""
    line = split.first_line
    try:
        for block in _event_blocks(split, schema, batch_rows):
            batch = _conformed(split, schema, block)
            line = int(block.lines[-1]) + 1 if len(block.lines) else line
            yield from _pieces(batch, batch_rows)
    except SourceError as error:
        if split.terms is None or not split.terms.forgiving:
            raise
        yield _unreadable(split, schema, line, error)  # what came before it is good


def _unreadable(split: Split, schema: Schema, line: int, error: SourceError) -> EventBatch:
    table, none = schema.arrow.empty_table(), np.zeros(0, np.int64)
    reject = Reject(split.path, line, "", f"not readable from here on: {error.message}")
    return EventBatch(table, event_ids(schema, table), none, none, [reject])


def _event_blocks(split: Split, schema: Schema, batch_rows: int) -> Iterator[RawBlock]:
    """The one way to read events: a second reading must find the very rows of the first."""
    exact = any(attribute.type.kind is Kind.DECIMAL for attribute in schema.attributes)
    skip = partial(skipped_groups, split.window, schema) if split.window else None
    return raw_blocks(split, schema.names, exact_numbers=exact, batch_rows=batch_rows, skip=skip)


def _conformed(split: Split, schema: Schema, block: RawBlock) -> EventBatch:
    conformed = conform_columns(
        block.columns, block.count, schema, blank_is_null=split.format == "csv"
    )
    reasons = dict(zip(conformed.bad.tolist(), conformed.reasons, strict=True)) | block.bad
    outside = _outside(split.window, conformed.table, reasons)
    for row in np.flatnonzero(outside).tolist():
        reasons.pop(row, None)  # nothing is asked of a row that is not meant
    if split.terms is not None:
        unwritten = split.format == "parquet"
        more = split.terms.problems(conformed.table, block.rows, unwritten=unwritten)
        reasons = more | reasons
    rejects = block.rejects + [
        Reject(split.path, int(block.lines[row]), block.raw(row), reason)
        for row, reason in reasons.items()
    ]
    rejects.sort(key=lambda reject: reject.line)
    table, rows, lines = conformed.table, block.rows, block.lines
    if reasons or outside.any():
        keep = ~outside
        keep[list(reasons)] = False
        table, rows, lines = table.filter(pa.array(keep)), rows[keep], lines[keep]
    away = int(np.count_nonzero(outside)) + block.skipped
    return EventBatch(table, event_ids(schema, table), rows, lines, rejects, away)


def _outside(window: Window | None, table: pa.Table, bad: Collection[int]) -> Mask:
    """Rows that are not in the window. One whose time cannot be read is bad, and stays so."""
    if window is None:
        return np.zeros(table.num_rows, dtype=np.bool_)
    times = table[window.attribute].combine_chunks()
    outside = ~window.inside(times)
    unread = [row for row in bad if not times[row].is_valid]
    outside[unread] = False
    return outside


def _pieces(batch: EventBatch, batch_rows: int) -> Iterator[EventBatch]:
    if batch.table.num_rows <= batch_rows:
        yield batch
        return
    for start in range(0, batch.table.num_rows, batch_rows):
        here = slice(start, start + batch_rows)
        yield EventBatch(
            batch.table.slice(start, batch_rows),
            batch.ids.slice(start, batch_rows),
            batch.rows[here],
            batch.lines[here],
            batch.rejects if start == 0 else [],
            batch.outside if start == 0 else 0,
        )


def rejects_of_rows(
    split: Split, schema: Schema, rows: Collection[int], reason: str
) -> list[Reject]:
    """Rejects for rows that were fine by themselves (repeated ids), with their text read again."""
    wanted = np.array(sorted(rows), dtype=np.int64)
    found: list[Reject] = []
    for block in _event_blocks(split, schema, BATCH_ROWS):
        for row in np.flatnonzero(np.isin(block.rows, wanted)).tolist():
            found.append(Reject(split.path, int(block.lines[row]), block.raw(row), reason))
        if len(found) == len(wanted):
            break
    assert len(found) == len(wanted), (split.path, len(found), len(wanted))
    return found


# -- tables of text: subscriptions -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Columns of text plus `_file` (dictionary-encoded) and `_line`; and what was no row."""

    table: pa.Table
    rejects: list[Reject]


def read_rows(
    path: str | Path, columns: Sequence[str], required: Sequence[str] | None = None
) -> RowsRead:
    """All rows of the files of a path, the columns as text (numbers too), NULL where absent.

    A file without a required column (all of them, unless said otherwise) is refused.
    """
    needed = set(columns if required is None else required)
    tables: list[pa.Table] = []
    rejects: list[Reject] = []
    found: dict[str, set[str]] = {}
    for split in plan_splits(list_files(path), None):
        require_columns(split, columns, needed)
        for block in text_blocks(split, columns):
            tables.append(block.table)
            rejects += block.rejects
            if block.present is not None:
                found.setdefault(split.path, set()).update(block.present)
    require_fields(found, needed)
    schema = pa.schema(
        [
            *((name, pa.string()) for name in columns),
            ("_file", pa.dictionary(pa.int32(), pa.string())),
            ("_line", pa.int64()),
        ]
    )
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return RowsRead(whole.unify_dictionaries().combine_chunks(), rejects)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Some neighbouring rows of a split, as `RowsRead` has them."""

    table: pa.Table
    rows: Ints  # of each: its number within the split, from 0, counting broken rows too
    rejects: list[Reject]
    present: frozenset[str] | None  # of JSON lines, if there are any: the fields that one has


def text_blocks(split: Split, columns: Sequence[str]) -> Iterator[TextBlock]:
    """All rows of a split, in order, the columns as text."""
    for block in raw_blocks(
        split, columns, exact_numbers=True, batch_rows=BATCH_ROWS, as_written=True
    ):
        yield _text_block(split, columns, block)


def require_columns(split: Split, columns: Sequence[str], required: Collection[str]) -> None:
    """Refuse a file that lacks a column, as far as its beginning or its end can tell."""
    if split.format == "jsonl" or (split.format == "csv" and not split.header):
        return
    if split.format == "csv":
        present = list(split.header)
    else:
        with pa.OSFile(split.path) as file:
            present = leaf_names(pq.read_schema(file))
    folded = [name.casefold() for name in present]
    for name in columns:
        if folded.count(name.casefold()) > 1:
            raise SourceError(
                f"{split.path}: there are two columns {name!r}", hint="remove or rename one"
            )
    for name in sorted(required):
        if name.casefold() not in folded:
            shown = ", ".join(present[:12]) + (", …" if len(present) > 12 else "")
            raise SourceError(f"{split.path}: there is no column {name!r}", hint=f"it has: {shown}")


def require_fields(found: Mapping[str, Collection[str]], required: Collection[str]) -> None:
    """JSON lines tell only after the last one: `found` has by file the fields that any line has."""
    for file, present in found.items():
        for name in sorted(set(required) - set(present)):
            raise SourceError(f"{file}: no line has a field {name!r}")


def _text_block(split: Split, columns: Sequence[str], block: RawBlock) -> TextBlock:
    bad = dict(block.bad)
    texts = [
        _text_column(name, block.columns.get(name, pa.nulls(block.count)), bad) for name in columns
    ]
    rejects = block.rejects + [
        Reject(split.path, int(block.lines[row]), block.raw(row), reason)
        for row, reason in sorted(bad.items())
    ]
    file = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(block.count, dtype=np.int32)), pa.array([split.path])
    )
    table = pa.table([*texts, file, pa.array(block.lines)], names=[*columns, "_file", "_line"])
    rows = block.rows
    if bad:
        keep = np.ones(block.count, dtype=np.bool_)
        keep[list(bad)] = False
        table, rows = table.filter(pa.array(keep)), rows[keep]
    json = split.format == "jsonl" and block.count > 0
    return TextBlock(table, rows, rejects, frozenset(block.columns) if json else None)


def _text_column(name: str, raw: Raw, bad: dict[int, str]) -> pa.StringArray:
    if isinstance(raw, pa.Array | pa.ChunkedArray):
        array = plain(raw)
        if pa.types.is_string(array.type) or pa.types.is_null(array.type):
            return array.cast(pa.string())
        if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
            return array.cast(pa.string())
        if pa.types.is_timestamp(array.type):
            # In UTC, to microseconds: as `canonical` reads them.
            moments = array.cast(pa.timestamp("us", array.type.tz), safe=False)
            return moments.cast(pa.timestamp("us")).cast(pa.string())
        raw = array.to_pylist()
    texts: list[str | None] = []
    for row, value in enumerate(raw):
        text = _text(value)
        if text is None and value is not None:
            bad.setdefault(row, f"{name}: {str(value)[:60]!r} is not text")
        texts.append(text)
    return pa.array(texts, type=pa.string())


def _text(value: object) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if value.is_integer() and abs(value) < 2**53:
            return str(int(value))  # pandas makes 1.0 of an id when another one is missing
        case float():
            return repr(value)
        case None:
            return None
        case Decimal():
            return str(value)
    return None
