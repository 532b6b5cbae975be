"""The definition itself: three-valued logic, keys, and arithmetic that never fails."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.matching.definition import matches, truth
from crossroads.model.filter import And, Constant, Not, Or
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.testing.strategies import events, filters, schemas

SCHEMA = Schema.from_mapping(
    {
        "id": "id",
        "attributes": {
            "id": "bigint",
            "n": "int",
            "k": "bigint",
            "x": "double",
            "m": "decimal(10,2)",
            "w": "decimal(38,0)",
            "s": "string",
            "c": "boolean",
            "d": "date",
            "ts": "timestamp",
        },
    }
)
EVENT = {
    "id": 1,
    "n": 2**31 - 1,
    "k": 2**53 + 1,
    "x": math.nan,
    "m": Decimal("2.50"),
    "w": Decimal(10**38 - 1),
    "s": "a😀b",
    "c": None,
    "d": date(2020, 1, 31),
    "ts": datetime(2020, 1, 31, 12, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("c", None),
        ("NOT c", None),
        ("c AND FALSE", False),
        ("c OR TRUE", True),
        ("c <=> NULL", True),
        ("c = c", None),
        ("n IN (1, NULL)", None),
        ("n IN (2147483647, NULL)", True),
        ("n + 1 > 0", None),  # overflow
        ("n + 1L > 0", True),
        ("-n < 0", True),
        ("k = 9007199254740992D", True),  # as doubles they are one
        ("k = 9007199254740993", True),
        ("k = 9007199254740992", False),
        ("x > 1e308", True),  # NaN is the largest
        ("x = x", True),
        ("x / 0 IS NULL", True),
        ("m / 3 = 0.833333", True),
        ("m * 2 = 5", True),
        ("w + 1 IS NULL", True),  # 39 digits
        ("w - 1 < w", True),
        ("s LIKE 'a_b'", True),
        ("s LIKE 'a__b'", False),
        ("s > 'a\ue000'", True),  # by bytes, not by UTF-16 units
        ("d < ts", True),
        ("d = '2020-01-31'", True),
        ("ts = '2020-01-31 13:00:00+01:00'", True),
        ("contains(s, '')", True),
        ("contains(s, NULL)", None),
        ("NULL", None),
    ],
)
def test_by_example(text, wanted):
    assert truth(parse(text, SCHEMA), EVENT) is wanted


def test_unknown_is_no_match():
    assert not matches(parse("c", SCHEMA), EVENT)
    assert not matches(parse("NOT c", SCHEMA), EVENT)


def test_an_attribute_that_is_absent_is_null():
    assert matches(parse("n IS NULL", SCHEMA), {})


@pytest.mark.parametrize("one", [True, False, None])
@pytest.mark.parametrize("other", [True, False, None])
def test_the_truth_tables(one, other):
    both = (Constant(one), Constant(other))
    known = {one, other}
    assert truth(And(both), {}) is (False if False in known else None if None in known else True)
    assert truth(Or(both), {}) is (True if True in known else None if None in known else False)
    assert truth(Not(Constant(one)), {}) is (None if one is None else not one)


@given(st.data())
def test_it_never_fails_and_not_exchanges_true_and_false(data):
    schema = data.draw(schemas())
    filter_ = parse(data.draw(filters(schema)), schema)
    event = data.draw(events(schema))
    found = truth(filter_, event)
    assert found in (True, False, None)
    assert truth(Not(filter_), event) is (None if found is None else not found)
