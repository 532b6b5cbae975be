"""Shapes as columns say what the normal form says of each filter by itself."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from crossroads.errors import UsageError
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.columnar import ALTERNATIVES_MAX, TooManyAlternatives, alternatives
from crossroads.model.instantiate import instantiate
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import filters_from_columns, read_filters
from crossroads.model.types import BIGINT_MAX, BIGINT_MIN

SCHEMA = Schema.from_mapping(
    {
        "id": "k",
        "attributes": {
            "k": "bigint",
            "i": "int",
            "d": "decimal(18,6)",
            "x": "double",
            "s": "string",
            "day": "date",
            "at": "timestamp",
        },
    }
)


def agree(texts, events):
    """All texts are of shapes that become columns, and match as the definition says."""
    table = read_filters(pa.array(texts), SCHEMA)
    assert not table.singles and not table.errors
    parsed = [parse(text, SCHEMA) for text in texts]
    found = MatchIndex.build(table).match_batch(pa.Table.from_pylist(events, schema=SCHEMA.arrow))
    for at, event in enumerate(events):
        wanted = [row for row, filter_ in enumerate(parsed) if matches(filter_, event)]
        assert sorted(found.of(at).tolist()) == wanted, event
    return table


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("form", ["i {} {}", "NOT (i {} {})", "i {} -{}"])
def test_literals_between_whole_numbers(op, form):
    literals = ("0", "1", "4", "4.5", "4.50", "0.000001", "3000000000", "5.0")
    agree([form.format(op, one) for one in literals], [{"i": i} for i in (None, *range(-6, 7))])


@pytest.mark.parametrize("op", COMPARISONS)
def test_literals_beyond_the_decimals(op):
    """9500000000000 has no key among decimal(18,6), yet lies above all of them."""
    literals = ("9500000000000", "950000000000.5", "999999999999.999", "0.0000001", "12.3456785")
    values = ("999999999999.999999", "960000000000", "950000000000.5", "12.345678", "0", "0.000001")
    events = [{"d": Decimal(value) * sign} for value in values for sign in (1, -1)]
    agree([f"d {op} {one}" for one in literals], events)
    agree([f"d {op} -{one}" for one in literals], events)


@pytest.mark.parametrize("form", ["{} NOT IN ({}, {}, {})", "{} IN ({}, {}, {})"])
def test_membership_in_any_order_with_duplicates_and_gaps(form):
    rows = [("1", "2", "3"), ("3", "1", "2"), ("2", "2", "2"), ("2.5", "1", "2.5"), ("9", "0", "9")]
    events = [{"i": i, "x": None if i is None else i / 2, "s": None if i is None else str(i)}
              for i in (None, *range(-1, 11))]  # fmt: skip
    agree([form.format("i", *row) for row in rows], events)
    agree([form.format("x", *row) for row in rows], events)
    agree([form.format("s", *(f"'{one}'" for one in row)) for row in rows], events)


def test_a_long_list_is_left_to_the_filters_themselves():
    long = ", ".join(str(2 * at) for at in range(ALTERNATIVES_MAX + 1))
    texts = [f"i NOT IN ({long})", f"i NOT IN ({long[::1]})"] * 2
    table = agree(texts, [{"i": i} for i in (None, *range(40))])
    with pytest.raises(TooManyAlternatives):
        alternatives(table.groups[0])


LIKES = ("a%", "%a", "%a%", "a", "%", "a%b", "_a", "%a%b%", "%%", "a_%", "")


@pytest.mark.parametrize("word", ["LIKE", "NOT LIKE"])
def test_a_like_slot_asks_many_questions(word):
    texts = [f"s {word} '{one}' AND i > {at}" for at, one in enumerate(LIKES)]
    samples = (None, "", "a", "ba", "ab", "aab", "xay", "b", "axb")
    agree(texts, [{"s": s, "i": i} for s in samples for i in (None, 3, 20)])


def test_escapes_are_part_of_the_shape():
    texts = [f"s LIKE 'a!%' ESCAPE '{escape}'" for escape in ("!", "#", "!", "/")]
    table = read_filters(pa.array(texts), SCHEMA)
    events = [{"s": s} for s in ("a%", "a!", "a!x", "a")]
    found = MatchIndex.build(table).match_batch(pa.Table.from_pylist(events, schema=SCHEMA.arrow))
    assert [sorted(found.of(at).tolist()) for at in range(4)] == [[0, 2], [1, 3], [1, 3], []]


def test_moments_are_read_as_written():
    texts = [f"at >= DATE '2020-01-{day:02}'" for day in (1, 2, 3, 4)]
    table = agree(texts, [{"at": None}])
    assert len(table.groups) == 1
    texts[2] = "at >= DATE '2020-01-03 12:00'"  # a timestamp, but DATE says otherwise
    wrong = read_filters(pa.array(texts), SCHEMA)
    assert list(wrong.errors) == [2]


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "="])
def test_typed_columns_at_the_ends_of_bigint(op):
    ends = [BIGINT_MIN, BIGINT_MIN + 1, -1, 0, BIGINT_MAX - 1, BIGINT_MAX]
    table = filters_from_columns(f"k {op} :p", pa.table({"p": pa.array(ends)}), SCHEMA)
    parsed = [instantiate(table.groups[0], at) for at in range(len(ends))]
    events = [{"k": k} for k in ends]
    found = MatchIndex.build(table).match_batch(pa.Table.from_pylist(events, schema=SCHEMA.arrow))
    for at, event in enumerate(events):
        wanted = [row for row, filter_ in enumerate(parsed) if matches(filter_, event)]
        assert sorted(found.of(at).tolist()) == wanted


def test_typed_columns_are_what_their_texts_are():
    columns = pa.table({"low": [1.5, 2.0, np.pi], "name": ["a", "b", "é"]})
    table = filters_from_columns("x >= :low AND s = :name", columns, SCHEMA)
    for row, (low, name) in enumerate(zip(*columns.to_pydict().values(), strict=True)):
        assert instantiate(table.groups[0], row) == parse(f"x >= {low}D AND s = '{name}'", SCHEMA)
    with pytest.raises(UsageError, match="no column"):
        filters_from_columns("x >= :other", columns, SCHEMA)
    with pytest.raises(UsageError, match="row 1 has an empty text"):
        filters_from_columns("startswith(s, :p)", pa.table({"p": ["a", "", "b"]}), SCHEMA)
    with pytest.raises(UsageError, match="NULL"):
        filters_from_columns("x >= :low", pa.table({"low": [None, 1.0]}), SCHEMA)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("x > :a AND i > 5", "x > {a}D AND i > 5"),
        ("i > 5 AND x > :a", "i > 5 AND x > {a}D"),
        ("x IN (:a, 7)", "x IN ({a}D, 7)"),
        ("x IN (7, 2.5, :a)", "x IN (7, 2.5, {a}D)"),
        ("x IN (:a, :b)", "x IN ({a}D, {b}D)"),
        ("x > -:a AND i > -5 AND d < 1.5", "x > -{a}D AND i > -5 AND d < 1.5"),
        ("s = 'a:b' AND x > :a", "s = 'a:b' AND x > {a}D"),
        (r"s <> 'it\'s :t' AND s = :t", r"s <> 'it\'s :t' AND s = '{t}'"),
        ('s <> ":t" AND s = :t', "s <> ':t' AND s = '{t}'"),
        ("/* :no */ x > :a AND `i` < 5 -- :no", "x > {a}D AND i < 5"),
        ("s LIKE 'a%' AND x > :a", "s LIKE 'a%' AND x > {a}D"),
        ("s LIKE 'a!%' ESCAPE '!' AND x > :a", "s LIKE 'a!%' ESCAPE '!' AND x > {a}D"),
        ("startswith(s, 'a') OR x>:a AND s=:t", "startswith(s, 'a') OR x > {a}D AND s = '{t}'"),
        ("contains(s, 'b') AND x > :a", "contains(s, 'b') AND x > {a}D"),
        ("s RLIKE '^a.b' AND x > :a", "s RLIKE '^a.b' AND x > {a}D"),
        ("day = DATE '2020-01-02' AND x > :a", "day = DATE '2020-01-02' AND x > {a}D"),
        ("at >= '2020-01-02 03:04:05' AND x > :a", "at >= '2020-01-02 03:04:05' AND x > {a}D"),
        ("x > :a AND x < 1e3", "x > {a}D AND x < 1e3"),
        ("s IN (:t, 'a%', :t)", "s IN ('{t}', 'a%', '{t}')"),
        ("x BETWEEN:a AND 500", "x BETWEEN {a}D AND 500"),
    ],
)
def test_constants_of_a_template_are_the_same_in_every_row(template, text):
    rows = [
        {"a": a, "b": b, "t": t}
        for a, b, t in [(1.5, 7.0, "a:b"), (2.0, 2.0, "ab"), (900.0, 0.5, "a%"), (7.0, 1.0, "é")]
    ]
    table = filters_from_columns(template, pa.Table.from_pylist(rows), SCHEMA)
    parsed = [parse(text.format(**row), SCHEMA) for row in rows]
    assert [instantiate(table.groups[0], row) for row in range(len(rows))] == parsed
    moments = pa.array(["2020-01-01", "2020-01-02", "2020-01-03"]).cast(pa.date32())
    events = [
        {"x": x, "i": i, "d": Decimal(i), "s": s, "day": moments[i % 3].as_py(),
         "at": moments.cast(pa.timestamp("us", "UTC"))[i % 3].as_py()}
        for x in (None, -1.75, 1.5, 2.5, 7.0, 901.0)
        for i, s in enumerate((None, "a:b", "a%", "axb", "é", "ab", "c"), start=1)
    ]  # fmt: skip
    found = MatchIndex.build(table).match_batch(pa.Table.from_pylist(events, schema=SCHEMA.arrow))
    for at, event in enumerate(events):
        wanted = [row for row, filter_ in enumerate(parsed) if matches(filter_, event)]
        assert sorted(found.of(at).tolist()) == wanted, event


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("s LIKE 'a!%' ESCAPE :t", "cannot be used with columns"),
        ("x > :a AND 1 = 1", "cannot be used with columns"),
        ("x > :a AND i < x + 1", "cannot be used with columns"),
        ("x > :a AND d > 1234567890123456.5", "at most 15 digits"),
        ("x > :ab", "no column for ':ab'"),
        ("x > :", "no column"),
    ],
)
def test_templates_that_cannot_work_say_so(template, said):
    columns = pa.table({"a": [1.5], "t": ["!"]})
    with pytest.raises(UsageError) as refused:
        filters_from_columns(template, columns, SCHEMA)
    assert said in str(refused.value) + str(getattr(refused.value, "hint", ""))
