"""Positions keep the order of values, and a column's are those of its values."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.mapping.axes import Axis, hashed_axis, linear_axis, listed_axis, text_axis
from crossroads.mapping.scales import Hashed, head_of_text
from crossroads.model.atoms import Dimension
from crossroads.model.intervals import all_values, only_null, point, value_set
from crossroads.model.schema import Attribute
from crossroads.model.types import BIGINT, DOUBLE, INT, STRING, successor, to_key
from crossroads.testing import pools
from crossroads.testing.axes import axis
from crossroads.testing.strategies import types, values


@st.composite
def axes_and_values(draw):
    type_ = draw(types())
    backwards = type_.is_text and draw(st.booleans())
    one = draw(axis(Attribute(name="a", type=type_), backwards))
    return one, draw(st.lists(values(type_), max_size=12))


@given(axes_and_values())
def test_a_column_is_placed_as_its_values_are(drawn):
    one, found = drawn
    column = pa.array([None, *found], one.type.arrow).slice(1)
    wanted = [one.position(value) for value in found]
    assert one.positions(column).tolist() == wanted
    chunks = pa.chunked_array([column, column])
    assert one.positions(chunks).tolist() == wanted + wanted
    assert all(0 <= place < one.size for place in wanted)
    assert one.size <= 1 << one.bits


@given(axes_and_values())
def test_positions_keep_the_order(drawn):
    one, found = drawn
    if isinstance(one.scale, Hashed):
        return
    known = [value for value in found if value is not None]
    keys = [to_key(one.type, value) for value in known]
    if one.dimension.backwards:
        keys = [key[::-1] for key in keys]
    places = [one.position(value) for value in known]
    pairs = sorted(zip(keys, places, strict=True))
    assert [place for _, place in pairs] == sorted(places)


@given(axes_and_values())
def test_a_span_holds_the_positions_of_its_values(drawn):
    one, found = drawn
    for value in found:
        place = one.position(value)
        if value is None:
            assert one.span(only_null(one.type)) == (place, place) == (0, 0)
            continue
        key = to_key(one.type, value)
        key = key[::-1] if one.dimension.backwards else key
        low, high = one.span(point(one.type, key))
        assert low <= place <= high
        for wide in (
            value_set(one.type, [(key, None if isinstance(key, bytes) else 2**127)]),
            value_set(one.type, [(b"" if isinstance(key, bytes) else -(2**127), successor(key))]),
            all_values(one.type),
        ):
            low, high = one.span(wide)
            assert low <= place <= high
    assert one.span(None) == one.whole
    assert one.span(all_values(one.type)) == one.whole


@given(axes_and_values())
def test_an_axis_comes_back_from_json(drawn):
    one, _ = drawn
    assert Axis.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_whole_numbers_are_placed_exactly():
    """CHORD's Fig. 3: `3 < a2 < 7` on 0–7 is 4, 5 and 6."""
    one = linear_axis("a", INT, 0, 7, 3)
    assert [one.position(value) for value in range(8)] == list(range(8))
    assert one.span(value_set(INT, [(4, 7)])) == (4, 6)
    assert [one.position(value) for value in (-5, 8, 2**31 - 1)] == [0, 7, 7]


def test_the_domain_counts_both_ends():
    """ERRATA 16: h(1,000,000) would overflow if the domain had 1,000,000 values."""
    one = linear_axis("a", INT, 0, 1_000_000, 13)
    assert one.position(1_000_000) == 2**13 - 1
    assert one.position(999_999) == 999_999 * 2**13 // 1_000_001


def test_an_axis_has_no_more_positions_than_values():
    assert linear_axis("a", INT, 10, 12, 8).size == 3
    assert linear_axis("a", INT, 5, 5, 8).bits == 0
    assert linear_axis("a", INT, 0, 999, 8, intervals=10).size == 10
    assert linear_axis("a", BIGINT, -(2**63), 2**63 - 1, 31).size == 2**31


def test_doubles_of_any_size():
    one = linear_axis("a", DOUBLE, -1.7e308, 1.7e308, 4)
    ordered = sorted(pools.DOUBLES, key=lambda value: to_key(DOUBLE, value))
    places = [one.position(value) for value in ordered]
    assert places == sorted(places)
    assert [one.position(x) for x in (float("-inf"), 0.0, -0.0, float("inf"), float("nan"))] == [
        0, 8, 8, 15, 15,
    ]  # fmt: skip


def test_the_least_doubles_have_no_halves_to_divide_by():
    least = 5e-324
    one = linear_axis("a", DOUBLE, 3 * least, 5 * least, 4)
    values = [number * least for number in range(8)]
    places = [one.position(value) for value in values]
    assert places == sorted(places) and (places[3], places[5]) == (0, one.size - 1)
    assert one.positions(pa.array(values)).tolist() == places


TEXT_HEADS = head_of_text(b"a"), head_of_text(b"z")
MAKERS = {
    "whole numbers": lambda bits, n: linear_axis("a", INT, 0, 999, bits, n),
    "doubles": lambda bits, n: linear_axis("a", DOUBLE, 0.0, 1.0, bits, n),
    "enumeration": lambda bits, n: listed_axis("a", INT, list(range(100)), bits, n),
    "texts": lambda bits, n: text_axis(Dimension("a"), STRING, *TEXT_HEADS, bits, intervals=n),
    "hash": lambda bits, n: hashed_axis("a", STRING, bits, n),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_an_axis_has_as_many_intervals_as_asked_for(kind):
    """CHORD's discretization, on every kind of axis."""
    make = MAKERS[kind]
    assert make(6, None).size == 64
    one = make(6, 10)
    assert (one.size, one.bits) == (10, 4)
    with pytest.raises(UsageError, match="65 intervals of a are more than the 64 positions of 6"):
        make(6, 65)


def test_more_intervals_than_values_are_as_many_as_values():
    assert linear_axis("a", INT, 0, 7, 3, intervals=100).size == 8
    assert listed_axis("a", STRING, [b"x", b"y"], 1, intervals=100).size == 2


def test_an_enumeration_is_placed_by_rank():
    one = listed_axis("a", STRING, [b"high", b"low", b"mid"], 4)
    assert [one.position(text) for text in ("high", "low", "mid")] == [0, 1, 2]
    assert [one.position(text) for text in ("a", "hz", "lowest", "z")] == [0, 0, 1, 2]
    assert one.span(value_set(STRING, [(b"i", b"mid")])) == (0, 1)


@pytest.mark.parametrize(
    ("interval", "span"),
    [
        ((b"b", b"c"), (1, 1)),  # starts with b
        ((b"b", b"c\0"), (1, 2)),  # b to c, c included
        ((b"b", b"b\0"), (1, 1)),
        ((b"bcdefghij", b"bcdefghik"), (1, 1)),
        ((b"", b"b"), (0, 0)),
        ((b"c", None), (2, 3)),
    ],
)
def test_text_is_placed_by_its_leading_bytes(interval, span):
    low, high = head_of_text(b"a"), head_of_text(b"e") - 1
    one = text_axis(Dimension("a"), STRING, low, high, 2)
    assert one.span(value_set(STRING, [interval])) == span
