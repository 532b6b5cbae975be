"""The index finds exactly what the definition says: every way in, every type, NULL everywhere."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import FilterError
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.matching.state import index_from_state, index_state
from crossroads.model.instantiate import instantiate
from crossroads.model.parse import parse
from crossroads.model.scan import LiteralKind, scan
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.model.types import BIGINT_MAX, BIGINT_MIN
from crossroads.testing.strategies import event_lists, event_table, filters, schemas

# Literals of the plain kind that shapes may take out of a text, and some that they may not.
NUMBERS = (
    *("0", "1", "2", "3", "5", "7", "10", "007", "2.5", "2.50", "0.005", ".5", "3.", "0.1"),
    *("999.99", "2147483647", "2147483648", "123456789012345", "0.00000000000001"),
    *("9007199254740993", "9223372036854775807", "1e2", "3L", "2.5D", "99999999999999999999"),
)
TEXTS = (
    *("", "a", "ab", "abc", "b", "ba", "A", " a", "10", "é", "日", "zz", "/a", "http://a.example/"),
    *("%", "%%", "_", "a%", "%a", "%a%", "%ab%", "a%b", "a_", "%_b", "%a%b%", "_%", "é%", "%日"),
    *("[ab]c", "^a", "b$", "a+b?", "(?i)AB", "(", "a\\", "1970-01-01", "2020-1-31", "2020-02-01"),
    *("2020-01-31 12:30", "2020-01-31 12:30:00.000001", "not a date", "!", "\\u0061", "it''s"),
)


@st.composite
def variants(draw, text):
    """The same shape with other literals: what subscription sets are made of."""
    scanned = scan(text)
    found = []
    for _ in range(draw(st.integers(4, 7))):
        pieces, end = [], 0
        for literal in scanned.literals:
            pieces.append(text[end : literal.start])
            end = literal.start + len(literal.text)
            if literal.kind is LiteralKind.NUMBER:
                pieces.append(draw(st.sampled_from(NUMBERS)))
            else:
                pieces.append("'" + draw(st.sampled_from(TEXTS)) + "'")
        found.append("".join(pieces) + text[end:])
    return found


def expected(parsed, events):
    return [
        [at for at, one in enumerate(parsed) if one is not None and matches(one, event)]
        for event in events
    ]


def found_by(index, schema, events):
    """Sorted ordinals per event; duplicates would show."""
    found = index.match_batch(event_table(schema, events))
    assert found.offsets[0] == 0 and found.offsets[-1] == found.ordinals.size
    batch = [sorted(found.of(at).tolist()) for at in range(len(events))]
    for event, ordinals in zip(events[:3], batch, strict=False):
        assert index.match(event) == ordinals
    return batch


def parsed_or_error(text, schema):
    try:
        return parse(text, schema), None
    except FilterError as error:
        return None, str(error)


@given(st.data())
def test_index_of_trees_is_the_definition(data):
    schema = data.draw(schemas())
    texts = data.draw(st.lists(filters(schema), min_size=1, max_size=8))
    events = data.draw(event_lists(schema, max_size=12))
    parsed = [parse(text, schema) for text in texts]
    index = MatchIndex.of(schema, parsed)
    assert found_by(index, schema, events) == expected(parsed, events)


@given(st.data())
def test_index_of_shapes_is_the_definition(data):
    schema = data.draw(schemas())
    shapes = data.draw(st.lists(filters(schema, depth=2), min_size=1, max_size=4))
    texts = [text for shape in shapes for text in data.draw(variants(shape))]
    events = data.draw(event_lists(schema, max_size=12))
    table = read_filters(pa.array(texts), schema)
    parsed = [parsed_or_error(text, schema) for text in texts]
    assert {row: str(error) for row, error in table.errors.items()} == {
        row: error for row, (_, error) in enumerate(parsed) if error is not None
    }
    for row, filter_ in table.singles.items():
        assert filter_ == parsed[row][0]
    for group in table.groups:
        for at, row in enumerate(group.rows.tolist()):
            assert instantiate(group, at) == parsed[row][0], texts[row]
    trees = [tree for tree, _ in parsed]
    assert found_by(MatchIndex.build(table), schema, events) == expected(trees, events)


# -- by name: what random filters meet too seldom ------------------------------------------------

STOCKS = Schema.from_mapping(
    {
        "id": "k",
        "attributes": {
            "k": "bigint",
            "a": "int",
            "b": "int",
            "x": "double",
            "flag": "boolean",
            "s": "string",
            "t": "string",
            "wide": "decimal(38,10)",
            "at": "timestamp",
        },
    }
)


def agree(texts, events):
    """Both ways in, and after a journey through its state."""
    parsed = [parse(text, STOCKS) for text in texts]
    wanted = expected(parsed, events)
    trees = MatchIndex.of(STOCKS, parsed)
    assert found_by(trees, STOCKS, events) == wanted
    again = index_from_state(STOCKS, *index_state(trees))
    assert found_by(again, STOCKS, events) == wanted
    shapes = MatchIndex.build(read_filters(pa.array(texts), STOCKS))
    assert found_by(shapes, STOCKS, events) == wanted
    return trees


def numbers(events=40):
    return [
        {"k": at, "a": None if at % 9 == 4 else at, "b": None if at % 7 == 3 else 40 - at}
        for at in range(events)
    ]


def listed(start, step, size):
    return ", ".join(str(start + step * at) for at in range(size))


def test_products_of_long_lists_are_bounded():
    texts = [
        f"a NOT IN ({listed(0, 3, 1000)}) AND b NOT IN ({listed(1, 2, 1000)})",
        f"a IN ({listed(0, 2, 1000)}) AND b IN ({listed(0, 3, 1000)}) AND x IS NULL",
        f"(a NOT IN ({listed(0, 3, 300)}) OR a IS NULL)"
        f" AND (b IN ({listed(0, 2, 300)}) OR b IS NULL)",
    ]
    index = agree(texts, numbers())
    assert index.candidates.owners.size + index.classes.entry_count < 20_000


def test_one_long_list_is_many_points_and_nothing_else():
    index = agree([f"a IN ({listed(0, 2, 5000)})"], numbers())
    assert not index.candidates.owners.size
    neighbours = agree([f"a IN ({listed(0, 1, 5000)})"], numbers())
    assert neighbours.classes.entry_count == 1


def test_long_ors_overlapping_and_not():
    texts = [
        " OR ".join(f"(a = {at} AND b > {at % 7})" for at in range(400)),
        " OR ".join(f"a BETWEEN {at} AND {at + 5}" for at in range(0, 400, 3)),
        " OR ".join(f"(a > {at} AND b > {at})" for at in range(100)),
        " OR ".join(f"(a = {at} AND b > 3)" for at in range(90)) + " OR (a > 3 OR b > 4) AND b < 9",
        " AND ".join(f"(a <> {at} OR b <> {at})" for at in range(40)),
    ]
    agree(texts, numbers())


def test_constants_are_folded():
    texts = ["1 = 1", "1 = 2", "NULL IS NULL", "a > 3 AND 2 > 1", "a > 3 OR 'a' = 'b'", "NULL = 1"]
    index = agree(texts, numbers(8))
    assert not index.candidates.owners.size


TEXTED = [
    {"k": at, "a": at, "s": s, "t": t}
    for at, (s, t) in enumerate(
        (s, t) for s in (None, "", "ab", "cabé", "b") for t in (None, "", "ab", "xaby")
    )
]


def test_patterns_alone_beside_weak_and_beside_strong_predicates():
    needles = ("a", "ab", "", "é", "zz", "b")
    texts = [
        *(f"contains(s, '{one}')" for one in needles),
        *(f"NOT contains(s, '{one}')" for one in needles),
        *(f"contains(s, '{one}') AND a >= 1" for one in needles),
        *(f"contains(s, '{one}') AND a = {at}" for at, one in enumerate(needles)),
        *(f"contains(s, '{one}') AND contains(t, 'ab') AND t RLIKE 'x'" for one in needles),
        *(f"contains(s, '{one}') OR contains(t, '{one}')" for one in needles),
        *(f"s RLIKE '^{one or 'c'}'" for one in needles),
        *(f"NOT s RLIKE '{one}$' AND t LIKE 'x%{one}_'" for one in needles),
        *("contains(s, t)", "startswith(t, s)", "s = t", "s < t", "endswith(s, NULL)"),
    ]
    agree(texts, TEXTED)


def test_numbers_at_the_ends_of_their_types():
    ends = (BIGINT_MIN, BIGINT_MIN + 1, -1, 0, 2**53, 2**53 + 1, BIGINT_MAX - 1, BIGINT_MAX)
    wide = (
        "9999999999999999999999999999.9999999999",
        "-5",
        "0",
        "0.0000000001",
        "12345678901234567890",
    )
    ops = ("=", "<>", "<", "<=", ">", ">=")
    texts = [
        *(f"k {op} {end}" for op in ops for end in ends),
        *(f"k {op} {end}.5" for op in ops for end in (-1, 0, 2**53)),
        *(f"k {op} {end}D" for op in ops for end in (2**53, 2**63)),
        *(f"wide {op} {end}" for op in ops for end in wide),
        *(f"x {op} {end}" for op in ops for end in ("0.0", "-0.0", "1e300", "5", "0.1")),
    ]
    doubles = (math.nan, -0.0, 0.0, math.inf, -math.inf, 0.1, 5.0, None)
    events = [
        {"k": k, "x": x, "wide": w if w is None else Decimal(w)}
        for k, x, w in zip(ends, doubles, (*wide, None, "1", "-1e27"), strict=True)
    ]
    agree(texts, events)


def test_comparisons_of_attributes_and_sums():
    texts = [
        *(f"a {op} b" for op in ("=", "<", ">=", "<=>", "<>")),
        *("a + b > 30", "a * b < k", "a / b > 1", "-a < b", "a - b = -4", "x > a", "a / 0 IS NULL"),
        *("NOT (a + b > 30)", "a + b > 30 OR a < 3", "k * k > 9000000000000000000 OR a > b"),
        *("at > at", "flag", "NOT flag"),
    ]
    events = [event | {"x": event["k"] / 3, "flag": event["k"] % 3 == 0} for event in numbers()]
    events[5]["k"] = BIGINT_MAX
    agree(texts, events)


def test_batches_may_come_in_slices_chunks_and_other_orders():
    texts = ["contains(s, 'a') OR a > 15", "t LIKE '%b_'", "a + 1 > 5"]
    index = MatchIndex.of(STOCKS, [parse(text, STOCKS) for text in texts])
    table = event_table(STOCKS, TEXTED)
    whole = [sorted(index.match_batch(table).of(at).tolist()) for at in range(len(TEXTED))]
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    turned = chunked.select(table.column_names[::-1]).append_column("more", [["x"] * len(TEXTED)])
    for given_table in (chunked, turned, table.combine_chunks().to_batches()[0]):
        found = index.match_batch(given_table)
        assert [sorted(found.of(at).tolist()) for at in range(len(TEXTED))] == whole
    part = index.match_batch(table.slice(5, 9))
    assert [sorted(part.of(at).tolist()) for at in range(9)] == whole[5:14]
    assert index.match_batch(table.slice(0, 0)).offsets.tolist() == [0]
    assert part.events.size == part.ordinals.size


def test_no_filters_at_all():
    index = MatchIndex.of(STOCKS, [])
    assert index.match_batch(event_table(STOCKS, TEXTED)).ordinals.size == 0
    assert index.match({"k": 1}) == []


def test_a_widened_box_and_its_exact_neighbour_report_once() -> None:
    """Too many products of intervals: the second alternative is widened and overlaps the first."""
    schema = Schema.from_mapping({"id": "id", "attributes": {"id": "int", "x": "int", "y": "int"}})
    odd = ", ".join(map(str, range(1, 40, 2)))
    text = f"(x = 2 AND y = 3) OR (x IN ({odd}) AND y IN ({odd}))"
    index = MatchIndex.of(schema, [parse(text, schema)])
    assert index.match({"id": 1, "x": 2, "y": 3}) == [0]
    assert index.match({"id": 1, "x": 3, "y": 3}) == [0]
    assert index.match({"id": 1, "x": 2, "y": 4}) == []


def test_candidates_are_what_ranges_alone_do_not_decide() -> None:
    schema = Schema.from_mapping({"id": "n", "attributes": {"n": "int", "t": "string"}})
    events = pa.table({"n": range(100), "t": ["ab", "b"] * 50}).cast(schema.arrow)

    def candidates(*texts: str) -> int:
        return MatchIndex.build(read_filters(pa.array(texts), schema)).count_candidates(events)

    assert candidates("n > 10", "n BETWEEN 3 AND 5") == 0
    assert candidates("contains(t, 'a')") == 50  # those that the search finds
    # Of narrow ranges, those in the range: each event is in one of a hundred.
    narrow = [f"n = {at} AND contains(t, 'a')" for at in range(100)]
    assert candidates(*narrow) == 100
    assert candidates("n > 10", "contains(t, 'a')", *narrow) == 150
