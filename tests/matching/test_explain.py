"""Explanations agree with the definition, and name what decided."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.matching.definition import truth
from crossroads.matching.explain import explain
from crossroads.model.filter import And, Not, Or
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.testing.strategies import events, filters, schemas

SCHEMA = Schema.from_mapping(
    {
        "id": "n",
        "attributes": {
            "n": "int",
            "symbol": "string",
            "high": "double",
            "low": "double",
            "open": "boolean",
        },
    }
)
EVENT = {"n": 1, "symbol": "aapl", "high": 18.87, "low": 20.5, "open": None}


def nodes(node):
    yield node
    for part in node.parts:
        yield from nodes(part)


@given(st.data())
def test_every_truth_is_the_definitions(data):
    schema = data.draw(schemas())
    filter_ = parse(data.draw(filters(schema)), schema)
    event = data.draw(events(schema))
    found = explain(filter_, event)
    assert found.filter == filter_ and found.decided
    for node in nodes(found):
        assert node.truth is truth(node.filter, event)
    assert list(found.deciding), "something always decides"
    assert found.reason and len(found.lines()) == len(list(nodes(found)))
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["truth"] is found.truth


@given(st.data())
def test_the_deciding_predicates_suffice(data):
    """Whatever the others say: with the deciding predicates as they are, the answer stands."""
    schema = data.draw(schemas())
    filter_ = parse(data.draw(filters(schema)), schema)
    found = explain(filter_, data.draw(events(schema)))

    def possible(node):
        """Truths of the node, if predicates that did not decide could be anything."""
        if not node.parts:
            return {node.truth} if node.decided else {True, False, None}
        parts = [possible(part) for part in node.parts]
        match node.filter:
            case Not():
                return {None if one is None else not one for one in parts[0]}
            case And() | Or():
                settles = isinstance(node.filter, Or)
                every = {not settles}
                for part in parts:
                    every = {_both(one, other, settles) for one in every for other in part}
                return every

    if found.truth is not None:  # unknown rests on no part being decisive, which is not listed
        assert possible(found) == {found.truth}


def _both(one, other, settles):
    if settles in (one, other):
        return settles
    return None if None in (one, other) else not settles


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("symbol = 'aapl' AND high >= 10", "symbol = 'aapl' and high = 18.87 >= 10"),
        ("symbol = 'aapl' AND low <= 18 AND high < 1", "low = 20.5 is not <= 18"),
        ("NOT (low <= 18)", "low = 20.5 is not <= 18"),
        ("18 >= low", "low = 20.5 is not <= 18"),
        ("symbol = 'ibm'", "symbol = 'aapl' is not 'ibm'"),
        ("symbol IN ('a', 'b')", "symbol = 'aapl' is not in ('a', 'b')"),
        ("n IN (1, 2) OR high > 100", "n = 1 is in (1, 2)"),
        ("contains(symbol, 'ap')", "symbol = 'aapl' contains 'ap'"),
        ("startswith(symbol, 'x')", "symbol = 'aapl' does not start with 'x'"),
        ("symbol LIKE 'a%'", "symbol = 'aapl' is LIKE 'a%'"),
        ("symbol RLIKE '^b'", "symbol = 'aapl' is not RLIKE '^b'"),
        ("open", "open is NULL"),
        ("NOT open AND n = 1", "open is NULL"),
        ("open IS NULL", "open is NULL"),
        ("n IS NULL", "n = 1"),
        ("low > high", "low > high is true with low = 20.5, high = 18.87"),
        ("high / 0 > 1", "high / 0 has no result: it overflows or divides by zero"),
        ("n > NULL", "n > NULL asks about the constant NULL"),
        ("n IN (2, NULL)", "n IN (2, NULL) asks about the constant NULL"),
        ("TRUE", "the filter says TRUE"),
        ("n = 2 OR low < 1 OR high < 1", "n = 1 is not 2 and low = 20.5 is not < 1 and high = 18.87 is not < 1"),  # noqa: E501
    ],
)  # fmt: skip
def test_reasons(text, reason):
    assert explain(parse(text, SCHEMA), EVENT).reason == reason


def test_lines_are_aligned():
    found = explain(parse("symbol = 'aapl' AND (low <= 18 OR open)", SCHEMA), EVENT)
    assert found.lines() == [
        "? all of                                ← decided",
        "  ✓ symbol = 'aapl'   symbol = 'aapl'",
        "  ? any of                              ← decided",
        "    ✗ low <= 18       low = 20.5",
        "    ? open            open = NULL       ← decided",
    ]


def test_json():
    found = explain(parse("low <= 18 AND NOT open", SCHEMA), EVENT | {"low": float("nan")})
    assert found.to_dict() == {
        "of": "and",
        "truth": False,
        "decided": True,
        "parts": [
            {
                "text": "low <= 18.0D",
                "truth": False,
                "decided": True,
                "values": {"low": "nan"},
            },
            {
                "of": "not",
                "truth": None,
                "decided": False,
                "parts": [
                    {"text": "open", "truth": None, "decided": False, "values": {"open": None}}
                ],
            },
        ],
    }


def test_long_lists_are_cut():
    many = ", ".join(str(number) for number in range(5000))
    found = explain(parse(f"n IN ({many})", SCHEMA), EVENT)
    assert all(len(line) < 120 for line in found.lines())
    assert len(found.reason) < 120
