"""Numbers take Spark's types, strings Spark's escapes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import FilterError
from crossroads.model.literals import number, quote_text, unquote
from crossroads.model.types import BIGINT, DOUBLE, INT, decimal_type


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("12", 12, INT),
        ("007", 7, INT),
        ("2147483647", 2147483647, INT),
        ("2147483648", 2147483648, BIGINT),
        ("5L", 5, BIGINT),
        ("5l", 5, BIGINT),
        ("9223372036854775808", Decimal("9223372036854775808"), decimal_type(19, 0)),
        ("1.50", Decimal("1.50"), decimal_type(3, 2)),
        ("0.05", Decimal("0.05"), decimal_type(2, 2)),
        (".5", Decimal("0.5"), decimal_type(1, 1)),
        ("3.", Decimal("3"), decimal_type(1, 0)),
        ("0.0", Decimal("0"), decimal_type(1, 1)),
        ("3BD", Decimal("3"), decimal_type(1, 0)),
        ("12e3BD", Decimal("12000"), decimal_type(5, 0)),
        ("25e-1BD", Decimal("2.5"), decimal_type(2, 1)),
        ("1e3", 1000.0, DOUBLE),
        ("1.5D", 1.5, DOUBLE),
        ("1d", 1.0, DOUBLE),
        ("1e-400", 0.0, DOUBLE),
    ],
)
def test_numbers(text, value, type_):
    found = number(text)
    assert (found.value, found.type) == (value, type_)


def test_a_minus_belongs_to_the_number():
    assert number("2147483648", negative=True).type == INT
    assert number("9223372036854775808", negative=True).type == BIGINT
    assert number("9223372036854775809", negative=True).type == decimal_type(19, 0)
    assert number("9223372036854775808L", negative=True).value == -(2**63)
    assert str(number("0.0D", negative=True).value) == "-0.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5x", "not a number"),
        ("1e5L", "not a number"),
        ("1.5L", "not a number"),
        ("0x1F", "not a number"),
        ("1_000", "not a number"),
        ("1e", "not a number"),
        ("5S", "not supported"),
        ("5Y", "not supported"),
        ("5F", "not supported"),
        ("1e999", "does not fit a double"),
        ("9223372036854775808L", "does not fit bigint"),
        ("9" * 39, "more than 38 digits"),
        ("0." + "1" * 39, "more than 38 digits"),
        ("1e99BD", "more than 38 digits"),
        ("1e-99BD", "more than 38 digits"),
        ("1e999999999BD", "more than 38 digits"),
        ("１", "not a number"),
    ],
)
def test_refused_numbers(text, message):
    with pytest.raises(FilterError, match=message) as caught:
        number(text, position=7)
    assert caught.value.position == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r'"it' + "'" + r's"', "it's"),
        (r'"a""b"', 'a"b'),
        (r"'a\nb\tc\rd\be\0f\Zg'", "a\nb\tc\rd\be\0f\x1ag"),
        (r"'\u0041\U0001F600\101'", "A😀A"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\%\_\q\\'", r"\%\_q" + "\\"),
        (r"'\\''x'", "\\'x"),
        (r"'\u00'", "u00"),
        ("'a\nb'", "a\nb"),
        ("''", ""),
    ],
)
def test_strings(text, value):
    assert unquote(text) == value


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(FilterError, match="surrogate"):
        unquote(r"'\ud83d'", 3)


@given(st.text())
def test_quoted_text_reads_back_on_one_line(text):
    quoted = quote_text(text)
    assert unquote(quoted) == text
    assert "\n" not in quoted
    assert "\r" not in quoted
