"""Boxes and events meet at Tnodes: the law, alone = in bulk, replicas, relocation, limits."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.shares import shares_of
from crossroads.mapping.tnode_keys import TNODES_MAX, TnodeKeys
from crossroads.mapping.tnodes import Forest, Tnode


def tnode_keys(sizes, base=2, *, levels=None, positions=None, **settings):
    forests = tuple(Forest.holding(size, base) for size in sizes)
    sample = np.empty((0, len(sizes)), np.int64) if positions is None else positions
    plain = {"offsets": (0,) * len(sizes), "slack": 0, "replicas": 1, "bits": 40}
    return TnodeKeys(
        tuple(sizes),
        forests,
        tuple(forest.depths for forest in forests) if levels is None else levels,
        shares=shares_of(sample, sizes),
        **{**plain, **settings},
    )


@st.composite
def situations(draw):
    """Any settings, boxes and events; many ends alike."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([1, 2, 16, 100, 2**16, 2**40]), min_size=1, max_size=3))
    base = draw(st.sampled_from([2, 3, 16, 256]))
    forests = [Forest.holding(size, base) for size in sizes]
    levels = tuple(
        tuple(sorted(draw(st.sets(st.sampled_from(forest.depths))))) for forest in forests
    )
    boxes, events = 12, 12
    ends = np.sort(rng.integers(0, sizes, (2, boxes, len(sizes))), axis=0)
    narrow = rng.random((boxes, len(sizes))) < 0.5
    reach = np.minimum(ends[0] + rng.integers(0, 300, ends[0].shape), np.array(sizes) - 1)
    low, high = ends[0], np.where(narrow, reach, ends[1])
    open_ = rng.random((boxes, len(sizes))) < 0.3
    low, high = np.where(open_, 0, low), np.where(open_, np.array(sizes) - 1, high)
    inside = (low + (rng.random(low.shape) * (high - low)).astype(np.int64))[:events]
    bits = draw(st.sampled_from([1, 8, 40, 62]))
    return (
        tnode_keys(
            sizes,
            base,
            levels=levels,
            positions=rng.integers(0, sizes, (20, len(sizes))),
            offsets=tuple(draw(st.integers(0, 2**bits - 1)) for _ in sizes),
            slack=draw(st.sampled_from([0, 1, 8])),
            replicas=draw(st.integers(1, 3)),
            bits=bits,
        ),
        low,
        high,
        inside,
    )


def box_of(low, high, row):
    return list(zip(low[row].tolist(), high[row].tolist(), strict=True))


@given(situations())
def test_a_box_and_every_event_in_it_share_a_key(situation):
    core, low, high, inside = situation
    for row in range(low.shape[0]):
        box = box_of(low, high, row)
        keys = core.keys_of_box(box)
        corners = [[one for one, _ in box], [other for _, other in box], inside[row].tolist()]
        for position in corners:
            found = core.keys_of_event(position)
            assert list(found) == sorted(set(found))
            assert all(0 <= key < 2**core.bits for key in found)
            assert keys is None or set(keys) & set(found)


@given(situations())
def test_alone_and_in_bulk_the_keys_are_the_same(situation):
    core, low, high, positions = situation
    counts, keys, root = core.keys_of_boxes(low, high)
    ends = np.cumsum(counts)
    for row in range(low.shape[0]):
        found = core.keys_of_box(box_of(low, high, row))
        assert root[row] == (found is None)
        assert sorted(keys[ends[row] - counts[row] : ends[row]].tolist()) == sorted(found or [])
        assert len(found or []) <= TNODES_MAX * core.replicas
    offsets, visited = core.keys_of_events(positions)
    for row, position in enumerate(positions.tolist()):
        one = core.keys_of_event(position)
        assert visited[offsets[row] : offsets[row + 1]].tolist() == list(one)


def test_fig_4_as_keys_the_event_meets_the_range_at_one_tnode():
    core = tnode_keys([16])
    assert core.tnodes_of([(2, 4)]) == (0, [Tnode(2, 0b001), Tnode(3, 0b0100)])
    stored, visited = set(core.keys_of_box([(2, 4)])), set(core.keys_of_event([3]))
    assert stored & visited == {core.key(0, Tnode(2, 0b001), 0)}
    assert not stored & set(core.keys_of_event([5]))


def test_a_prefix_of_bytes_is_one_tnode_where_digits_are_bytes():
    core = tnode_keys([256**3], base=256)
    low = int.from_bytes(b"ab\0", "big")
    assert core.tnodes_of([(low, low + 255)]) == (0, [Tnode(1, int.from_bytes(b"ab", "big"))])


def test_a_box_is_stored_by_the_side_that_takes_in_fewest_events():
    positions = np.random.default_rng(2).integers(0, 1000, (2000, 2))
    positions[:1000, 0] = 7  # half of all events
    core = tnode_keys([1000, 1000], 10, positions=positions)
    assert core.side_of([(7, 7), (0, 49)]) == 1
    assert core.side_of([(8, 8), (0, 49)]) == 0
    assert core.side_of([(0, 999), (0, 998)]) == 1
    assert core.side_of([(0, 999), (0, 999)]) is None


def test_containment_is_stored_by_the_more_selective_of_prefix_and_suffix():
    """'a*c' on the axis and the axis read backwards; everything else is checked later."""
    digits = 26
    core = tnode_keys([digits**3, digits**3], digits)
    prefix, suffix = (0, digits**2 - 1), (2 * digits**2, 2 * digits**2 + digits - 1)  # a*, *ac
    assert core.tnodes_of([prefix, suffix]) == (1, [Tnode(1, 2 * digits)])


def test_without_relocation_equal_labels_of_two_axes_share_a_key_and_with_it_they_do_not():
    plain = tnode_keys([16, 16])
    box, other = [(3, 3), (0, 15)], [(0, 15), (3, 3)]
    assert plain.keys_of_box(box) == plain.keys_of_box(other)
    moved = dataclasses.replace(plain, offsets=(0, 12345))
    assert set(moved.keys_of_box(box)).isdisjoint(moved.keys_of_box(other))


def test_a_box_is_stored_in_every_replica_and_events_spread_over_them():
    core = tnode_keys([1000], 10, replicas=4)
    box = [(400, 499)]
    stored = set(core.keys_of_box(box))
    assert len(stored) == 4
    met = [stored & set(core.keys_of_event([position])) for position in range(400, 500)]
    assert all(len(found) == 1 for found in met)
    used = {next(iter(found)) for found in met}
    assert used == stored
    assert all(sum(found == {key} for found in met) >= 10 for key in stored)


def test_levels_left_out_widen_a_range_and_shorten_the_path():
    every = tnode_keys([1000], 10)
    coarse = tnode_keys([1000], 10, levels=((0, 1),))
    assert len(every.keys_of_event([123])) == 3
    assert len(coarse.keys_of_event([123])) == 2
    assert coarse.tnodes_of([(123, 145)]) == (0, [Tnode(1, 12), Tnode(1, 13), Tnode(1, 14)])


def test_slack_stops_where_finer_pieces_would_be_a_small_part_of_the_range():
    exact, slack = tnode_keys([10_000], 10), tnode_keys([10_000], 10, slack=8)
    wide, narrow = [(1_234, 5_678)], [(1_234, 1_236)]
    assert len(exact.keys_of_box(wide)) > len(slack.keys_of_box(wide))
    axis, tnodes = slack.tnodes_of(wide)
    covered = [slack.forests[axis].interval(tnode) for tnode in tnodes]
    assert (covered[0][0], covered[-1][1]) == (1_200, 5_700)
    assert exact.keys_of_box(narrow) == slack.keys_of_box(narrow)


def test_a_range_of_too_many_tnodes_is_cut_coarser_and_at_last_stands_at_the_root():
    size = 2**40
    deep = tnode_keys([size], 2, levels=((5, 39),))
    assert {tnode.depth for tnode in deep.tnodes_of([(1, size - 1)])[1]} == {5}
    assert deep.keys_of_box([(1, TNODES_MAX)]) is not None
    only_leaves = tnode_keys([size], 2, levels=((39,),))
    assert len(only_leaves.keys_of_box([(1, TNODES_MAX)])) == TNODES_MAX
    assert only_leaves.keys_of_box([(1, TNODES_MAX + 1)]) is None


def test_keys_are_the_same_in_every_process_and_release():
    core = tnode_keys([16])
    assert core.keys_of_event([3]) == (
        321_041_645_172,
        534_519_151_565,
        638_553_580_445,
        717_374_697_293,
    )
    assert core.key(0, Tnode(2, 0b001), 1) == 481_929_944_980
