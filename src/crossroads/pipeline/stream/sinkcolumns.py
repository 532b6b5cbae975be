"""The columns that sinks write, known before the first row, and their values as plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from crossroads.model.values import text_of
from crossroads.pipeline.notify import Notify

SUBSCRIPTION_VERSION = "subscription_version"


def notification_columns(notify: Notify) -> pa.Schema:
    """Of the rows of a stream: the pairs of the batch job, and by which version they matched."""
    fields = [pa.field(name, pa.string()) for name in notify.columns]
    fields += [notify.schema.arrow.field(name) for name in notify.include]
    return pa.schema([*fields, pa.field(SUBSCRIPTION_VERSION, pa.int64())])


def plain_columns(table: pa.Table) -> list[list[Any]]:
    """Each column as a list; what JSON and SQLite have no type for is in its canonical text."""
    return [_plain(column) for column in table.columns]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        # Cast first: a dictionary makes a Python text per row by itself, one by one.
        column, kind = column.cast(kind.value_type), kind.value_type
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else str(value) for value in values]
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return [value if value is None else text_of(value) for value in values]
    return values


def plain_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    names = table.column_names
    for values in zip(*plain_columns(table), strict=True):
        yield dict(zip(names, values, strict=True))


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
