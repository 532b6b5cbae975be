"""Boxes hold every event that matches, and come out the same one by one and by whole shapes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from crossroads.mapping.axes import hashed_axis, linear_axis, text_axis
from crossroads.mapping.boxes import PARTS_MAX, boxes_of
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.matching.definition import matches
from crossroads.model.atoms import Dimension
from crossroads.model.instantiate import instantiate
from crossroads.model.parse import parse
from crossroads.model.scan import scan
from crossroads.model.schema import Schema
from crossroads.model.shapes import GROUP_ROWS_MIN, read_filters
from crossroads.model.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP
from crossroads.testing.axes import axes
from crossroads.testing.strategies import events, filter_lists, filters, filters_alike, schemas


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
    check_table(schema, chosen, data.draw(filter_lists(schema)))


def test_shapes_are_drawn_whose_rows_differ():
    """Or the test above would compare each filter with copies of itself."""

    def differ(texts):
        groups = read_filters(pa.array(texts), SCHEMA).groups
        return any(
            len({repr(instantiate(group, at)) for at in range(group.rows.size)}) >= GROUP_ROWS_MIN
            for group in groups
        )

    generated = settings(max_examples=1000, phases=[Phase.generate], database=None)
    drawn = find(filters_alike(SCHEMA), differ, settings=generated)
    assert len({scan(text).shape for text in drawn}) == 1


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
            "x": "double",
            "n": "bigint",
            "day": "date",
            "at": "timestamp",
        },
    }
)
AXES = (
    linear_axis("i", INT, 0, 100, 3),
    text_axis(Dimension("s"), STRING, 0, 2**64 - 1, 8),
    text_axis(Dimension("s", True), STRING, 0, 2**64 - 1, 8),
    hashed_axis("b", SCHEMA.attribute("b").type, 4),
    linear_axis("d", SCHEMA.attribute("d").type, Decimal(-10), Decimal(60), 10),
    linear_axis("x", DOUBLE, -7.5, 99.5, 9),
    linear_axis("n", BIGINT, -(2**40), 2**40, 31),
    linear_axis("day", DATE, date(2020, 1, 1), date(2020, 12, 31), 9),
    linear_axis("at", TIMESTAMP, *(datetime(2020, month, 1, tzinfo=UTC) for month in (1, 12)), 12),
)
LITERALS = ("0", "4.5", "50", "-7", "3000000000", "99")
TEXTS = ("", "a", "ab", "abcdefgh", "abcdefghi", "é", "b")
DAYS = (
    *("2019-12-31", "2020-01-01", "2020-02-29", "2020-06-30"),
    *("2020-07-01", "2020-12-31", "2021-07-01"),
)
MOMENTS = (
    *("2019-12-31 23:59:59", "2020-01-01 00:00:00", "2020-06-30 12:30:00", "2020-06-30 12:30:01"),
    *("2020-06-30 12:30:01.000001", "2020-12-01 00:00:00", "2021-07-01 00:00:00"),
)


def _neighbours(values):
    return zip(values, values[1:] + values[:1], strict=True)


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
        "s NOT IN ('{s}', '{t}')",
        "s NOT IN ('{t}', '{s}', '{t}') AND NOT endswith(s, '{t}')",
        "i NOT IN (5, {n}) AND i NOT IN ({m}, 4.5)",
        "x > {n} AND x <= {m}",
        "x NOT IN ({n}, {m}) OR x <=> {n}",
        "x >= {n} AND NOT (x < {m})",
        "n BETWEEN {n} AND {m} OR n < {m}",
        "n NOT IN ({n}, {m}) AND n <> 7",
        "d >= {n} AND d < {m} OR d = {m}",
        "d NOT IN ({m}, {n}, 0.5)",
        "day >= '{u}' AND day < '{v}'",
        "day NOT IN ('{u}', '{v}') OR day IS NULL",
        "at > TIMESTAMP '{p}' AND at <= TIMESTAMP '{q}'",
        "at NOT BETWEEN '{p}' AND '{q}' AND x < {n}",
    ],
)
def test_shapes_of_every_kind(shape):
    texts = [
        shape.format(n=n, m=m, s=s, t=t, u=u, v=v, p=p, q=q)
        for n, m in zip(LITERALS, LITERALS[::-1], strict=True)
        for (s, t), (u, v), (p, q) in zip(*map(_neighbours, (TEXTS, DAYS, MOMENTS)), strict=True)
    ]
    table = check_table(SCHEMA, AXES, texts)
    assert table.groups  # or nothing was compared


def test_a_number_between_two_values_leaves_out_neither():
    one = (linear_axis("i", INT, 0, 100, 7),)
    texts = ["i NOT IN (5, 4.5)", "i NOT IN (4.5, 5)", "i NOT IN (5.5, 5)", "i NOT IN (5, 5)"]
    for text in texts:
        assert boxes_of(parse(text, SCHEMA), one) == [((0, 4),), ((6, 100),)], text
    assert check_table(SCHEMA, one, texts).groups


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
