"""Boxes hold every event that matches, and come out the same one by one and by whole shapes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.mapping.axes import hashed_axis, linear_axis, text_axis
from crossroads.mapping.boxes import PARTS_MAX, boxes_of
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.matching.definition import matches
from crossroads.model.atoms import Dimension
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import GROUP_ROWS_MIN, read_filters
from crossroads.model.types import INT, STRING
from crossroads.testing.axes import axes
from crossroads.testing.strategies import events, filters, schemas


def inside(box, places):
    return all(low <= place <= high for (low, high), place in zip(box, places, strict=True))


@given(st.data())
def test_what_matches_lies_in_a_box(data):
    schema = data.draw(schemas(max_attributes=4))
    chosen = data.draw(axes(schema))
    filter_ = parse(data.draw(filters(schema)), schema)
    boxes = boxes_of(filter_, chosen)
    assert boxes == sorted(set(boxes))
    for event in data.draw(st.lists(events(schema), min_size=1, max_size=8)):
        if matches(filter_, event):
            places = [one.position(event.get(one.dimension.attribute)) for one in chosen]
            assert any(inside(box, places) for box in boxes)


@given(st.data())
def test_a_table_has_the_boxes_of_its_filters(data):
    schema = data.draw(schemas(max_attributes=4))
    chosen = data.draw(axes(schema))
    texts = data.draw(st.lists(filters(schema, depth=2), min_size=1, max_size=6))
    check_table(schema, chosen, texts * GROUP_ROWS_MIN)


def check_table(schema, chosen, texts):
    table = read_filters(pa.array(texts), schema)
    assert not table.errors
    boxes = boxes_of_table(table, chosen)
    for row, text in enumerate(texts):
        assert boxes.of(row) == boxes_of(parse(text, schema), chosen), text
    assert boxes.owner.tolist() == sorted(boxes.owner.tolist())
    for row, box in enumerate(zip(boxes.low.tolist(), boxes.high.tolist(), strict=True)):
        spans = zip(*box, strict=True)
        narrow = [span != one.whole for span, one in zip(spans, chosen, strict=True)]
        assert boxes.constrained[row].tolist() == narrow
    return table


SCHEMA = Schema.from_mapping(
    {
        "id": "k",
        "attributes": {
            "k": "bigint",
            "i": "int",
            "d": "decimal(18,6)",
            "s": "string",
            "b": "boolean",
        },
    }
)
AXES = (
    linear_axis("i", INT, 0, 100, 3),
    text_axis(Dimension("s"), STRING, 0, 2**64 - 1, 8),
    text_axis(Dimension("s", True), STRING, 0, 2**64 - 1, 8),
    hashed_axis("b", SCHEMA.attribute("b").type, 4),
)
LITERALS = ("0", "4.5", "50", "-7", "3000000000", "99")
TEXTS = ("", "a", "ab", "abcdefgh", "abcdefghi", "é", "b")


@pytest.mark.parametrize(
    "shape",
    [
        "i > {n} AND i < {m}",
        "i >= {n} AND i <= {m}",
        "i <> {n} OR i NOT IN ({m}, {n}, 5)",
        "NOT (i BETWEEN {n} AND {m}) AND s = '{s}'",
        "s = '{s}' AND endswith(s, 'b')",
        "s LIKE '{s}%' AND s LIKE '%{t}'",
        "s >= '{s}' AND s <= '{t}' AND endswith(s, 'b')",
        "s > '{s}' AND s < '{t}'",
        "(s = '{s}' OR s > '{t}') AND endswith(s, 'b') AND i = {n}",
        "s IS NULL AND endswith(s, '{s}')",
        "s IS NULL OR i <=> {n}",
        "NOT (i <=> {n}) AND b",
        "b < TRUE AND d > {n}",
        "s IN ('{s}', '{t}') AND i IN ({n}, {m})",
        "NOT startswith(s, '{s}') AND contains(s, '{t}')",
    ],
)
def test_shapes_of_every_kind(shape):
    texts = [
        shape.format(n=n, m=m, s=s, t=t)
        for n, m in zip(LITERALS, LITERALS[::-1], strict=True)
        for s, t in zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)
    ]
    table = check_table(SCHEMA, AXES, texts)
    assert table.groups  # or nothing was compared


def test_long_lists_join_their_neighbours():
    one = (linear_axis("i", INT, 0, 9999, 16),)
    listed = ", ".join(str(n * 20) for n in range(300))
    boxes = boxes_of(parse(f"i IN ({listed})", SCHEMA), one)
    assert len(boxes) == PARTS_MAX
    held = [place for ((low, high),) in boxes for place in range(low, high + 1)]
    assert set(range(0, 6000, 20)) <= set(held)


def test_what_cannot_match_has_no_box():
    for text in ("i > 5 AND i < 3", "i > 3000000000", "s = 'a' AND endswith(s, 'b')", "FALSE"):
        assert boxes_of(parse(text, SCHEMA), AXES) == []


@settings(max_examples=20)
@given(st.data())
def test_no_axes_is_one_box_without_spans(data):
    text = data.draw(filters(SCHEMA))
    assert boxes_of(parse(text, SCHEMA), ()) in ([], [()])
