"""A first schema for data nobody has described yet: the narrowest type that takes every value.

What a sample shows is a suggestion: ranges are written as comments, not as domains, and whatever is
uncertain (an id that may not be one, a date that may be read in two ways) is said in the TOML text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import SchemaError
from crossroads.model.convert import plain
from crossroads.model.identity import event_ids
from crossroads.model.schema import RESERVED_PREFIX, Attribute, Schema
from crossroads.model.table import Raw, conform_columns
from crossroads.model.types import Kind, Type, decimal_type, parse_type
from crossroads.model.values import text_of

_ID_NAMES = ("id", "event_id", "eventid", "uuid")
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"  # 007 is a name, not a number
_URL = r"^[A-Za-z][A-Za-z0-9+.-]*://"
_CLOCKS = ("", " %H:%M", " %H:%M:%S")
_DAYS = ("%d-%m-%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y", "%m-%d-%Y", "%Y/%m/%d")

_FIRST_LOOK_ROWS = 1_000

_NUMBERS_IN_TEXT = ("boolean", "int", "bigint", "double")
_TIMES_IN_TEXT = ("date", "timestamp")


@dataclass(frozen=True, slots=True)
class Guess:
    """How one column may be read: all values fit, unless `bad` says how many do not."""

    type: Type
    format: str | None
    bad: int
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Inferred:
    """A schema and what to tell the person who will correct it."""

    schema: Schema
    notes: list[str]
    remarks: dict[str, str]  # by attribute

    def to_toml(self) -> str:
        lines = self.schema.to_toml().splitlines()
        # the attributes come last, one line each, in order
        first = len(lines) - len(self.schema.attributes)
        for place, attribute in enumerate(self.schema.attributes, start=first):
            lines[place] += f"  # {self.remarks[attribute.name]}"
        return "\n".join([*(f"# {note}" for note in self.notes), *lines]) + "\n"


def infer(
    columns: Mapping[str, Raw],
    count: int,
    *,
    name: str,
    typed: bool,
    id: Sequence[str] = (),  # noqa: A002
) -> Inferred:
    """The schema of a sample. `typed`: text in it is meant as text (JSON, Parquet), not CSV."""
    if not count:
        raise SchemaError("there is nothing to infer a schema from: no rows")
    notes = [f"inferred from {count:,} row{'s' if count != 1 else ''}: check before use"]
    attributes: list[Attribute] = []
    remarks: dict[str, str] = {}
    taken: set[str] = set()
    for column, raw in columns.items():
        problem = _unusable(column, taken)
        guess = None if problem else _guess(raw, count, typed)
        if guess is None:
            notes.append(f"left out: {column!r} ({problem or 'lists and objects hold no value'})")
            continue
        taken.add(column.casefold())
        attributes.append(Attribute(name=column, type=guess.type, format=guess.format))
        remarks[column] = _remark(guess, count)
    if not attributes:
        raise SchemaError("no column of the sample can be an attribute")
    identity, why = _identity(attributes, columns, count, id, blank_is_null=not typed)
    notes.append(why)
    return Inferred(Schema(name, identity, tuple(attributes)), notes, remarks)


def _unusable(column: str, taken: set[str]) -> str | None:
    if not column or column.startswith(RESERVED_PREFIX) or "`" in column:
        return "a name must not be empty, begin with _ or contain `"
    if column.casefold() in taken:
        return "another column differs only in case"
    return None


# -- types -------------------------------------------------------------------------------------


def _guess(raw: Raw, count: int, typed: bool) -> Guess | None:
    """The first reading that takes every value, else the one that takes most."""
    candidates = _candidates(raw, typed)
    # most candidates fail at once: that is cheap to see in a few rows
    few = min(count, _FIRST_LOOK_ROWS)
    for type_, layout in candidates:
        if _try(type_, layout, raw[:few], few, blank_is_null=not typed).bad == 0:
            guess = _try(type_, layout, raw, count, blank_is_null=not typed)
            if guess.bad == 0:
                return guess
    guesses = [_try(*each, raw, count, blank_is_null=not typed) for each in candidates]
    best = min(guesses, key=lambda guess: guess.bad, default=None)
    taken = best is not None and best.bad < len(best.values) - _nulls(raw)
    return best if taken else None


def _nulls(raw: Raw) -> int:
    if isinstance(raw, pa.Array | pa.ChunkedArray):
        return int(raw.null_count)
    return sum(value is None for value in raw)


def _try(type_: Type, layout: str | None, raw: Raw, count: int, *, blank_is_null: bool) -> Guess:
    trial = Schema(
        "trial",
        ("row",),
        (
            Attribute(name="row", type=parse_type("bigint")),
            Attribute(name="value", type=type_, format=layout),
        ),
    )
    columns = {"row": pa.array(range(count), pa.int64()), "value": raw}
    found = conform_columns(columns, count, trial, blank_is_null=blank_is_null)
    values = found.table.column("value").combine_chunks()
    return Guess(type_, layout, len(found.bad), values)


def _candidates(raw: Raw, typed: bool) -> list[tuple[Type, str | None]]:
    if not isinstance(raw, pa.Array | pa.ChunkedArray):  # JSON of several types
        names = (*_NUMBERS_IN_TEXT, "string")
        return [(parse_type(each), None) for each in names]
    array = plain(raw)
    if not pa.types.is_string(array.type):
        kind = _of_arrow(array.type)
        return [] if kind is None else [(kind, None)]
    found: list[tuple[Type, str | None]] = []
    if not typed and not pc.any(pc.match_substring_regex(array, _LEADING_ZERO)).as_py():
        found += [(parse_type(each), None) for each in _NUMBERS_IN_TEXT]
    found += [(parse_type(each), None) for each in _TIMES_IN_TEXT]
    found += [
        (parse_type("timestamp" if clock else "date"), day + clock)
        for clock in _CLOCKS
        for day in _DAYS
    ]
    if pc.all(pc.match_substring_regex(array, _URL)).as_py():
        found.append((parse_type("url"), None))
    # text takes everything: nothing may come after it, and a column of NULLs is text
    everything_null = array.null_count == len(array)
    return [(_STRING, None)] if everything_null else [*found, (_STRING, None)]


_STRING = parse_type("string")
_ARROW_TESTS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (lambda each: pa.types.is_int64(each) or pa.types.is_uint32(each), "bigint"),
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "double"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_null, "string"),
)


def _of_arrow(arrow: pa.DataType) -> Type | None:
    if pa.types.is_decimal128(arrow) and 0 <= arrow.scale <= arrow.precision:
        return decimal_type(arrow.precision, arrow.scale)
    return next((parse_type(name) for test, name in _ARROW_TESTS if test(arrow)), None)


def _remark(guess: Guess, count: int) -> str:
    parts = []
    present = guess.values.drop_null()
    if not len(present):
        return "only NULL in the sample"
    if guess.type.kind not in (Kind.BOOLEAN, Kind.STRING, Kind.PATH, Kind.URL):
        extremes = pc.min_max(present).as_py()
        parts.append(f"{text_of(extremes['min'])} to {text_of(extremes['max'])}")
    elif guess.type.is_text:
        distinct = pc.count_distinct(present).as_py()
        parts.append(f"{distinct:,} distinct")
    absent = guess.values.null_count - guess.bad
    if absent:
        parts.append(f"{100 * absent / count:.0f}% NULL" if absent * 100 >= count else "some NULL")
    if guess.bad:
        parts.append(f"{guess.bad:,} values do not fit and would be rejected")
    if guess.format and _both_orders_fit(guess, present):
        parts.append("day and month could be the other way round")
    return ", ".join(parts)


def _both_orders_fit(guess: Guess, present: pa.Array) -> bool:
    year_first = guess.format is not None and guess.format.startswith("%Y")
    return not year_first and not pc.any(pc.greater(pc.day(present), 12)).as_py()


# -- identity ----------------------------------------------------------------------------------


def _identity(
    attributes: Sequence[Attribute],
    columns: Mapping[str, Raw],
    count: int,
    asked: Sequence[str],
    *,
    blank_is_null: bool,
) -> tuple[tuple[str, ...], str]:
    """Which attributes tell events apart, and a sentence about how sure that is."""
    everything = Schema("trial", (attributes[0].name,), tuple(attributes))

    def repeated(names: Sequence[str]) -> int:
        """How many rows could not be told apart by these attributes."""
        trial = Schema("trial", tuple(names), tuple(everything.attribute(name) for name in names))
        found = conform_columns(columns, count, trial, blank_is_null=blank_is_null)
        ids = event_ids(trial, found.good_table().combine_chunks())
        return count - int(pc.count_distinct(ids).as_py())

    if asked:
        names = tuple(everything.attribute(name).name for name in asked)
        lost = repeated(names)
        if lost:
            return names, f"id: as asked; {lost:,} rows of the sample lack or repeat one"
        return names, "id: as asked; unique in the sample"
    for name in _ID_NAMES:
        attribute = everything.find(name)
        if attribute is not None and not repeated([attribute.name]):
            return (attribute.name,), f"id: {attribute.name}, for its name; unique in the sample"
    for length in range(1, len(attributes) + 1):
        names = tuple(attribute.name for attribute in attributes[:length])
        if not repeated(names):
            return names, f"id: a guess ({', '.join(names)} is unique in the sample)"
    first = (attributes[0].name,)
    return first, "id: no set of columns is unique in the sample; choose yourself with --id"
