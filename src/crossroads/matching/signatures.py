"""Boxes sorted by how they constrain their dimensions, so that each class is of one kind.

Equalities, one-sided bounds and two-sided ranges are served by different structures; boxes of
one kind share a class. But every class costs every event a probe, so small kinds are folded
into larger, more general ones, at the price of verifying more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from crossroads.matching.boxes import BoxGroup, Int32Array, Int64Array
from crossroads.matching.class_plan import Boxes, count_words
from crossroads.matching.kernels import Array
from crossroads.matching.pieces import in_pieces
from crossroads.model.compiled import compiled

SMALL = 16  # boxes: fewer do not deserve a probe of their own
KINDS_MAX = 48  # sets of boxes with a class of their own; further ones are merged
FOLD_RATIO = 4  # a kind this much rarer than one that can hold it is folded into that
SELECTIVE_SHARE = 0.15  # of a dimension: narrower ranges are worth a grid
WORDS_MAX = 6  # bound words of a merged class: more dimensions start another one

# What a range is, as bits, because it may be several at once: the last code of a dimension is
# a point and also everything from itself on. No bit: a two-sided range.
POINT, AT_LEAST, AT_MOST, FREE = 1, 2, 4, 8
KIND_BITS = 4
COLUMNS_PER_CODE = 12  # kinds that fit into an int64 beside the number of the columns before


def normalised(group: BoxGroup, dim_sizes: Sequence[int], threads: int = 1) -> Boxes:
    """Bounds as code + 1 within 0..size, without boxes that no code can match."""
    sizes = tuple(int(dim_sizes[d]) for d in group.dims)
    given = np.asarray(group.lo, np.int32), np.asarray(group.hi, np.int32)
    lo, hi = np.empty(given[0].shape, np.int32), np.empty(given[0].shape, np.int32)
    possible = np.empty(len(lo), np.bool_)
    in_pieces(threads, _clip, len(lo), *given, np.array(sizes, np.int32), lo, hi, possible)
    boxes = Boxes(group.dims, sizes, lo, hi, np.asarray(group.ids, dtype=np.int32))
    return boxes if possible.all() else boxes.take(possible)


@compiled
def _clip(
    lo: Array,
    hi: Array,
    sizes: Array,
    new_lo: Array,
    new_hi: Array,
    possible: Array,
    begin: int,
    end: int,
) -> None:
    """Both bounds shifted and clipped, and whether anything lies between them."""
    for i in range(begin, end):
        fits = True
        for d in range(sizes.size):
            size = sizes[d]
            low = min(max(lo[i, d], -1), size) + 1
            high = min(hi[i, d], size - 1) + 1
            fits &= low <= high
            new_lo[i, d], new_hi[i, d] = low, high
        possible[i] = fits


def one_group_per_signature(groups: Iterable[BoxGroup]) -> list[BoxGroup]:
    """Join groups that constrain the same dimensions: each would cost a probe of its own."""
    by_dims: dict[tuple[int, ...], list[BoxGroup]] = {}
    for group in groups:
        by_dims.setdefault(group.dims, []).append(group)
    return [
        same[0]
        if len(same) == 1
        else BoxGroup(
            dims,
            np.concatenate([group.lo for group in same]),
            np.concatenate([group.hi for group in same]),
            np.concatenate([group.ids for group in same]),
        )
        for dims, same in by_dims.items()
    ]


def split_by_kind(boxes: Boxes, threads: int = 1) -> list[Boxes]:
    """One set per combination of kinds; rare combinations join a common one that holds them."""
    if len(boxes.ids) == 0:
        return []
    kinds, row_kind, counts = _distinct_kinds(boxes, threads)
    homes = _fold(kinds, counts)
    if (homes == homes[0]).all():
        return [_without_free_columns(boxes)]
    home = homes[row_kind]
    order = np.argsort(home, kind="stable")
    sorted_boxes = boxes.take(order)
    ends = np.flatnonzero(np.diff(home[order], append=-1)) + 1
    parts = (sorted_boxes.slice(a, b) for a, b in pairwise([0, *ends.tolist()]))
    return [_without_free_columns(part) for part in parts]


def _fold(kinds: npt.NDArray[np.uint8], counts: Int64Array) -> Int64Array:
    """For each combination of kinds the one whose class it goes to.

    A class keeps its structure when a newcomer is, in every dimension, at least what the class
    is. Dimensions that a box leaves free are no such thing: it would lie in every cell.
    """
    home = np.arange(len(kinds))
    likeness = np.full(len(kinds), -1)  # of the class chosen so far: how specific it is
    commonest_first = np.argsort(-counts, kind="stable")
    for head in commonest_first[:KINDS_MAX].tolist():
        if likeness[head] >= 0:
            continue  # folded itself
        own = kinds[head]
        holds = ((own & ~kinds) == 0).all(axis=1) & (((own ^ kinds) & FREE) == 0).all(axis=1)
        specific = int(np.bitwise_count(own).sum())
        better = holds & (counts * FOLD_RATIO <= counts[head]) & (likeness < specific)
        home[better], likeness[better] = head, specific
    return home


def merge_small(sets: Iterable[Boxes]) -> list[Boxes]:
    """Join small sets by widening absent dimensions, so that they share one probe.

    Sets that share an equality come together first, then those that share a selective range:
    that dimension still leads an event to few of them.
    """
    ordered = sorted(sets, key=lambda boxes: -len(boxes.ids))
    large = [b for b in ordered[:KINDS_MAX] if len(b.ids) >= SMALL or not b.dims]
    small = [b for b in ordered[:KINDS_MAX] if len(b.ids) < SMALL and b.dims] + ordered[KINDS_MAX:]
    for share_max in (0.0, SELECTIVE_SHARE):
        anchors = {id(b): _selective_dims(b, share_max) for b in small}
        while weight := _rows_per_dim(small, anchors):
            shared = min(weight, key=lambda d: (-weight[d], d))
            large.extend(map(_join, _bins([b for b in small if shared in anchors[id(b)]])))
            small = [b for b in small if shared not in anchors[id(b)]]
    large.extend(map(_join, _bins(small)))
    return large


def _selective_dims(boxes: Boxes, share_max: float) -> list[int]:
    """Dimensions of which the average range takes at most this share; 0 means equalities."""
    widths = boxes.hi.astype(np.int64) - boxes.lo
    shares = widths.mean(axis=0) / np.maximum(1, boxes.sizes)
    return [d for d, share in zip(boxes.dims, shares.tolist(), strict=True) if share <= share_max]


def _rows_per_dim(sets: list[Boxes], anchors: dict[int, list[int]]) -> dict[int, int]:
    rows: dict[int, int] = {}
    for boxes in sets:
        for d in anchors[id(boxes)]:
            rows[d] = rows.get(d, 0) + len(boxes.ids)
    return rows


@compiled
def _kind(low: int, high: int, size: int) -> int:
    kind = POINT * (low == high) | AT_LEAST * (high == size)
    kind |= AT_MOST * (low == 1)  # leaves out NULL and nothing else below
    return kind | FREE * (low == 0 and high == size)


@compiled
def _kinds(lo: Array, hi: Array, sizes: Array) -> Array:
    kinds = np.empty(lo.shape, np.uint8)
    for i in range(lo.shape[0]):
        for c in range(sizes.size):
            kinds[i, c] = _kind(lo[i, c], hi[i, c], sizes[c])
    return kinds


@compiled
def _add_kinds(
    lo: Array, hi: Array, sizes: Array, columns: Array, codes: Array, begin: int, end: int
) -> None:
    """Append the kinds of some columns to the code of every box."""
    for i in range(begin, end):
        code = codes[i]
        for c in columns:
            code = (code << KIND_BITS) | _kind(lo[i, c], hi[i, c], sizes[c])
        codes[i] = code


def _distinct_kinds(
    boxes: Boxes, threads: int
) -> tuple[npt.NDArray[np.uint8], Int64Array, Int64Array]:
    """Distinct combinations of kinds, which one each box has, and how often each occurs."""
    rows, columns = boxes.lo.shape
    sizes = np.array(boxes.sizes, np.int32)
    number = np.zeros(rows, np.int64)
    first, counts = np.zeros(1, np.int64), np.array([rows])
    for begin in range(0, columns, COLUMNS_PER_CODE):
        some = np.arange(begin, min(begin + COLUMNS_PER_CODE, columns))
        in_pieces(threads, _add_kinds, rows, boxes.lo, boxes.hi, sizes, some, number)
        if (number == number[0]).all():
            number[:] = 0
            continue  # spares the sort in the most common case
        _, first, number, counts = np.unique(
            number, return_index=True, return_inverse=True, return_counts=True
        )
    return _kinds(boxes.lo[first], boxes.hi[first], sizes), number, counts


def _without_free_columns(boxes: Boxes) -> Boxes:
    free = {
        c
        for c, size in enumerate(boxes.sizes)
        # The first box alone says no for nearly every column.
        if boxes.lo[0, c] == 0
        and boxes.hi[0, c] == size
        and bool(((boxes.lo[:, c] == 0) & (boxes.hi[:, c] == size)).all())
    }
    if not free:
        return boxes
    keep = [c for c in range(len(boxes.dims)) if c not in free]
    return Boxes(
        tuple(boxes.dims[c] for c in keep),
        tuple(boxes.sizes[c] for c in keep),
        np.ascontiguousarray(boxes.lo[:, keep]),
        np.ascontiguousarray(boxes.hi[:, keep]),
        boxes.ids,
    )


def _bins(sets: list[Boxes]) -> list[list[Boxes]]:
    """Consecutive sets whose united dimensions can be verified in few words."""
    bins: list[list[Boxes]] = []
    united: dict[int, int] = {}
    for boxes in sets:
        more = united | dict(zip(boxes.dims, boxes.sizes, strict=True))
        if bins and count_words([size.bit_length() for size in more.values()]) <= WORDS_MAX:
            bins[-1].append(boxes)
            united = more
        else:
            bins.append([boxes])
            united = dict(zip(boxes.dims, boxes.sizes, strict=True))
    return bins


def _join(sets: list[Boxes]) -> Boxes:
    """One set over the united dimensions; a box spans all of a dimension it did not mention."""
    if len(sets) == 1:
        return sets[0]
    sizes = {d: s for boxes in sets for d, s in zip(boxes.dims, boxes.sizes, strict=True)}
    dims = tuple(sorted(sizes))
    column = {d: c for c, d in enumerate(dims)}
    rows = sum(len(boxes.ids) for boxes in sets)
    lo: Int32Array = np.zeros((rows, len(dims)), dtype=np.int32)
    hi: Int32Array = np.empty((rows, len(dims)), dtype=np.int32)
    hi[:] = [sizes[d] for d in dims]
    at = 0
    for boxes in sets:
        rows_here = slice(at, at + len(boxes.ids))
        columns = [column[d] for d in boxes.dims]
        lo[rows_here, columns], hi[rows_here, columns] = boxes.lo, boxes.hi
        at += len(boxes.ids)
    ids = np.concatenate([boxes.ids for boxes in sets])
    return Boxes(dims, tuple(sizes[d] for d in dims), lo, hi, ids)
