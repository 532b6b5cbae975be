"""Estimates of how many events a span takes in: alone and compiled alike, and near the truth."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.shares import WHOLE, Shares, share, shares_of

SIZES = st.lists(st.sampled_from([1, 2, 255, 256, 257, 1000, 2**20, 2**31 - 1, 2**31]), min_size=1)


def compiled(shares, axis, low, high):
    return share(*shares.arrays, axis, low, high)


@given(SIZES, st.integers(0, 50), st.integers(0, 2**32), st.data())
def test_one_at_a_time_and_compiled_agree(sizes, events, seed, data):
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, sizes, (events, len(sizes)))
    positions[: rng.integers(0, events + 1)] = rng.integers(0, sizes)  # hot ones
    shares = shares_of(positions, sizes)
    again = Shares.from_json(json.loads(json.dumps(shares.to_json())))
    for axis, size in enumerate(sizes):
        low, high = sorted(data.draw(st.tuples(*[st.integers(0, size - 1)] * 2)))
        found = shares.of(axis, low, high)
        assert found == compiled(shares, axis, low, high) == again.of(axis, low, high)
        assert 0 <= found <= 2 * WHOLE


@given(SIZES, st.integers(0, 2**32), st.data())
def test_a_wider_span_is_never_thought_to_hold_less(sizes, seed, data):
    positions = np.random.default_rng(seed).integers(0, sizes, (30, len(sizes)))
    shares = shares_of(positions, sizes)
    for axis, size in enumerate(sizes):
        ends = sorted(data.draw(st.tuples(*[st.integers(0, size - 1)] * 4)))
        wide, narrow = shares.of(axis, ends[0], ends[3]), shares.of(axis, ends[1], ends[2])
        assert narrow <= wide or narrow <= max(shares.least[axis])


def test_evenly_spread_events_are_estimated_by_width():
    positions = np.random.default_rng(1).integers(0, 10_000, (100_000, 1))
    shares = shares_of(positions, [10_000])
    for low, high in ((0, 999), (5_000, 5_099), (9_000, 9_999), (0, 9_999)):
        expected = (high - low + 1) / 10_000
        assert abs(shares.of(0, low, high) / WHOLE - expected) < 0.01


def test_a_value_that_half_of_the_events_have_is_no_narrow_side():
    positions = np.random.default_rng(1).integers(0, 2**20, (10_000, 1))
    positions[:5_000] = 77_000
    shares = shares_of(positions, [2**20])
    assert shares.of(0, 77_000, 77_000) >= WHOLE // 2
    assert shares.of(0, 77_001, 77_001) < WHOLE // 5_000  # its neighbours are not hot
    assert shares.of(0, 0, 2**20 - 1) >= WHOLE - 10_000


def test_where_no_event_was_seen_a_narrow_side_beats_a_wide_one():
    shares = shares_of(np.empty((0, 2), np.int64), [1000, 1000])
    assert shares.of(0, 0, 9) < shares.of(1, 0, 99) < shares.of(0, 0, 999)
