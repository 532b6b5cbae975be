"""The types of attributes and literals: Spark SQL names, plus `path` and `url`, which are strings.

A value is a plain Python object (bool, int, float, Decimal, str, date, aware datetime in UTC) or
None for NULL. Its **key** is an exact, order-preserving stand-in: an int for everything that counts
or measures, UTF-8 bytes for text. Keys compare as Spark compares values: NaN is the largest double,
-0.0 equals 0.0, strings go by bytes. Everything that needs order (intervals, the index) uses keys.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import StrEnum

import pyarrow as pa

from crossroads.errors import SchemaError

Value = bool | int | float | Decimal | str | date | datetime | None
Key = int | bytes

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1
DECIMAL_PRECISION_MAX = 38  # Spark's, and what a 128-bit decimal holds

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NAN_KEY = 0x7FF8_0000_0000_0000
_EXACT = Context(prec=80, traps=[InvalidOperation, Inexact])


class Kind(StrEnum):
    BOOLEAN = "boolean"
    INT = "int"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    PATH = "path"
    URL = "url"
    VOID = "void"  # the type of a bare NULL; no attribute has it


_ALIASES = {"integer": "int", "long": "bigint", "bool": "boolean", "float64": "double"}
_TYPE_TEXT = re.compile(r"([a-z0-9]+)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


@dataclass(frozen=True, slots=True)
class Type:
    """One type; precision and scale are those of a decimal and 0 otherwise."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return self.kind.value

    @property
    def is_integral(self) -> bool:
        return self.kind in (Kind.INT, Kind.BIGINT)

    @property
    def is_number(self) -> bool:
        return self.kind in (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)

    @property
    def is_text(self) -> bool:
        return self.kind in (Kind.STRING, Kind.PATH, Kind.URL)

    @property
    def is_time(self) -> bool:
        return self.kind in (Kind.DATE, Kind.TIMESTAMP)

    @property
    def arrow(self) -> pa.DataType:
        """The one Arrow type in which a column of this type travels."""
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.kind]

    @property
    def wide(self) -> bool:
        """Keys of this type may not fit 64 bits."""
        return self.kind is Kind.DECIMAL and self.precision > 18


BOOLEAN, INT, BIGINT = Type(Kind.BOOLEAN), Type(Kind.INT), Type(Kind.BIGINT)
DOUBLE, STRING, DATE = Type(Kind.DOUBLE), Type(Kind.STRING), Type(Kind.DATE)
TIMESTAMP, VOID = Type(Kind.TIMESTAMP), Type(Kind.VOID)

_ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.PATH: pa.string(),
    Kind.URL: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.VOID: pa.null(),
}


def decimal_type(precision: int, scale: int) -> Type:
    if not (1 <= precision <= DECIMAL_PRECISION_MAX and 0 <= scale <= precision):
        raise SchemaError(
            f"decimal({precision},{scale}) does not exist",
            hint=f"precision 1 to {DECIMAL_PRECISION_MAX}, scale 0 to precision",
        )
    return Type(Kind.DECIMAL, precision, scale)


def parse_type(text: str) -> Type:
    """`"double"`, `"decimal(10,2)"`, … → Type."""
    found = _TYPE_TEXT.fullmatch(text.strip().lower())
    name = _ALIASES.get(found[1], found[1]) if found else ""
    if not found or name not in Kind._value2member_map_ or name == Kind.VOID:
        known = ", ".join(kind for kind in Kind if kind is not Kind.VOID)
        raise SchemaError(f"unknown type {text!r}", hint=f"known types: {known}")
    if name == Kind.DECIMAL:
        return decimal_type(int(found[2] or 10), int(found[3] or 0))
    if found[2]:
        raise SchemaError(f"{name} takes no precision: {text!r}")
    return Type(Kind(name))


def to_key(type_: Type, value: Value) -> Key:
    """The order-preserving stand-in of a non-NULL value of that type."""
    match value:
        case bool():
            return int(value)
        case float():
            return double_key(value)
        case int():
            return value
        case str():
            return value.encode()
        case Decimal():
            return int(value.scaleb(type_.scale, _EXACT))
        case datetime():
            return (value - _EPOCH) // _MICROSECOND
        case date():
            return value.toordinal() - _EPOCH_DAY
    raise AssertionError((type_, value))


def from_key(type_: Type, key: Key) -> Value:
    """The value whose key this is (of the doubles that are equal, the canonical one)."""
    match type_.kind:
        case Kind.BOOLEAN:
            return bool(key)
        case Kind.DOUBLE:
            assert isinstance(key, int)
            return key_double(key)
        case Kind.DECIMAL:
            return Decimal(int(key)).scaleb(-type_.scale, _EXACT)
        case Kind.DATE:
            return date.fromordinal(int(key) + _EPOCH_DAY)
        case Kind.TIMESTAMP:
            return _EPOCH + int(key) * _MICROSECOND
        case Kind.INT | Kind.BIGINT:
            return int(key)
        case _:
            assert isinstance(key, bytes)
            return key.decode()


def double_key(value: float) -> int:
    """IEEE bits folded so that integers order as Spark orders doubles."""
    if math.isnan(value):
        return _NAN_KEY
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]  # + 0.0: -0.0 becomes 0.0
    return bits if bits >= 0 else -(bits & BIGINT_MAX)


def key_double(key: int) -> float:
    bits = key if key >= 0 else (-key) | (1 << 63)
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def successor(key: Key) -> Key:
    """The least key greater than this one."""
    return key + 1 if isinstance(key, int) else key + b"\0"


def after_prefix(prefix: bytes) -> bytes | None:
    """The least key greater than every text that starts with `prefix`; None if there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def key_bounds(type_: Type) -> tuple[Key, Key | None]:
    """All keys of the type lie in [low, high); None: there is no upper bound."""
    match type_.kind:
        case Kind.BOOLEAN:
            return 0, 2
        case Kind.INT:
            return INT_MIN, INT_MAX + 1
        case Kind.BIGINT:
            return BIGINT_MIN, BIGINT_MAX + 1
        case Kind.DOUBLE:
            return double_key(-math.inf), _NAN_KEY + 1
        case Kind.DECIMAL:
            return 1 - 10**type_.precision, 10**type_.precision
        case Kind.DATE:
            return to_key(DATE, date.min), int(to_key(DATE, date.max)) + 1
        case Kind.TIMESTAMP:
            return BIGINT_MIN, BIGINT_MAX + 1
    return b"", None
