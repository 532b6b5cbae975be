"""One value at the door: what each type takes, what it refuses and how it says so, and back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.model.types import (
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
    from_key,
    key_bounds,
    parse_type,
    successor,
    to_key,
)
from crossroads.model.values import canonical, text_of

NOON = datetime(2001, 2, 3, 12, 0, tzinfo=UTC)

TAKEN: list[tuple[str, object, object]] = [
    ("boolean", " TRUE ", True),
    ("boolean", False, False),
    ("int", "+7", 7),
    ("int", " -0 ", 0),
    ("int", 7.0, 7),
    ("int", Decimal("7"), 7),
    ("bigint", str(2**63 - 1), 2**63 - 1),
    ("double", "1e3", 1000.0),
    ("double", ".5", 0.5),
    ("double", "-Infinity", -math.inf),
    ("double", 2**60, float(2**60)),
    ("double", Decimal("0.1"), 0.1),
    ("decimal(5,2)", "1.5", Decimal("1.50")),
    ("decimal(5,2)", "1.500", Decimal("1.50")),
    ("decimal(5,2)", 0.1, Decimal("0.10")),
    ("decimal(5,2)", "-0", Decimal("0.00")),
    ("decimal(5,2)", "9.9999e2", Decimal("999.99")),
    ("decimal(38,0)", "1" * 38, Decimal("1" * 38)),
    ("decimal(38,38)", "0." + "1" * 38, Decimal("0." + "1" * 38)),
    ("string", "", ""),
    ("string", " a ", " a "),
    ("path", "a/b", "a/b"),
    ("url", "http://x.org/ü", "http://x.org/ü"),
    ("date", "2001-2-3", date(2001, 2, 3)),
    ("date", date(2001, 2, 3), date(2001, 2, 3)),
    ("timestamp", "2001-02-03T12:00Z", NOON),
    ("timestamp", "2001-02-03 14:00:00+02:00", NOON),
    ("timestamp", "2001-02-03 12:00:00.5", NOON + timedelta(seconds=0.5)),
    ("timestamp", "2001-02-03", NOON - timedelta(hours=12)),
    ("timestamp", date(2001, 2, 3), NOON - timedelta(hours=12)),
    ("timestamp", datetime(2001, 2, 3, 12), NOON),
    ("timestamp", NOON.astimezone(timezone(timedelta(hours=9))), NOON),
]

REFUSED: list[tuple[str, object, str]] = [
    ("boolean", 1, "1 is not a boolean (true or false)"),
    ("boolean", "yes", "'yes' is not a boolean (true or false)"),
    ("int", "1.5", "'1.5' is not a whole number (int)"),
    ("int", 1.5, "1.5 is not a whole number (int)"),
    ("int", True, "True is not a whole number (int)"),
    ("int", math.nan, "nan is not a whole number (int)"),
    ("int", "1_000", "'1_000' is not a whole number (int)"),
    ("int", "0x1f", "'0x1f' is not a whole number (int)"),
    ("int", 2**31, "2147483648 does not fit int (-2147483648 to 2147483647)"),
    ("double", "abc", "'abc' is not a number (double)"),
    ("double", True, "True is not a number (double)"),
    ("double", "", "'' is not a number (double)"),
    ("decimal(5,2)", "1.555", "1.555 has more than 2 decimal places (decimal(5,2))"),
    ("decimal(5,2)", "1000", "1000 does not fit decimal(5,2)"),
    ("decimal(5,2)", "1e999999", "1E+999999 does not fit decimal(5,2)"),
    ("decimal(5,2)", "1e-999999", "1E-999999 has more than 2 decimal places (decimal(5,2))"),
    ("decimal(5,2)", "nan", "'nan' is not a decimal(5,2)"),
    ("decimal(5,2)", "1_0", "'1_0' is not a decimal(5,2)"),
    ("decimal(5,2)", math.inf, "inf is not a decimal(5,2)"),
    ("string", 7, "7 is not a string"),
    ("string", "\ud800", "the text has half of a surrogate pair: not valid Unicode"),
    ("url", "no url", "'no url' is not a URL"),
    ("url", "x:y\n", "'x:y\\n' is not a URL"),
    ("date", "2001-02-30", "'2001-02-30' is not a date like YYYY-MM-DD"),
    ("date", "3/2/2001", "'3/2/2001' is not a date like YYYY-MM-DD"),
    ("timestamp", "2001-02-03 25:00", "'2001-02-03 25:00' is not a timestamp like"),
    ("timestamp", "0001-01-01 00:00+05:00", "is not a timestamp like"),
    ("timestamp", 5, "5 is not a timestamp"),
]


@pytest.mark.parametrize(("type_", "raw", "value"), TAKEN)
def test_taken(type_: str, raw: object, value: object) -> None:
    found = canonical(parse_type(type_), raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("type_", "raw", "message"), REFUSED)
def test_refused(type_: str, raw: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        canonical(parse_type(type_), raw)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_datetime_is_no_date() -> None:
    with pytest.raises(ValueError, match="is not a date without a time"):
        canonical(DATE, NOON)


def test_a_moment_that_leaves_the_calendar() -> None:
    first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    with pytest.raises(ValueError, match="between the years 1 and 9999"):
        canonical(TIMESTAMP, first)


def test_formats() -> None:
    day_first = "%d-%m-%Y %H:%M"
    assert canonical(TIMESTAMP, "03-02-2001 12:00", day_first) == NOON
    with pytest.raises(ValueError, match="is not a timestamp like %d-%m-%Y %H:%M"):
        canonical(TIMESTAMP, "2001-02-03 12:00", day_first)


def test_long_texts_are_cut_in_messages() -> None:
    with pytest.raises(ValueError) as caught:
        canonical(DOUBLE, "x" * 1000)
    assert len(str(caught.value)) < 100


def test_decimals_do_not_depend_on_the_callers_context() -> None:
    with localcontext() as context:
        context.prec = 3
        assert canonical(decimal_type(38, 2), "123456789.25") == Decimal("123456789.25")


values: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "decimal(20,4)": st.decimals(places=4, min_value=-(10**15), max_value=10**15),
    "string": st.text(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
}
typed = st.sampled_from(list(values)).flatmap(
    lambda name: st.tuples(st.just(parse_type(name)), values[name], values[name])
)


@given(typed)
def test_text_reads_back_as_the_same_value(case: tuple[Type, Any, Any]) -> None:
    type_, value, _ = case
    value = canonical(type_, value)
    again = canonical(type_, text_of(value))
    assert again == value or (math.isnan(value) and math.isnan(again))  # type: ignore[arg-type]
    assert text_of(again) == text_of(value)


@given(typed)
def test_keys_keep_order_and_read_back(case: tuple[Type, Any, Any]) -> None:
    type_, left, right = case
    left, right = canonical(type_, left), canonical(type_, right)
    one, other = to_key(type_, left), to_key(type_, right)
    if type_ == DOUBLE:
        # NaN is the largest and equal to itself, -0.0 equals 0.0
        left, right = (math.isnan(left), left), (math.isnan(right), right)
        if left[0] and right[0]:
            left = right = (True, 0.0)
    elif type_ == STRING:
        left, right = left.encode(), right.encode()
    assert (one < other) == (left < right)
    assert (one == other) == (left == right)
    assert to_key(type_, from_key(type_, one)) == one
    low, high = key_bounds(type_)
    assert low <= one
    assert high is None or one < high
    assert successor(one) > one
