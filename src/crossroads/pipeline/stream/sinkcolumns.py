"""The columns that sinks write, known before the first row, and their values as plain Python."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.model.values import text_of
from crossroads.pipeline.notify import VERSION, Notify

NOTIFICATION_ID = "notification_id"  # added where a reader may be told again
MESSAGE_ID = "message_id"  # of a digest


def notification_columns(notify: Notify) -> pa.Schema:
    """Of the rows of a stream: the pairs of the batch job, and by which version they matched."""
    if NOTIFICATION_ID in notify.include:
        raise UsageError(
            f"{NOTIFICATION_ID} cannot be included: that is what notifications call their own id",
            hint="rename the attribute",
        )
    fields = dict.fromkeys(notify.columns, pa.string())
    # An attribute of the same name takes the place, as in the rows themselves.
    fields |= {name: notify.schema.arrow.field(name).type for name in notify.include}
    return pa.schema({**fields, VERSION: pa.int64()})


def is_digest(columns: Collection[str]) -> bool:
    """Whether rows with these columns are messages: all others tell of an event."""
    return "event_id" not in columns


def plain_columns(table: pa.Table) -> list[list[Any]]:
    """Each column as a list; what JSON and SQLite have no type for is in its canonical text."""
    return [_plain(column) for column in table.columns]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        # Cast first: a dictionary makes a Python text per row by itself, one by one.
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = _texts(column)
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else str(value) for value in values]
    return values


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Distinct values once: the notifications of an event repeat what they say of it."""
    coded = column.combine_chunks().dictionary_encode()
    texts = pa.array([text_of(value) for value in coded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([texts.take(coded.indices)])


def plain_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    names = table.column_names
    for values in zip(*plain_columns(table), strict=True):
        yield dict(zip(names, values, strict=True))


def json_line(row: dict[str, Any]) -> str:
    """A row as one JSON object; in that of a digest the notifications are a list, not a text."""
    if is_digest(row):
        row = {**row, "notifications": msgspec.Raw(row["notifications"].encode())}
    return json_text(row)


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
