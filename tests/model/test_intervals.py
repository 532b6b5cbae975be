"""Value sets are sets: checked member by member on a small domain, NULL included."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crossroads.model.intervals import (
    ValueSet,
    all_values,
    at_least,
    below,
    only_null,
    point,
    value_set,
)
from crossroads.model.types import INT, INT_MAX, INT_MIN, STRING, key_bounds

NUMBERS = range(-2, 12)
TEXTS = [bytes(text) for text in ([], [0], [97], [97, 0], [97, 98], [97, 255], [98], [255, 255])]


def number_sets() -> st.SearchStrategy[ValueSet]:
    low = st.integers(0, 9)
    interval = st.tuples(low, st.one_of(low, st.none()))
    return st.builds(value_set, st.just(INT), st.lists(interval, max_size=4), st.booleans())


def text_sets() -> st.SearchStrategy[ValueSet]:
    low = st.sampled_from(TEXTS)
    interval = st.tuples(low, st.one_of(low, st.none()))
    return st.builds(value_set, st.just(STRING), st.lists(interval, max_size=4), st.booleans())


SAME_KIND = st.one_of(
    st.tuples(number_sets(), number_sets(), st.just([None, *NUMBERS])),
    st.tuples(text_sets(), text_sets(), st.just([None, *TEXTS])),
)


@given(SAME_KIND)
def test_operations_member_by_member(case):
    one, other, domain = case
    for key in domain:
        assert one.union(other).has(key) == (one.has(key) or other.has(key))
        assert one.intersection(other).has(key) == (one.has(key) and other.has(key))
        assert one.complement().has(key) == (not one.has(key))
        assert not one.has(key) or one.hull().has(key)
    assert len(one.hull().intervals) <= 1


@given(SAME_KIND)
def test_equal_exactly_when_they_hold_the_same(case):
    one, other, _ = case
    assert one.union(other) == other.union(one)
    assert one.intersection(other) == other.intersection(one)
    assert one.complement().complement() == one
    assert one.contains(other) == (one.union(other) == one)
    assert one.contains(one.intersection(other))
    assert bool(one) == (one != value_set(one.type, []))
    assert one.union(one.complement()).is_everything
    assert not one.intersection(one.complement())


@given(number_sets())
def test_has_is_what_the_intervals_say(one):
    for key in NUMBERS:
        assert one.has(key) == any(
            low <= key and (high is None or key < high) for low, high in one.intervals
        )


def test_points_are_found_only_where_all_are_points():
    assert value_set(STRING, [(b"a", b"a\0"), (b"b", b"b\0")]).points == [b"a", b"b"]
    assert value_set(STRING, [(b"a", b"a\0"), (b"b", None)]).points is None
    assert value_set(INT, [(1, 2), (5, 6)]).points == [1, 5]
    assert only_null(INT).points == []


def test_sets_stay_within_their_type():
    assert below(INT, INT_MIN).intervals == ()
    assert at_least(INT, INT_MIN) == all_values(INT)
    assert point(INT, INT_MAX + 1).intervals == ()
    assert value_set(INT, [(INT_MIN - 5, None)]) == all_values(INT)
    assert all_values(INT).intervals == (key_bounds(INT),)
