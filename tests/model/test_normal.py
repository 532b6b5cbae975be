"""The cover holds every match, exact covers nothing else, and covering is sound."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.matching.definition import Event, matches, truth
from crossroads.model import normal
from crossroads.model.filter import Filter
from crossroads.model.normal import (
    Conjunction,
    always_matches,
    cover,
    covers,
    never_matches,
)
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.types import Key, to_key
from crossroads.testing.strategies import event_lists, filters, schemas


def satisfies(one: Conjunction, event: Event, schema: Schema) -> bool:
    """By the definition: every value in its set, every check true (or false) as wanted."""

    def key(name: str, *, backwards: bool) -> Key | None:
        value = event[name]
        if value is None:
            return None
        found = to_key(schema.attribute(name).type, value)
        return found[::-1] if backwards and isinstance(found, bytes) else found

    return all(
        values.has(key(dimension.attribute, backwards=dimension.backwards))
        for dimension, values in one.box.items()
    ) and all(truth(check.predicate, event) is check.wanted for check in one.checks)


def assert_cover_is_right(filter_: Filter, events: list[Event], schema: Schema) -> None:
    for most in (1, 2, 64):
        found = cover(filter_, most)
        assert len(found.alternatives) <= most
        for event in events:
            inside = any(satisfies(one, event, schema) for one in found.alternatives)
            wanted = matches(filter_, event)
            assert inside or not wanted, (most, event)
            assert inside == wanted or not found.exact, (most, event)


@settings(max_examples=250)
@given(st.data())
def test_every_match_is_in_the_cover(data):
    schema = data.draw(schemas())
    filter_ = parse(data.draw(filters(schema)), schema)
    events = data.draw(event_lists(schema, min_size=5, max_size=12))
    assert_cover_is_right(filter_, events, schema)
    for event in events:
        assert not (never_matches(filter_) and matches(filter_, event))
        assert matches(filter_, event) or not always_matches(filter_)


@settings(max_examples=150)
@given(st.data(), st.sampled_from([0, 10, 40, 200]))
def test_the_cover_holds_every_match_when_work_runs_out(data, work):
    schema = data.draw(schemas())
    filter_ = parse(data.draw(filters(schema)), schema)
    events = data.draw(event_lists(schema, min_size=5, max_size=12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normal, "WORK_MAX", work)
        patch.setattr(normal, "MERGED_MAX", work)
        assert_cover_is_right(filter_, events, schema)


@settings(max_examples=200)
@given(st.data())
def test_covering_is_sound_and_reflexive(data):
    schema = data.draw(schemas(max_attributes=2))
    wide, narrow = (parse(data.draw(filters(schema, depth=1)), schema) for _ in range(2))
    assert covers(wide, wide)
    if covers(wide, narrow):
        for event in data.draw(event_lists(schema, min_size=5, max_size=12)):
            assert matches(wide, event) or not matches(narrow, event)


# -- a small world in which everything can be tried --------------------------------------------

SMALL = Schema.from_mapping(
    {"id": "a", "attributes": {"a": "int", "b": "int", "s": "string", "c": "boolean"}}
)
_INTS = (None, 0, 1, 2, 3, 4)
SMALL_EVENTS = [{"a": a, "b": b} for a, b in product(_INTS, _INTS)]

_atoms = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from("ab"),
        st.sampled_from(("=", "<>", "<", "<=", ">", ">=", "<=>")),
        st.integers(1, 3),
    ),
    st.sampled_from(
        ("a IS NULL", "b IS NOT NULL", "a IN (1, 3)", "NOT b IN (2)", "a NOT IN (1, NULL)")
    ),
)


@settings(max_examples=300)
@given(st.lists(_atoms, min_size=1, max_size=4), st.lists(_atoms, min_size=1, max_size=4))
def test_covering_is_complete_for_single_boxes(wide, narrow):
    # Every set these atoms make is decided by 0..4 and NULL: below 1 and above 3 all are alike.
    outer, inner = (
        parse(" AND ".join(f"({atom})" for atom in side), SMALL) for side in (wide, narrow)
    )
    truly = all(matches(outer, event) for event in SMALL_EVENTS if matches(inner, event))
    assert covers(outer, inner) == truly
    assert never_matches(inner) == (not any(matches(inner, event) for event in SMALL_EVENTS))


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ("a > 1", "a > 2", True),
        ("a > 1.5", "a >= 2", True),
        ("a > 2", "a > 1", False),
        ("a IS NOT NULL", "a = 5", True),
        ("a IS NULL", "a <=> NULL", True),
        ("a < 3 OR a > 7", "a = 8 AND b = 1", True),
        ("a < 3 OR b < 3", "a = 1 OR b = 2", True),
        ("s LIKE 'ab%'", "s LIKE 'abc%'", True),
        ("s LIKE '%c'", "endswith(s, 'bc')", True),
        ("s LIKE '%c'", "s IN ('abc', 'c')", True),
        ("s LIKE '%c'", "s IN ('abc', 'd')", False),
        ("s IS NOT NULL", "endswith(s, 'c')", True),
        ("s LIKE '%'", "endswith(s, 'c')", True),
        ("endswith(s, '')", "s > 'a'", True),
        ("endswith(s, 'c')", "s IS NULL", False),
        ("a > b", "a > b AND a = 3", True),
        ("a > b", "a = 3", False),
        ("TRUE", "a > b", True),
        ("a = 1", "FALSE", True),
        ("a = 1", "s = 'abc' AND endswith(s, 'x')", True),
        ("NOT c", "c = FALSE", True),
    ],
)
def test_covering_by_example(wide, narrow, covered):
    assert covers(parse(wide, SMALL), parse(narrow, SMALL)) is covered


@pytest.mark.parametrize(
    ("text", "boxes", "exact"),
    [
        ("a = 1 OR a = 2 OR a > 7", 1, True),
        ("(a = 1 AND b = 1) OR (a = 2 AND b = 1)", 1, True),
        ("(a = 1 AND b = 1) OR (a = 2 AND b = 2)", 2, True),
        ("a = 1 OR (a = 1 AND b = 2)", 1, True),
        ("s = 'abc' AND endswith(s, 'c')", 1, True),
        ("a IS NULL OR a IS NOT NULL", 1, True),
        ("a = 1 AND a = 2", 0, True),
        ("a = NULL", 0, True),
        ("NOT (a > 1 AND b > 1)", 2, True),
    ],
)
def test_boxes_are_few(text, boxes, exact):
    found = cover(parse(text, SMALL))
    assert (len(found.alternatives), found.exact) == (boxes, exact)


def test_tautologies_and_contradictions_are_seen():
    assert always_matches(parse("a IS NULL OR a <> 3 OR a = 3", SMALL))
    assert always_matches(parse("a <=> NULL OR NOT a <=> NULL", SMALL))
    assert not always_matches(parse("a <> 3 OR a = 3", SMALL))
    assert never_matches(parse("a < 1 AND a > 0", SMALL))
    assert never_matches(parse("s LIKE 'a%' AND s >= 'b'", SMALL))


@pytest.mark.parametrize(
    ("text", "intervals"),
    [
        (" OR ".join(f"a = {2 * n}" for n in range(10_000)), 10_000),
        (f"a IN ({', '.join(str(2 * n) for n in range(10_000))})", 10_000),
        (" AND ".join(f"a <> {2 * n}" for n in range(10_000)), 10_001),
        (f"NOT a IN ({', '.join(str(2 * n) for n in range(10_000))}) AND a > 0", 10_000),
    ],
    ids=["or", "in", "and not", "not in"],
)
def test_long_lists_become_one_box(text, intervals):
    """Taken pair by pair these would take minutes."""
    found = cover(parse(text, SMALL))
    (one,) = found.alternatives
    (values,) = one.box.values()
    assert found.exact
    assert len(values.intervals) == intervals


def test_many_boxes_become_few_hulls():
    text = " OR ".join(f"a = {n} AND b = {n}" for n in range(3_000))
    found = cover(parse(text, SMALL))
    assert len(found.alternatives) <= 64
    assert not found.exact
    events = [{"a": n, "b": n, "s": None, "c": None} for n in range(0, 3_000, 97)]
    assert all(any(satisfies(one, e, SMALL) for one in found.alternatives) for e in events)


def _members(of: int, step: int, size: int) -> str:
    return f"a{of} IN ({', '.join(str(step * n) for n in range(size))})"


@pytest.mark.parametrize("size", [60, 2_500])
@pytest.mark.parametrize("attributes", [8, 16], ids=["shared", "apart"])
def test_products_of_long_lists_are_bounded_in_work(size, attributes):
    """Combined exactly these would take minutes."""
    schema = Schema.from_mapping(
        {"id": "a0", "attributes": {f"a{n}": "int" for n in range(attributes)}}
    )
    text = " AND ".join(
        f"({_members(2 * n % attributes, n + 3, size)}"
        f" OR {_members((2 * n + 1) % attributes, n + 10, size)})"
        for n in range(8)
    )
    filter_ = parse(text, schema)
    found = cover(filter_)
    assert not found.exact
    zeros: Event = {f"a{n}": 0 for n in range(attributes)}
    mixed: Event = {f"a{n}": 0 if n % 2 else 1 for n in range(attributes)}
    for event in (zeros, mixed):
        assert matches(filter_, event)
        assert any(satisfies(one, event, schema) for one in found.alternatives)


def test_lists_of_ordinary_length_stay_exact():
    schema = Schema.from_mapping({"id": "a0", "attributes": {f"a{n}": "int" for n in range(4)}})
    text = f"({_members(0, 2, 100)} OR {_members(1, 2, 100)})"
    other = f"({_members(2, 2, 100)} OR {_members(3, 2, 100)})"
    found = cover(parse(f"{text} AND {other}", schema))
    assert (len(found.alternatives), found.exact) == (4, True)


def test_a_long_and_of_ors_is_bounded_in_work():
    filter_ = parse(" AND ".join(f"(a <> {n} OR b <> {n})" for n in range(3_000)), SMALL)
    found = cover(filter_)
    event: Event = {"a": 1, "b": 2, "s": None, "c": None}
    assert matches(filter_, event)
    assert any(satisfies(one, event, SMALL) for one in found.alternatives)


def test_a_long_or_over_many_attributes_keeps_its_boxes():
    schema = Schema.from_mapping({"id": "a0", "attributes": {f"a{n}": "int" for n in range(100)}})
    text = " OR ".join(f"a{n % 100} = {n} AND a{(n + 1) % 100} > {n}" for n in range(4_900))
    found = cover(parse(text, schema), 4_900)
    assert (len(found.alternatives), found.exact) == (4_900, True)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = 1 AND b = 1 OR b = 1", "b = 1"),
        ("b = 1 OR a = 1 AND b = 1 OR a = 2 AND b = 1", "b = 1"),
        ("a < 2 AND b = 1 OR a < 3 AND b = 2 OR a = 2 AND b = 1", "a < 3 AND b IN (1, 2)"),
        ("a = 1 AND b = 1 OR a = 1 AND b = 1", "a = 1 AND b = 1"),
        ("a IS NULL AND b = 1 OR a IS NOT NULL AND b = 1", "b = 1"),
    ],
)
def test_merging_needs_no_comparison_by_pairs(monkeypatch, text, same):
    monkeypatch.setattr(normal, "ABSORBED_MAX", 0)
    assert cover(parse(text, SMALL)) == cover(parse(same, SMALL))
