"""Anyone's DataFrame ↔ a schema: Spark's types for ours, the schema's columns out of any frame.

An attribute `order.total` is a flat column of that name, or the field `total` of a struct `order`.
Names resolve without regard to case. A column of a narrower type is widened where no value can
change; everything else is refused by name, before any Spark job runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.errors import SourceError
from crossroads.model.filter import Literal
from crossroads.model.schema import RESERVED_PREFIX, Attribute, Schema
from crossroads.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)
from crossroads.model.values import URL_PATTERN
from crossroads.pipeline.columns import instant_of_day, literal_column, quoted

_PLAIN: dict[Kind, T.DataType] = {
    Kind.BOOLEAN: T.BooleanType(),
    Kind.INT: T.IntegerType(),
    Kind.BIGINT: T.LongType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.STRING: T.StringType(),
    Kind.PATH: T.StringType(),
    Kind.URL: T.StringType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampType(),
    Kind.VOID: T.NullType(),
}
_OURS: dict[type[T.DataType], Type] = {
    T.BooleanType: BOOLEAN,
    T.ByteType: INT,
    T.ShortType: INT,
    T.IntegerType: INT,
    T.LongType: BIGINT,
    T.FloatType: DOUBLE,
    T.DoubleType: DOUBLE,
    T.StringType: STRING,
    T.CharType: STRING,
    T.VarcharType: STRING,
    T.DateType: DATE,
    T.TimestampType: TIMESTAMP,
    T.TimestampNTZType: TIMESTAMP,
}
_TEXTS = (T.StringType, T.CharType, T.VarcharType)
# Which types widen without any value changing. A bigint does not: doubles skip some of them.
_WIDENED: dict[Kind, tuple[type[T.DataType], ...]] = {
    Kind.INT: (T.ByteType, T.ShortType),
    Kind.BIGINT: (T.ByteType, T.ShortType, T.IntegerType),
    Kind.DOUBLE: (T.FloatType, T.ByteType, T.ShortType, T.IntegerType),
}
_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}


def spark_type(type_: Type) -> T.DataType:
    if type_.kind is Kind.DECIMAL:
        return T.DecimalType(type_.precision, type_.scale)
    return _PLAIN[type_.kind]


def spark_fields(schema: Schema, names: Sequence[str] | None = None) -> list[T.StructField]:
    chosen = schema.names if names is None else names
    return [T.StructField(name, spark_type(schema.attribute(name).type)) for name in chosen]


def spark_schema(schema: Schema) -> T.StructType:
    """Columns of a frame of events, one per attribute, all of them nullable."""
    return T.StructType(spark_fields(schema))


# -- a frame's columns by name -----------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """A column or a field within one, however deep."""

    name: str
    type: T.DataType
    column: Column


def _leaves(frame: DataFrame) -> Iterator[_Found]:
    for field in frame.schema.fields:
        column = F.col(quoted(field.name))
        yield from _within(_Found(field.name, field.dataType, column))


def _within(found: _Found) -> Iterator[_Found]:
    if not isinstance(found.type, T.StructType):
        yield found
        return
    for field in found.type.fields:
        column = found.column.getField(field.name)
        yield from _within(_Found(f"{found.name}.{field.name}", field.dataType, column))


def conform_frame(frame: DataFrame, schema: Schema, *, keep: Sequence[str] = ()) -> DataFrame:
    """Exactly the schema's columns in Spark's types for them, after the columns to `keep`."""
    by_name: dict[str, list[_Found]] = {}
    for found in _leaves(frame):
        by_name.setdefault(found.name.casefold(), []).append(found)
    columns = [
        _conformed(attribute, _one(attribute, by_name, schema)).alias(attribute.name)
        for attribute in schema.attributes
    ]
    return frame.select(*(F.col(quoted(name)) for name in keep), *columns)


def _one(attribute: Attribute, by_name: dict[str, list[_Found]], schema: Schema) -> _Found:
    found = by_name.get(attribute.name.casefold(), [])
    if len(found) > 1:
        raise SourceError(
            f"two columns, {found[0].name!r} and {found[1].name!r}, both mean the attribute "
            f"{attribute.name!r}",
            hint="names resolve without regard to case: rename or remove one",
        )
    if not found:
        there = [each.name for every in by_name.values() for each in every]
        shown = ", ".join(there[:12]) + (", …" if len(there) > 12 else "")
        raise SourceError(
            f"the events have no column {attribute.name!r} ({attribute.type}) "
            f"of schema {schema.name!r}",
            hint=f"columns: {shown}; add it as NULL if no event has it",
        )
    return found[0]


def _conformed(attribute: Attribute, found: _Found) -> Column:
    wanted = attribute.type
    column = _widened(wanted, found)
    if column is None:
        raise SourceError(
            f"column {found.name!r} is {found.type.simpleString()}, "
            f"but attribute {attribute.name!r} is {wanted}",
            hint="cast it, or change the schema: only conversions that lose nothing are made",
        )
    return column


def _widened(wanted: Type, found: _Found) -> Column | None:
    """The column in the wanted type, or None where a value could change."""
    target, given = spark_type(wanted), found.type
    if isinstance(given, T.NullType):
        return found.column.cast(target)
    if wanted.is_text:
        # Whatever its collation was: filters compare text by its bytes.
        return F.collate(found.column, "UTF8_BINARY") if isinstance(given, _TEXTS) else None
    if wanted.kind is Kind.DECIMAL:
        return found.column.cast(target) if _fits(wanted, given) else None
    if wanted.kind is Kind.TIMESTAMP and isinstance(given, T.DateType):
        return instant_of_day(found.column)
    if wanted.kind is Kind.TIMESTAMP and isinstance(given, T.TimestampNTZType):
        return _as_utc(found.column)
    if given == target:
        return found.column
    return found.column.cast(target) if type(given) in _WIDENED.get(wanted.kind, ()) else None


def _fits(wanted: Type, given: T.DataType) -> bool:
    whole = wanted.precision - wanted.scale
    if isinstance(given, T.DecimalType):
        return given.scale <= wanted.scale and given.precision - given.scale <= whole
    return _DIGITS.get(type(given), sys.maxsize) <= whole


def _as_utc(column: Column) -> Column:
    """A time without a zone is one in UTC; a cast would take the session's zone instead."""
    return F.make_timestamp_ltz(
        F.year(column),
        F.month(column),
        F.day(column),
        F.hour(column),
        F.minute(column),
        F.extract(F.lit("SECOND"), column),
        F.lit("UTC"),
    )


# -- batches through Python ----------------------------------------------------------------------

_Batches = Iterable[pa.RecordBatch]


def map_batches(
    frame: DataFrame,
    function: Callable[[_Batches], Iterator[pa.RecordBatch]],
    schema: T.StructType,
) -> DataFrame:
    """`mapInArrow`, also for columns whose names have dots: Spark takes those for fields."""
    names = frame.columns
    plain = frame.select(*(F.col(quoted(name)).alias(f"_{at}") for at, name in enumerate(names)))

    def named(batches: _Batches) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(names) for batch in batches)

    return plain.mapInArrow(named, schema)


# -- which events are valid --------------------------------------------------------------------


@cache
def _blanks() -> str:
    """Python's white space, to stand in a class that Java's regular expressions read alike."""
    return "".join(chr(c) for c in range(sys.maxunicode + 1) if chr(c).isspace())


def valid_event(schema: Schema) -> Column:
    """Of a conformed frame: what `model.table.conform` would not reject. Never NULL."""
    conditions = [F.col(quoted(name)).isNotNull() for name in schema.id]
    for attribute in schema.attributes:
        conditions += _domain(attribute, schema.enforce_domains)
    valid = conditions[0]
    for condition in conditions[1:]:
        valid &= condition
    return valid


def _domain(attribute: Attribute, enforce: bool) -> Iterator[Column]:
    column, type_ = F.col(quoted(attribute.name)), attribute.type
    inside: list[Column] = []
    if type_.kind is Kind.URL:
        pattern = URL_PATTERN.replace(r"\S", f"[^{_blanks()}]")
        inside.append(column.rlike(rf"\A(?:{pattern})\z"))
    if attribute.values:
        # 0.0 added: -0.0 is 0.0, but not in the sets of constants that Spark makes.
        sought = column + F.lit(0.0) if type_.kind is Kind.DOUBLE else column
        options = [literal_column(Literal(value, type_)) for value in attribute.values]
        inside.append(sought.isin(*options))
    if enforce and attribute.min is not None:
        inside.append(column >= literal_column(Literal(attribute.min, type_)))
    if enforce and attribute.max is not None:
        inside.append(column <= literal_column(Literal(attribute.max, type_)))
    for condition in inside:
        yield column.isNull() | condition


# -- a schema from a frame ---------------------------------------------------------------------


def schema_from_frame(frame: DataFrame, id: Sequence[str], name: str = "events") -> Schema:  # noqa: A002 (the schema's own word)
    """The schema that the frame's columns suggest.

    Fields of structs become dotted names. What no filter can look at (arrays, maps, bytes) and
    names that no attribute may have (a leading `_`) are left out.
    """
    attributes = [
        Attribute(name=found.name, type=type_)
        for found in _leaves(frame)
        if (type_ := _our_type(found.type)) is not None
        and not found.name.startswith(RESERVED_PREFIX)
        and "`" not in found.name
    ]
    if not attributes:
        raise SourceError("no column of the DataFrame can be an attribute")
    return Schema(name, tuple(id), tuple(attributes))


def _our_type(type_: T.DataType) -> Type | None:
    if isinstance(type_, T.DecimalType):
        return decimal_type(type_.precision, type_.scale)
    return _OURS.get(type(type_))
