"""The index finds exactly what the definition says: every way in, every type, NULL everywhere."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import FilterError
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.instantiate import instantiate
from crossroads.model.parse import parse
from crossroads.model.scan import LiteralKind, scan
from crossroads.model.shapes import read_filters
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
