"""Whole tables of raw events at the door: every column in its type, every bad row with a reason.

`conform_row` is the definition, one event at a time. `conform` gives the same for tables: columns
are converted as a whole, and only the rows that did not plainly fit are asked of the definition.

What is NULL: NULL itself, a missing column, and (`blank_is_null`, for CSV, where nothing else can
be written) empty text in an attribute that is not text. Empty text in a text attribute is a value;
the CSV reader gives NULL for a field with nothing in it and empty text for a quoted "".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import EventError, SourceError
from crossroads.model.convert import Mask, booleans, convert, plain
from crossroads.model.schema import Attribute, Schema
from crossroads.model.types import Kind, Value, to_key
from crossroads.model.values import canonical, text_of

# An Arrow column, or the raw Python objects of a column that no single Arrow type can hold.
Raw: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[object]


@dataclass(frozen=True, slots=True)
class Conformed:
    """All rows in the schema's columns (bad values are NULL), and which rows are bad and why."""

    table: pa.Table
    bad: npt.NDArray[np.int64]  # row numbers, increasing
    reasons: list[str]  # of each bad row: its first problem in the schema's order

    @property
    def good(self) -> npt.NDArray[np.int64]:
        keep = np.ones(self.table.num_rows, dtype=np.bool_)
        keep[self.bad] = False
        return np.flatnonzero(keep)

    def good_table(self) -> pa.Table:
        return self.table if not len(self.bad) else self.table.take(pa.array(self.good))


# -- one value, one row: the definition -------------------------------------------------------


def conform_value(
    schema: Schema, attribute: Attribute, raw: object, *, blank_is_null: bool = False
) -> Value:
    """The value of an attribute; EventError with a reason fit for the rejects."""
    if blank_is_null and raw == "" and not attribute.type.is_text:
        raw = None
    try:
        value = canonical(attribute.type, raw, attribute.format)
    except ValueError as error:
        raise EventError(f"{attribute.name}: {error}") from error
    if value is None:
        if attribute.name in schema.id:
            raise EventError(f"id attribute {attribute.name!r} is missing")
        return None
    if attribute.values and _key(attribute, value) not in _keys(attribute):
        allowed = ", ".join(text_of(each) for each in attribute.values[:8])
        more = ", …" if len(attribute.values) > 8 else ""
        raise EventError(f"{attribute.name}: {_shown(value)} is not one of {allowed}{more}")
    if schema.enforce_domains:
        key = _key(attribute, value)
        if attribute.min is not None and key < _key(attribute, attribute.min):
            low = text_of(attribute.min)
            raise EventError(f"{attribute.name}: {_shown(value)} is below the minimum {low}")
        if attribute.max is not None and key > _key(attribute, attribute.max):
            high = text_of(attribute.max)
            raise EventError(f"{attribute.name}: {_shown(value)} is above the maximum {high}")
    return value


def conform_row(
    schema: Schema, raw: Mapping[str, object], *, blank_is_null: bool = False
) -> dict[str, Value]:
    """One event (attribute names resolve without regard to case); EventError if it is bad."""
    found = {attribute.name: raw[key] for attribute, key in _spellings(schema, list(raw)).items()}
    return {
        a.name: conform_value(schema, a, found.get(a.name), blank_is_null=blank_is_null)
        for a in schema.attributes
    }


# -- tables -----------------------------------------------------------------------------------


def conform(raw: pa.Table, schema: Schema, *, blank_is_null: bool = True) -> Conformed:
    """The events of a raw table. SourceError if two of its columns mean one attribute."""
    columns = {
        attribute.name: raw.column(raw.column_names.index(key))
        for attribute, key in _spellings(schema, raw.column_names).items()
    }
    return conform_columns(columns, raw.num_rows, schema, blank_is_null=blank_is_null)


def conform_columns(
    columns: Mapping[str, Raw], count: int, schema: Schema, *, blank_is_null: bool
) -> Conformed:
    """As `conform`, of columns that carry the schema's own names; absent ones are NULL."""
    found: list[pa.Array] = []
    first_reason: dict[int, str] = {}
    for attribute in schema.attributes:
        column = _Column(schema, attribute, blank_is_null)
        found.append(column.conform(columns.get(attribute.name, pa.nulls(count))))
        for row, reason in column.bad.items():
            first_reason.setdefault(row, reason)
    bad = np.array(sorted(first_reason), dtype=np.int64)
    table = pa.Table.from_arrays(found, schema=schema.arrow)
    return Conformed(table, bad, [first_reason[row] for row in bad.tolist()])


def _spellings(schema: Schema, keys: Sequence[str]) -> dict[Attribute, str]:
    """Which key carries which attribute."""
    found: dict[Attribute, str] = {}
    for key in keys:
        attribute = schema.find(key)
        if attribute is None:
            continue
        other = found.setdefault(attribute, key)
        if other is not key:
            raise SourceError(
                f"two columns, {other!r} and {key!r}, both mean the attribute {attribute.name!r}",
                hint="names resolve without regard to case: rename or remove one",
            )
    return found


class _Column:
    """One attribute of one table; collects the bad rows and their reasons."""

    def __init__(self, schema: Schema, attribute: Attribute, blank_is_null: bool) -> None:
        self.schema = schema
        self.attribute = attribute
        self.blank_is_null = blank_is_null
        self.bad: dict[int, str] = {}

    def conform(self, raw: Raw) -> pa.Array:
        if not isinstance(raw, pa.Array | pa.ChunkedArray):
            values = [self._ask(row, value) for row, value in enumerate(raw)]
            return pa.array(values, type=self.attribute.type.arrow)
        array = plain(raw)
        is_text = self.attribute.type.is_text
        if self.blank_is_null and pa.types.is_string(array.type) and not is_text:
            blank = pc.equal(array, "")
            if pc.any(blank).as_py():
                array = pc.if_else(blank, None, array)
        values, unsure = convert(self.attribute.type, self.attribute.format, array)
        unsure = unsure | self._forbidden(values)
        return self._settle(values, array, unsure) if unsure.any() else values

    def _forbidden(self, values: pa.Array) -> Mask:
        """Converted values that the schema may not allow: the definition has the last word."""
        attribute = self.attribute
        found = np.zeros(len(values), dtype=np.bool_)
        if attribute.name in self.schema.id and values.null_count:
            found |= booleans(values.is_null())
        if attribute.type.kind is Kind.DOUBLE and (attribute.values or self.schema.enforce_domains):
            # NaN is the largest of all and equal to itself here, unlike in Arrow
            found |= booleans(pc.is_nan(values))
        if attribute.values:
            allowed = pa.array(attribute.values, type=attribute.type.arrow)
            present = booleans(values.is_valid())
            found |= present & ~booleans(pc.is_in(values, value_set=allowed))
        if self.schema.enforce_domains:
            for bound, beyond in ((attribute.min, pc.less), (attribute.max, pc.greater)):
                if bound is not None:
                    limit = pa.scalar(bound, type=attribute.type.arrow)
                    found |= booleans(beyond(values, limit))
        return found

    def _settle(self, values: pa.Array, array: pa.Array, unsure: Mask) -> pa.Array:
        """Ask the definition about the unsure rows, once for each distinct raw value."""
        rows = np.flatnonzero(unsure)
        raw, which = _distinct(array.take(pa.array(rows)))
        answers: list[Value] = []
        reasons: list[str | None] = []
        for each in raw:
            answer, reason = self._answer(each)
            answers.append(answer)
            reasons.append(reason)
        for row, k in zip(rows.tolist(), which, strict=True):
            reason = reasons[k]
            if reason is not None:
                self.bad[row] = reason
        settled = pa.array(answers, type=self.attribute.type.arrow).take(pa.array(which))
        return pc.replace_with_mask(values, pa.array(unsure), settled)

    def _ask(self, row: int, raw: object) -> Value:
        value, reason = self._answer(raw)
        if reason is not None:
            self.bad[row] = reason
        return value

    def _answer(self, raw: object) -> tuple[Value, str | None]:
        try:
            blank = self.blank_is_null
            return conform_value(self.schema, self.attribute, raw, blank_is_null=blank), None
        except EventError as error:
            return None, str(error)


def _distinct(array: pa.Array) -> tuple[list[object], list[int]]:
    """The distinct raw values as Python objects, and for each row which of them it has."""
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        # Python has no nanoseconds; only times that are refused, or beyond its calendar, get here
        array = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False)
    try:
        encoded = array.dictionary_encode(null_encoding="encode")
        values, which = encoded.dictionary, encoded.indices.to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, structs
        values, which = array, list(range(len(array)))
    return [_python(value) for value in values], which


class _BeyondCalendar:
    """Stands for a date or time that Python cannot hold; no type accepts it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _python(scalar: Any) -> object:
    try:
        value: object = scalar.as_py()
    except (OverflowError, ValueError):
        return _BeyondCalendar(f"{scalar.type} {scalar.value}")
    return value


def _key(attribute: Attribute, value: Value) -> Any:
    return to_key(attribute.type, value)


def _keys(attribute: Attribute) -> set[Any]:
    return {_key(attribute, value) for value in attribute.values}


def _shown(value: Value) -> str:
    if isinstance(value, date) or (isinstance(value, float) and math.isnan(value)):
        return text_of(value)
    shown = repr(value) if isinstance(value, str) else text_of(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"
