"""MEGHDOOT's space: points, regions, and which zone lies up and to the left of which."""

import numpy as np
import pytest

from crossroads.mapping.zone_load import REPLICAS_MAX, replicas, split_or_replicate
from crossroads.mapping.zone_space import holds, is_upper_left, meets, point_of

# Fig. 1(a), one attribute: x is where a range begins, y where it ends. The drawing is lost; this
# division has the neighbourhood that the text describes.
FIG_1A = {
    1: ((0, 4), (8, 12)),
    2: ((4, 8), (8, 12)),
    3: ((8, 12), (4, 12)),
    4: ((0, 4), (4, 8)),
    5: ((4, 8), (4, 8)),
    6: ((0, 8), (0, 4)),
    7: ((8, 12), (0, 4)),
}


def test_a_box_is_a_point_of_its_ends_and_lies_in_one_zone():
    point = point_of([(2, 9)])
    assert point == (2, 9)
    assert [number for number, zone in FIG_1A.items() if holds(zone, point)] == [1]


def test_fig_1a_zones_1_2_and_4_are_upper_left_of_5_but_3_6_and_7_are_not():
    five = FIG_1A[5]
    assert {n for n in FIG_1A if n != 5 and is_upper_left(FIG_1A[n], five)} == {1, 2, 4}


def test_an_event_meets_the_zones_of_ranges_that_begin_before_and_end_after_it():
    """Fig. 4: the region of e = ⟨5, 5⟩ is [0, 5] × [5, 12)."""
    assert {n for n, zone in FIG_1A.items() if meets(zone, [5], [5])} == {1, 2, 4, 5}


def test_errata_14_an_event_without_a_value_meets_the_zone_of_ranges_that_leave_it_open():
    """By the property l <= L and H <= h, not by the printed corners."""
    assert {n for n, zone in FIG_1A.items() if meets(zone, [0], [11])} == {1}


@pytest.mark.parametrize(
    ("subscriptions", "events", "answer"),
    [(200, 100, "split"), (100, 200, "replicate"), (100, 100, "split"), (0, 1, "replicate")],
)
def test_the_load_that_exceeds_its_mean_by_more_decides(subscriptions, events, answer):
    assert split_or_replicate(subscriptions, events, 100, 100) == answer


def test_a_zone_of_equal_subscriptions_can_only_be_copied():
    assert split_or_replicate(200, 100, 100, 100, splittable=False) == "replicate"


def test_zones_hot_with_events_get_copies_in_proportion():
    visits = np.array([0, 10, 10, 10, 10, 10, 10, 140], np.int64)  # mean 25, bearable 50
    assert replicas(visits).tolist() == [1, 1, 1, 1, 1, 1, 1, 3]
    assert replicas(visits, factor=1).tolist() == [1, 1, 1, 1, 1, 1, 1, 6]


def test_copies_are_at_least_one_and_never_without_bound():
    assert replicas(np.zeros(3, np.int64)).tolist() == [1, 1, 1]
    hot = np.zeros(1000, np.int64)
    hot[7] = 1_000_000
    assert replicas(hot).max() == REPLICAS_MAX
