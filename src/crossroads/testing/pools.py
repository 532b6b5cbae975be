"""Small pools of values, so that random events and random constants often meet.

Every pool mixes the ordinary with what breaks things: NaN, -0.0, the ends of each type, text whose
order differs between bytes and UTF-16, wildcards and quotes inside text, leap days, the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from crossroads.model.types import (
    BIGINT_MAX,
    BIGINT_MIN,
    INT_MAX,
    INT_MIN,
    Kind,
    Type,
    Value,
    decimal_type,
)

BOOLEANS = (True, False)
INTS = (0, 1, 2, 3, 5, 7, 10, -1, -3, INT_MAX, INT_MIN)
BIGINTS = (
    *INTS,
    INT_MAX + 1,
    2**53 - 1,
    2**53,
    2**53 + 1,  # no double of its own
    BIGINT_MAX,
    BIGINT_MIN,
)
DOUBLES = (
    0.0,
    -0.0,
    1.0,
    2.0,
    2.5,
    3.0,
    -1.0,
    0.1,
    1e-7,
    5e-324,
    1.7976931348623157e308,
    float(2**53),
    math.nan,
    math.inf,
    -math.inf,
)
DECIMALS = tuple(
    map(Decimal, ("0", "1", "2", "2.5", "-1", "3", "0.01", "-0.5", "0.1", "999.99", "10", "0.005"))
)
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "abab",
    "b",
    "ba",
    "A",
    " a",
    "é",
    "éa",
    "日本",
    "日",
    "\ue000",  # after 😀 in UTF-16, before it in bytes
    "😀",
    "a😀",
    "a%b",
    "a_b",
    "it's",
    '"',
    "\\",
    "a\\b",
    "a\nb",
    "10",
)
URLS = ("http://a.example/", "http://a.example/x", "https://b.example/é", "urn:x", "HTTP://A")
PATHS = ("/", "/a", "/a/b", "/a/bc", "/é", "")
DATES = (
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2000, 2, 29),
    date(2020, 1, 31),
    date(2020, 2, 1),
    date.min,
    date.max,
)
TIMESTAMPS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2020, 1, 31, tzinfo=UTC),
    datetime(2020, 1, 31, 12, 30, tzinfo=UTC),
    datetime(2020, 1, 31, 12, 30, 0, 1, tzinfo=UTC),
    datetime(2000, 2, 29, 1, 2, 3, 120_000, tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
)
# Any two of these, and any of them with a bigint, have a common type within Spark's 38 digits.
DECIMAL_TYPES = tuple(
    decimal_type(precision, scale)
    for precision, scale in ((10, 2), (5, 0), (18, 6), (20, 4), (38, 10))
)
# Meant to be read alike by RE2 and by Java.
REGEXES = ("a", "^a", "b$", "a+b?", "[ab]c", "(?i)AB", "é", "a|b", "^$", "日.", "[^a]")

_POOLS: dict[Kind, tuple[Value, ...]] = {
    Kind.BOOLEAN: BOOLEANS,
    Kind.INT: INTS,
    Kind.BIGINT: BIGINTS,
    Kind.DOUBLE: DOUBLES,
    Kind.STRING: TEXTS,
    Kind.DATE: DATES,
    Kind.TIMESTAMP: TIMESTAMPS,
    Kind.PATH: PATHS,
    Kind.URL: URLS,
}


def pool(type_: Type) -> Sequence[Value]:
    """Values of that type, none of them NULL."""
    if type_.kind is not Kind.DECIMAL:
        return _POOLS[type_.kind]
    unit = Decimal(1).scaleb(-type_.scale)
    largest = Decimal((0, (9,) * type_.precision, -type_.scale))
    fitting = [value.quantize(unit) for value in DECIMALS if value == value.quantize(unit)]
    kept = [value for value in fitting if value.copy_abs() <= largest]
    return [*kept, largest, largest.copy_negate()]
