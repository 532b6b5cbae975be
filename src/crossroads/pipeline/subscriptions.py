"""Subscriptions from files to a checked set: who asks for what, what was rejected and why."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import FilterError
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, read_filters
from crossroads.pipeline.raw import Reject, shorten
from crossroads.pipeline.reading import read_rows

COLUMNS = ("id", "subscriber", "filter")
FIRST_VERSION = 1  # a table read from files is the first committed state of itself


class Named(Protocol):
    """What is said about a set of subscriptions, however it is kept."""

    @property
    def usable(self) -> int: ...
    @property
    def rejected(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def content_hash(self) -> str: ...

    def names(self) -> pa.Table:
        """`id` and `subscriber` by ordinal; where the id is NULL there is no subscription."""


@dataclass(frozen=True)
class SubscriptionSet:
    """Place i of every column is subscription ordinal i; those in `table.errors` are rejected."""

    ids: pa.Array
    subscribers: pa.Array
    filters: pa.Array
    table: FilterTable
    rejects: list[Reject]
    content_hash: str
    nameless: frozenset[str] = frozenset()  # ids of rows without a place: repeated, or nobody's
    version: int = FIRST_VERSION

    @property
    def rejected_ids(self) -> frozenset[str]:
        """Of those subscriptions that are rejected and have an id."""
        return self.nameless | {self.ids[row].as_py() for row in self.table.errors}

    @property
    def usable(self) -> int:
        return len(self.ids) - len(self.table.errors)

    @property
    def rejected(self) -> int:
        return len(self.rejects)

    def names(self) -> pa.Table:
        """`id` and `subscriber` by ordinal; of the rejected ones the id is NULL."""
        refused = np.zeros(len(self.ids), np.bool_)
        refused[list(self.table.errors)] = True
        nobody = pa.scalar(None, self.ids.type)
        ids = pc.if_else(pa.array(refused), nobody, self.ids)
        return pa.table({"id": ids, "subscriber": self.subscribers})


def load_subscriptions(path: str | Path, schema: Schema) -> SubscriptionSet:
    """Read, check and type every subscription of a file or folder."""
    read = read_rows(path, COLUMNS)
    return check_rows(read.table, schema, read.rejects)


def check_rows(rows: pa.Table, schema: Schema, rejects: list[Reject]) -> SubscriptionSet:
    """`rows` has the three columns as text, and `_file` and `_line`, where each came from."""
    found = checked(rows, schema)
    texts = found.ids, found.subscribers, found.filters
    every = sorted(rejects + found.rejects, key=lambda reject: (reject.file, reject.line))
    kept = np.zeros(rows.num_rows, np.bool_)
    kept[found.places] = True
    nameless = frozenset(filter(None, rows["id"].filter(pa.array(~kept)).to_pylist()))
    return SubscriptionSet(*texts, found.table, every, _content_hash(*texts), nameless)


@dataclass(frozen=True)
class Checked:
    """Rows that have a name of their own; those in `table.errors` are rejected all the same."""

    places: npt.NDArray[np.int64]  # of each among the rows given
    ids: pa.Array
    subscribers: pa.Array
    filters: pa.Array
    table: FilterTable
    rejects: list[Reject]


def checked(rows: pa.Table, schema: Schema, repeated: Mapping[str, int] | None = None) -> Checked:
    """`repeated`: where these rows are not all, the ids that occur several times, and how often."""
    reasons = _identity_problems(rows, repeated)
    bad = np.array([reason is not None for reason in reasons], np.bool_)
    rejects = [_reject(rows, row, str(reasons[row])) for row in np.flatnonzero(bad).tolist()]
    good = rows.filter(pa.array(~bad)) if bad.any() else rows
    ids, subscribers, filters = (_whole(good[name]) for name in COLUMNS)
    table = read_filters(filters, schema)
    rejects += [
        _reject(good, row, _located(error, ids[row].as_py()))
        for row, error in sorted(table.errors.items())
    ]
    return Checked(np.flatnonzero(~bad), ids, subscribers, filters, table, rejects)


def _located(error: FilterError, subscription: str) -> str:
    return str(error.of(subscription))


def _identity_problems(
    rows: pa.Table, repeated: Mapping[str, int] | None
) -> npt.NDArray[np.object_]:
    """Per row why it cannot be a subscription, or None."""
    reasons = np.full(rows.num_rows, None, object)
    for name in ("subscriber", "id"):
        column = _whole(rows[name])
        absent = pc.or_kleene(pc.is_null(column), pc.equal(pc.utf8_trim_whitespace(column), ""))
        reasons[np.asarray(absent.fill_null(True))] = f"the {name} is missing"
    ids = _whole(rows["id"])
    for row, count in _repetitions(ids) if repeated is None else _listed(ids, repeated):
        if reasons[row] is None:
            # Which of them is meant, nobody can tell: all are rejected.
            reasons[row] = f"subscription id {ids[row].as_py()!r} occurs {count} times"
    return reasons


def _repetitions(ids: pa.Array) -> Iterator[tuple[int, int]]:
    """Rows whose id occurs several times, and how often. A missing id is no repetition."""
    encoded = ids.dictionary_encode()
    missing = len(encoded.dictionary)
    index = encoded.indices.fill_null(missing).to_numpy(zero_copy_only=False)
    counts = np.bincount(index, minlength=missing + 1)
    counts[missing] = 0
    for row in np.flatnonzero((counts > 1)[index]).tolist():
        yield row, int(counts[index[row]])


def _listed(ids: pa.Array, repeated: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    if repeated:
        there = pc.is_in(ids, value_set=pa.array(list(repeated), ids.type))
        for row in np.flatnonzero(np.asarray(there)).tolist():
            yield row, repeated[ids[row].as_py()]


def _reject(rows: pa.Table, row: int, reason: str) -> Reject:
    raw = ",".join("" if (cell := rows[name][row].as_py()) is None else cell for name in COLUMNS)
    return Reject(rows["_file"][row].as_py(), rows["_line"][row].as_py(), shorten(raw), reason)


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):  # over 2 GiB of text
        joined = column.cast(pa.large_string()).combine_chunks()
    return joined


def _content_hash(*columns: pa.Array) -> str:
    """Equal for equal tables: of the values and where they end, in order."""
    digest = hashlib.sha256()
    for column in columns:
        plain = pa.concat_arrays([column.cast(pa.large_string())])  # offsets from zero
        _, offsets, data = plain.buffers()
        digest.update(str(len(plain)).encode())
        for buffer in (offsets, data):
            if buffer is not None:
                digest.update(memoryview(buffer))
    return digest.hexdigest()
