"""The worked examples of STRINGS (S1, S2), and decomposition against its definition."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.tnodes import Forest, Tnode


def labels(forest, tnodes):
    return [forest.label(tnode) for tnode in tnodes]


def walk(forest, text):
    """The labels an event with that string visits, one more character each."""
    return [forest.tnode(text[: at + 1]) for at in range(len(text))]


def test_S1_example_1_subscriptions_for_010_and_00_are_stored_at_the_tnodes_of_their_names():
    forest = Forest(base=2, digits=3)
    assert forest.tnode("010") == Tnode(depth=2, label=2)
    assert forest.tnode("00") == Tnode(depth=1, label=0)
    assert labels(forest, [forest.tnode("010"), forest.tnode("00")]) == ["010", "00"]


def test_S1_example_2_event_010_walks_to_the_tnode_where_the_equal_subscription_is():
    forest = Forest(base=2, digits=3)
    stored = {forest.tnode("010"): "SubID1", forest.tnode("00"): "SubID2"}
    path = walk(forest, "010")
    assert labels(forest, path) == ["0", "01", "010"]
    assert path == list(forest.path(2))
    # Equality is collected at the last Tnode only (ERRATA 12): '00' is on the path of '001'.
    assert stored.get(path[-1]) == "SubID1"
    assert stored.get(walk(forest, "00")[-1]) == "SubID2"
    assert stored.get(walk(forest, "001")[-1]) is None


def test_S1_example_3_prefix_00_is_matched_by_event_001():
    forest = Forest(base=2, digits=3)
    assert forest.tnode("00") in walk(forest, "001")
    assert forest.tnode("00") not in walk(forest, "010")
    # As positions: a prefix is one Tnode, whose interval is what begins with it.
    assert forest.decompose(0b000, 0b001, forest.depths) == [forest.tnode("00")]


def test_S1_fig_4_range_2_to_5_is_stored_at_001_and_0100_and_event_3_follows_0011():
    forest = Forest(base=2, digits=4)
    found = forest.decompose(2, 4, forest.depths)
    assert labels(forest, found) == ["001", "0100"]
    assert [forest.interval(tnode) for tnode in found] == [(2, 4), (4, 5)]
    assert labels(forest, forest.path(3)) == ["0", "00", "001", "0011"]
    assert found[0] in forest.path(3)


def test_S2_interval_of_a_tnode():
    forest = Forest(base=2, digits=4)
    assert forest.interval(forest.tnode("001")) == (1 * 2 ** (4 - 2 - 1), 2 * 2 ** (4 - 2 - 1))
    assert forest.interval(forest.tnode("001")) == (2, 4)
    assert forest.interval(forest.tnode("01")) == (4, 8)
    assert Forest(base=15, digits=5).interval(Tnode(depth=2, label=7)) == (7 * 15**2, 8 * 15**2)


def test_S2_the_inverse_finds_the_label_of_a_subrange():
    forest = Forest(base=2, digits=4)
    assert forest.label(forest.responsible(3, 4)) == "0011"
    assert forest.label(forest.responsible(2, 4)) == "001"
    with pytest.raises(ValueError, match=r"\[2, 5\) is no Tnode's interval"):
        forest.responsible(2, 5)


def test_S5_a_range_of_1000_takes_at_most_48_subranges_in_base_15():
    forest = Forest(base=15, digits=5)
    most = max(forest.pieces(low, low + 999, forest.depths) for low in range(15**4))
    assert most == 48


@given(st.integers(2, 17), st.integers(1, 5), st.data())
def test_tnodes_divide_the_positions_of_their_depth(base, digits, data):
    forest = Forest(base, digits)
    position = data.draw(st.integers(0, base**digits - 1))
    for depth, tnode in enumerate(forest.path(position)):
        low, high = forest.interval(tnode)
        assert low <= position < high
        assert high - low == forest.width(depth)
        assert (
            forest.responsible(low, high).label * forest.width(forest.responsible(low, high).depth)
            == low
        )


@st.composite
def ranges(draw):
    base = draw(st.sampled_from([2, 3, 10, 16]))
    forest = Forest(base, draw(st.integers(1, 4 if base > 3 else 8)))
    low = draw(st.integers(0, base**forest.digits - 1))
    high = draw(st.integers(low, min(low + 3000, base**forest.digits - 1)))
    depths = draw(st.sets(st.sampled_from(forest.depths), min_size=1))
    return forest, low, high, sorted(depths)


@given(ranges())
def test_a_range_is_filled_exactly_by_tnodes_that_no_fewer_could_replace(found):
    forest, low, high, depths = found
    tnodes = forest.decompose(low, high, depths)
    intervals = [forest.interval(tnode) for tnode in tnodes]
    unit = forest.width(depths[-1])
    assert intervals[0][0] == low // unit * unit
    assert intervals[-1][1] == high // unit * unit + unit
    assert all(one[1] == other[0] for one, other in pairwise(intervals))
    assert {tnode.depth for tnode in tnodes} <= set(depths)
    # Minimal: no Tnode of a level above lies within the range, so none can stand for several.
    for tnode in tnodes:
        shallower = [depth for depth in depths if depth < tnode.depth]
        if shallower:
            start, _ = forest.interval(tnode)
            wide = Tnode(shallower[-1], start // forest.width(shallower[-1]))
            first, end = forest.interval(wide)
            assert first < intervals[0][0] or end > intervals[-1][1]
    assert forest.pieces(low, high, depths) == len(tnodes)


@given(ranges())
def test_with_every_level_at_most_two_sides_of_siblings_are_taken(found):
    forest, low, high, _ = found
    tnodes = forest.decompose(low, high, forest.depths)
    for depth in forest.depths[1:]:
        assert sum(tnode.depth == depth for tnode in tnodes) <= 2 * (forest.base - 1)


@given(st.integers(2, 300), st.integers(1, 10**6))
def test_the_least_forest_for_so_many_positions(base, positions):
    forest = Forest.holding(positions, base)
    assert base**forest.digits >= positions
    assert forest.digits == 1 or base ** (forest.digits - 1) < positions
