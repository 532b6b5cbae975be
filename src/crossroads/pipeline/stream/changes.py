"""A file of subscriptions or of changes to them: read, checked, and every row's fault named.

Columns: `id`, `subscriber`, `filter`; optional `valid_until` (a time, UTC); and `op` in a file of
changes: upsert (also where there is none), remove, pause or resume. Rows that cannot be used are
rejected with their line; whether a change makes sense for the table it meets is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import SourceError
from crossroads.model.schema import Schema
from crossroads.model.table import conform_columns
from crossroads.pipeline.raw import Reject, shorten
from crossroads.pipeline.reading import read_rows
from crossroads.pipeline.source import TruncatedGzip, list_files, read_chunks
from crossroads.pipeline.stream.versionstore import NEVER, UNTIL
from crossroads.pipeline.subscriptions import COLUMNS, checked

_TIMES = Schema.from_mapping({"id": "row", "attributes": {"row": "bigint", UNTIL: "timestamp"}})
_US_PER_MS = 1_000


class Op(StrEnum):
    UPSERT = "upsert"
    REMOVE = "remove"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True)
class Rows:
    """Rows of a file in its order: text, `valid_until` in ms, and `_file` and `_line`."""

    table: pa.Table
    rejects: list[Reject]

    def take(self, keep: npt.NDArray[np.bool_], rejects: list[Reject]) -> Rows:
        table = self.table if keep.all() else self.table.filter(pa.array(keep))
        return Rows(table, self.rejects + rejects)


def read_snapshot(file: Path) -> Rows:
    """All rows of a table, not checked but for `valid_until`. A file that breaks off is refused as
    a whole: the subscriptions that are missing were not cancelled."""
    _refuse_broken_gzip(file)
    read = read_rows(file, (*COLUMNS, UNTIL), required=COLUMNS)
    return _with_times(Rows(read.table, read.rejects))


def read_changes(file: Path, schema: Schema) -> Rows:
    """The usable rows of a file of changes, `op` in each of them."""
    read = read_rows(file, ("op", *COLUMNS, UNTIL), required=("id",))
    rows = _with_times(_with_ops(Rows(read.table, read.rejects)))
    upsert = np.asarray(pc.equal(rows.table["op"], Op.UPSERT.value))
    refused = refusals(rows.table.filter(pa.array(upsert)), schema, {})
    keep = np.ones(rows.table.num_rows, np.bool_)
    keep[np.flatnonzero(upsert)[refused.rows]] = False
    nameless = ~upsert & _blank(rows.table["id"])
    rejects = [
        reject(rows.table, row, "the id is missing") for row in np.flatnonzero(nameless).tolist()
    ]
    return rows.take(keep & ~nameless, refused.rejects + rejects)


@dataclass(frozen=True)
class Refusals:
    rows: npt.NDArray[np.int64]
    rejects: list[Reject]


def refusals(rows: pa.Table, schema: Schema, repeated: Mapping[str, int]) -> Refusals:
    """Which rows are no subscriptions; `repeated` ids (and how often) are none."""
    found = checked(rows, schema, repeated)
    good = np.ones(len(found.ids), np.bool_)
    good[list(found.table.errors)] = False
    refused = np.ones(rows.num_rows, np.bool_)
    refused[found.places[good]] = False
    return Refusals(np.flatnonzero(refused), found.rejects)


def repeated_ids(rows: pa.Table) -> dict[str, int]:
    """Ids that occur several times, and how often."""
    counted = pc.value_counts(rows["id"].drop_null())
    many = counted.filter(pc.greater(counted.field("counts"), 1))
    pairs = zip(many.field("values").to_pylist(), many.field("counts").to_pylist(), strict=True)
    return dict(pairs)


def reject(rows: pa.Table, row: int, reason: str) -> Reject:
    names = ("op", *COLUMNS) if "op" in rows.column_names else COLUMNS
    cells = (rows[name][row].as_py() for name in names)
    raw = ",".join("" if cell is None else cell for cell in cells)
    return Reject(rows["_file"][row].as_py(), rows["_line"][row].as_py(), shorten(raw), reason)


def _with_times(rows: Rows) -> Rows:
    """`valid_until` from text to milliseconds; those that are no times are rejected."""
    table = rows.table
    columns = {"row": pa.array(np.arange(table.num_rows)), UNTIL: table[UNTIL]}
    read = conform_columns(columns, table.num_rows, _TIMES, blank_is_null=True)
    times = read.table[UNTIL].combine_chunks()
    micros = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    # Rounded up: it is valid until the last microsecond of it.
    until = np.where(np.asarray(times.is_valid()), -(-micros // _US_PER_MS), NEVER)
    keep = np.ones(table.num_rows, np.bool_)
    keep[read.bad] = False
    pairs = zip(read.bad.tolist(), read.reasons, strict=True)
    rejects = [reject(table, row, reason) for row, reason in pairs]
    place = table.column_names.index(UNTIL)
    return Rows(table.set_column(place, UNTIL, pa.array(until)), rows.rejects).take(keep, rejects)


def _with_ops(rows: Rows) -> Rows:
    trimmed = pc.utf8_lower(pc.utf8_trim_whitespace(rows.table["op"])).fill_null("")
    ops = pc.if_else(pc.equal(trimmed, ""), Op.UPSERT.value, trimmed)
    known = np.asarray(pc.is_in(ops, value_set=pa.array([op.value for op in Op])))
    expected = ", ".join(Op)
    rejects = [
        reject(rows.table, row, f"unknown op {ops[row].as_py()[:40]!r}: expected {expected}")
        for row in np.flatnonzero(~known).tolist()
    ]
    return Rows(rows.table.set_column(0, "op", ops), rows.rejects).take(known, rejects)


def _blank(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    empty = pc.equal(pc.utf8_trim_whitespace(column), "")
    return np.asarray(empty.fill_null(True))


def _refuse_broken_gzip(file: Path) -> None:
    (source,) = list_files(file)
    if source.compressed:
        try:
            for _ in read_chunks(source.path, True, 0, None):
                pass
        except TruncatedGzip as error:
            raise SourceError(f"{file}: {error}", hint="write it again, and rename it") from error
