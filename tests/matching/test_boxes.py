"""The compiled classes find exactly what the plain definition of boxes finds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.matching import class_build, class_fill
from crossroads.matching.boxes import NO_UPPER_BOUND, BoxGroup, match_boxes
from crossroads.matching.class_plan import CELLS_PER_BOX_MAX
from crossroads.matching.classes import ClassIndex, build_classes

SIZES = (1, 2, 5, 40, 1000, 1_000_000, 2**31 - 1)
SHAPES = ("point", "null", "at_least", "at_most", "null_or_most", "not_null", "band", "wide", "any")


def random_range(rng, size, shape):
    """One closed range of codes of the wanted shape."""
    a, b = sorted(int(v) for v in rng.integers(0, size, 2))
    narrow = min(NO_UPPER_BOUND, a + int(rng.integers(0, max(2, size // 50))))
    return {
        "point": (a, a),
        "null": (-1, -1),
        "at_least": (a, NO_UPPER_BOUND),
        "at_most": (0, a),
        "null_or_most": (-1, a),
        "not_null": (0, NO_UPPER_BOUND),
        "band": (a, narrow),
        "wide": (a, b),
        "any": (-1, NO_UPPER_BOUND),
    }[shape]


def random_group(rng, sizes, rows, shapes_per_column):
    """Rows of one signature; each column draws its shapes from a few, so that kinds mix."""
    dims = tuple(sorted(shapes_per_column))
    lo = np.empty((rows, len(dims)), np.int32)
    hi = np.empty((rows, len(dims)), np.int32)
    for c, d in enumerate(dims):
        choices = shapes_per_column[d]
        for r in range(rows):
            shape = choices[int(rng.integers(len(choices)))]
            lo[r, c], hi[r, c] = random_range(rng, sizes[d], shape)
    return BoxGroup(dims, lo, hi, rng.integers(0, 1000, rows).astype(np.int32))


def random_codes(rng, groups, sizes, events):
    """Codes at and around the bounds of the boxes, elsewhere, and NULL."""
    codes = np.empty((len(sizes), events), np.int32)
    for d, size in enumerate(sizes):
        interesting = [np.array([-1, 0, size - 1]), rng.integers(0, size, events)]
        for group in groups:
            if d in group.dims and len(group.ids):
                c = group.dims.index(d)
                interesting += [group.lo[:20, c], group.hi[:20, c].astype(np.int64) + 1]
                interesting += [group.hi[:20, c], group.lo[:20, c].astype(np.int64) - 1]
        pool = np.concatenate(interesting).clip(-1, size - 1)
        codes[d] = rng.choice(pool, events)
    return codes


def per_event(result):
    offsets, ids = result
    assert offsets[0] == 0 and offsets[-1] == len(ids)
    return [sorted(ids[a:b].tolist()) for a, b in pairwise(offsets)]


def assert_agrees(groups, sizes, codes):
    index = build_classes(groups, sizes)
    assert per_event(index.match(codes)) == per_event(match_boxes(groups, codes))
    return index


@st.composite
def cases(draw):
    n_dims = draw(st.integers(1, 5))
    sizes = [draw(st.sampled_from(SIZES)) for _ in range(n_dims)]
    shapes = st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups = []
    for _ in range(draw(st.integers(0, 5))):
        dims = draw(st.sets(st.integers(0, n_dims - 1)))
        rows = draw(st.sampled_from([0, 1, 3, 20, 200]))
        groups.append(random_group(rng, sizes, rows, {d: draw(shapes) for d in sorted(dims)}))
    return groups, sizes, random_codes(rng, groups, sizes, draw(st.sampled_from([0, 1, 30, 150])))


@settings(max_examples=300, deadline=None)
@given(cases())
def test_classes_are_the_definition(case):
    groups, sizes, codes = case
    assert_agrees(groups, sizes, codes)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_boxes_in_the_order_of_their_cells_are_the_definition(case):
    groups, sizes, codes = case
    with pytest.MonkeyPatch.context() as patch:  # as if all of them were many
        patch.setattr(class_build, "BOXES_SORTED_MIN", 2)
        patch.setattr(class_build, "CELLS_SORTED_PER_BOX", 1_000)
        assert_agrees(groups, sizes, codes)


def test_boxes_are_ordered_by_their_first_cells():
    rng = np.random.default_rng(4)
    first = rng.integers(0, 7, (500, 2)).astype(np.int32)
    strides = np.array([7, 1])
    order = class_fill.order_by_cell(first, strides, 49)
    assert order.tolist() == np.argsort(first @ strides, kind="stable").tolist()


@settings(max_examples=25, deadline=None)
@given(cases())
def test_an_index_survives_its_arrays(case):
    groups, sizes, codes = case
    index = build_classes(groups, sizes)
    copy = ClassIndex.from_arrays({name: array.copy() for name, array in index.arrays().items()})
    assert per_event(copy.match(codes)) == per_event(index.match(codes))


def test_memory_mapped_arrays_are_used_in_place(tmp_path):
    rng = np.random.default_rng(1)
    sizes = [1000, 1_000_000]
    groups = [random_group(rng, sizes, 500, {0: ["point"], 1: ["band"]})]
    index = build_classes(groups, sizes)
    for name, array in index.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {n: np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in index.arrays()}
    opened = ClassIndex.from_arrays(mapped)
    assert np.shares_memory(opened.ids, mapped["ids"])
    codes = random_codes(rng, groups, sizes, 300)
    assert per_event(opened.match(codes)) == per_event(match_boxes(groups, codes))


def test_an_index_cannot_be_changed():
    index = build_classes([], [3])
    with pytest.raises(ValueError, match="read-only"):
        index.dim_sizes[0] = 4


@pytest.mark.parametrize("shape", ["band", "at_most", "at_least", "wide"])
@pytest.mark.parametrize("dims", [1, 2, 4])
def test_many_boxes_in_a_grid(shape, dims):
    rng = np.random.default_rng(dims)
    sizes = [1_000_001] * dims
    groups = [random_group(rng, sizes, 3000, {d: [shape] for d in range(dims)})]
    assert_agrees(groups, sizes, random_codes(rng, groups, sizes, 400))


@pytest.mark.parametrize(
    "shapes",
    [
        {0: ["point"], 1: ["at_most"]},
        {0: ["point"], 1: ["at_least"]},
        {0: ["point"], 1: ["wide"]},
        {0: ["point"], 1: ["band"], 2: ["at_least"], 3: ["at_most"]},
        {0: ["point"], 2: ["point"], 3: ["point", "null"]},
        {1: ["at_least"]},
        {1: ["at_most"]},
    ],
)
def test_equalities_with_other_bounds(shapes):
    rng = np.random.default_rng(5)
    sizes = [40, 1_000_000, 1_000_000, 2**31 - 1]
    groups = [random_group(rng, sizes, 2000, shapes)]
    assert_agrees(groups, sizes, random_codes(rng, groups, sizes, 400))


MOSTLY_BANDS = ["band"] * 20 + ["wide", "at_least", "at_most", "point", "null", "any"]


@pytest.mark.parametrize("sizes", [[1_000_000] * 3, [2**31 - 1] * 5, [40, 1000, 5]])
def test_rare_kinds_among_common_ones(sizes):
    rng = np.random.default_rng(11)
    groups = [random_group(rng, sizes, 2000, dict.fromkeys(range(len(sizes)), MOSTLY_BANDS))]
    assert_agrees(groups, sizes, random_codes(rng, groups, sizes, 400))


def test_crowded_and_equal_boxes():
    rng = np.random.default_rng(12)
    sizes = [1_000_000] * 2
    lo = (500_000 + rng.integers(0, 50, (3000, 2))).astype(np.int32)
    lo[1000:2000] = lo[0]
    groups = [BoxGroup((0, 1), lo, lo + np.int32(20), np.arange(3000, dtype=np.int32))]
    codes = (500_000 + rng.integers(-10, 90, (2, 300))).astype(np.int32)
    assert_agrees(groups, sizes, codes)


def test_groups_of_one_signature_share_a_class():
    groups = [
        BoxGroup(
            (0,), np.array([[i]], np.int32), np.array([[i]], np.int32), np.array([i], np.int32)
        )
        for i in range(200)
    ]
    codes = np.arange(-1, 200, dtype=np.int32).reshape(1, -1)
    assert assert_agrees(groups, [200], codes).class_count == 1


def test_a_dimension_without_codes_knows_only_null():
    lo, hi = np.array([[-1], [0]], np.int32), np.array([[-1], [NO_UPPER_BOUND]], np.int32)
    groups = [BoxGroup((0,), lo, hi, np.array([1, 2], np.int32))]
    assert_agrees(groups, [0], np.array([[-1, -1]], np.int32))


def test_sparse_keys_are_hashed():
    rng = np.random.default_rng(6)
    sizes = [2**31 - 1, 2**31 - 1, 2**31 - 1]  # not all three fit into a cell number
    groups = [random_group(rng, sizes, 500, {0: ["point"], 1: ["point"], 2: ["point"]})]
    codes = random_codes(rng, groups, sizes, 300)
    codes[:, :100] = groups[0].lo[:100].T  # otherwise three equalities would hardly ever meet
    index = assert_agrees(groups, sizes, codes)
    assert len(index.slot_keys) >= 500
    assert index.nbytes < 500 * 200


def test_many_small_signatures_share_classes():
    rng = np.random.default_rng(7)
    sizes = [50] * 9
    groups = []
    for _ in range(120):
        dims = rng.choice(9, int(rng.integers(1, 5)), replace=False)
        shapes = {int(d): [SHAPES[int(rng.integers(len(SHAPES)))]] for d in dims}
        groups.append(random_group(rng, sizes, int(rng.integers(1, 12)), shapes))
    index = assert_agrees(groups, sizes, random_codes(rng, groups, sizes, 300))
    assert index.class_count < 40


def test_one_box_over_everything_does_not_spoil_the_grid():
    rng = np.random.default_rng(8)
    n, sizes = 100_000, [1_000_000] * 3
    lo = rng.integers(0, 999_000, (n + 1, 3)).astype(np.int32)
    hi = (lo + rng.integers(0, 1000, (n + 1, 3))).astype(np.int32)
    lo[n], hi[n] = 0, 999_999
    groups = [BoxGroup((0, 1, 2), lo, hi, np.arange(n + 1, dtype=np.int32))]
    codes = rng.integers(-1, 1_000_000, (3, 40)).astype(np.int32)
    codes[:, :20] = lo[:20].T
    index = assert_agrees(groups, sizes, codes)
    assert index.entry_count < 8 * n


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_wide_and_narrow_boxes_together_stay_bounded(share):
    rng = np.random.default_rng(9)
    n, sizes = 20_000, [1_000_000] * 2
    width = np.where(rng.random((n, 1)) < share, 600_000, 300)
    lo = (rng.random((n, 2)) * (1_000_000 - width)).astype(np.int32)
    hi = (lo + width).astype(np.int32)
    groups = [BoxGroup((0, 1), lo, hi, np.arange(n, dtype=np.int32))]
    codes = rng.integers(0, 1_000_000, (2, 60)).astype(np.int32)
    index = assert_agrees(groups, sizes, codes)
    assert index.entry_count <= CELLS_PER_BOX_MAX * n


def test_the_output_grows_as_needed():
    rng = np.random.default_rng(10)
    n = 5000
    ids = np.arange(n, dtype=np.int32)
    lo = rng.integers(0, 100, (n, 1)).astype(np.int32)
    groups = [
        BoxGroup((), np.empty((n, 0), np.int32), np.empty((n, 0), np.int32), ids),
        BoxGroup((0,), lo, np.full_like(lo, NO_UPPER_BOUND), ids + n),
    ]
    codes = rng.integers(-1, 100, (1, 300)).astype(np.int32)
    index = build_classes(groups, [100])
    expected = per_event(match_boxes(groups, codes))
    # One event alone exceeds the buffer, so it grows several times on the way.
    for size in (0, 1, 6000):
        assert per_event(index.match(codes, buffer=np.empty(size, np.int32))) == expected
    roomy = np.empty(n * 2 * 300, np.int32)
    assert np.shares_memory(index.match(codes, buffer=roomy)[1], roomy)


def test_no_boxes_and_no_events():
    index = build_classes([], [4, 4])
    offsets, ids = index.match(np.zeros((2, 3), np.int32))
    assert offsets.tolist() == [0, 0, 0, 0] and len(ids) == 0
    assert build_classes([], []).match(np.zeros((0, 5), np.int32))[0].tolist() == [0] * 6


def test_bounds_beyond_the_dimension_match_nothing():
    group = BoxGroup(
        (0,), np.array([[7]], np.int32), np.array([[9]], np.int32), np.array([1], np.int32)
    )
    assert build_classes([group], [5]).match(np.array([[-1, 0, 4]], np.int32))[1].size == 0


def test_codes_out_of_range_are_refused():
    index = build_classes([], [5])
    with pytest.raises(AssertionError):
        index.match(np.array([[5]], np.int32))
    with pytest.raises(AssertionError):
        index.match(np.array([[-2]], np.int32))
