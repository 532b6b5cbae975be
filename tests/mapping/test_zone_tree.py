"""Zones divide the space; what the tree finds, alone or in bulk, is what the definition says."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.zone_space import holds, meets, point_of
from crossroads.mapping.zone_tree import EVEN_SHARE, ZoneTree, grow


@st.composite
def spaces(draw):
    """Sizes of the axes, boxes in them (many equal ends) and positions of events."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([1, 2, 7, 64, 1000]), min_size=1, max_size=4))
    boxes = draw(st.integers(0, 60))
    ends = np.sort(rng.integers(0, sizes, (2, boxes, len(sizes))), axis=0)
    open_ = rng.random((boxes, len(sizes))) < draw(st.sampled_from([0, 0.3, 0.9]))
    low = np.where(open_, 0, ends[0])
    high = np.where(open_, np.array(sizes) - 1, ends[1])
    return sizes, low, high, rng.integers(0, sizes, (20, len(sizes)))


def box_of(low, high, row):
    return list(zip(low[row].tolist(), high[row].tolist(), strict=True))


@given(spaces(), st.integers(1, 40), st.integers(1, 5))
def test_every_box_is_in_one_zone_and_every_event_in_all_zones_its_region_meets(
    space, zones, target
):
    sizes, low, high, positions = space
    tree = grow(low, high, zones=zones, target=target)
    bounds = tree.bounds(sizes)
    assert len(bounds) == tree.zones <= zones
    leaves = tree.leaves_of_boxes(low, high)
    for row in range(low.shape[0]):
        box = box_of(low, high, row)
        found = [n for n, zone in enumerate(bounds) if holds(zone, point_of(box))]
        assert found == [tree.zone_of(box)] == [leaves[row]]
    offsets, visited = tree.leaves_of_events(positions)
    for row, at in enumerate(positions.tolist()):
        found = [n for n, zone in enumerate(bounds) if meets(zone, at, at)]
        assert found == tree.zones_meeting(at, at)
        assert found == visited[offsets[row] : offsets[row + 1]].tolist()


@given(spaces(), st.data())
def test_events_that_leave_axes_open_meet_what_the_property_says(space, data):
    """ERRATA 14."""
    sizes, low, high, positions = space
    tree = grow(low, high, zones=16)
    first, last = positions[0].tolist(), positions[0].tolist()
    for axis in data.draw(st.sets(st.integers(0, len(sizes) - 1))):
        first[axis], last[axis] = 0, sizes[axis] - 1
    zones = tree.bounds(sizes)
    found = [n for n, zone in enumerate(zones) if meets(zone, first, last)]
    assert tree.zones_meeting(first, last) == found


@given(spaces())
def test_the_tree_survives_json(space):
    _, low, high, positions = space
    tree = grow(low, high, zones=16)
    again = ZoneTree.from_json(json.loads(json.dumps(tree.to_json())))
    assert again.leaves_of_boxes(low, high).tolist() == tree.leaves_of_boxes(low, high).tolist()
    for one, other in zip(
        again.leaves_of_events(positions), tree.leaves_of_events(positions), strict=True
    ):
        assert one.tolist() == other.tolist()


def scattered(boxes, axes, size=1 << 20):
    rng = np.random.default_rng(3)
    ends = np.sort(rng.integers(0, size, (2, boxes, axes)), axis=0)
    return ends[0], ends[1]


def test_dimensions_take_turns():
    low, high = scattered(1000, 3)
    tree = grow(low, high, zones=8)
    depth = {0: 0}
    for node in range(7):
        for child in (tree.left[node], tree.right[node]):
            depth[child] = depth[node] + 1
        assert tree.dimension[node] == depth[node]


def test_a_dimension_in_which_most_boxes_end_alike_is_passed_over():
    low, high = scattered(1000, 2)
    low[100:, 0], high[100:, 0] = 0, (1 << 20) - 1  # nine in ten leave the first axis open
    tree = grow(low, high, zones=8)
    assert set(tree.dimension) == {2, 3}
    leaves = tree.leaves_of_boxes(low, high)
    assert np.bincount(leaves).min() >= EVEN_SHARE**3 * 1000


def test_where_no_dimension_is_even_the_best_balanced_one_splits():
    low, high = np.zeros((100, 1), np.int64), np.full((100, 1), 63)
    high[:20] = 31
    tree = grow(low, high, zones=8)
    assert tree.bounds([64]) == [((0, 64), (0, 63)), ((0, 64), (63, 64))]


def test_equal_boxes_stay_together():
    low, high = np.full((100, 2), 5), np.full((100, 2), 9)
    assert grow(low, high, zones=8).zones == 1


@pytest.mark.parametrize(("target", "zones"), [(1000, 1), (500, 2), (250, 4)])
def test_zones_that_hold_few_enough_are_left_whole(target, zones):
    low, high = scattered(1000, 2)
    assert grow(low, high, zones=64, target=target).zones == zones


def test_errata_8_taking_turns_keeps_the_zones_an_event_visits_few():
    """Seven attributes, most left open, as in MEGHDOOT's templates; 10,000 zones. Always the best
    balanced dimension would make an event visit a third of them."""
    rng = np.random.default_rng(8)
    size, boxes = 1 << 20, 14_029
    low, high = np.zeros((boxes, 7), np.int64), np.full((boxes, 7), size - 1)
    template = rng.choice(5, boxes, p=[0.2, 0.35, 0.35, 0.05, 0.05])
    value = rng.integers(0, size, (boxes, 3))
    named = template < 4
    low[named, 1] = high[named, 1] = value[named, 0]
    between = template == 0
    low[between, 2] = value[between, 1:].min(axis=1)
    high[between, 2] = value[between, 1:].max(axis=1)
    high[template == 1, 4] = value[template == 1, 1]
    low[template == 2, 3] = value[template == 2, 1]
    low[template >= 3, 6] = value[template >= 3, 1]
    tree = grow(low, high, zones=10_000)
    offsets, _ = tree.leaves_of_events(rng.integers(0, size, (2000, 7)))
    visited = np.diff(offsets) / tree.zones
    assert tree.zones == 10_000
    assert visited.mean() < 0.06
    assert (visited < 0.1).mean() > 0.95  # M1: nearly all events contact less than 10%
