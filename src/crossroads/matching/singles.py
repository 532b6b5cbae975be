"""Filters that come one by one → boxes of single intervals, bounded in number.

The normal form has sets of values per dimension; the index wants intervals. Where the product of
the intervals would be large, dimensions are widened to their hull, and the filter itself is checked
for what the wider boxes find.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from crossroads.matching.definition import truth
from crossroads.model.atoms import Dimension
from crossroads.model.filter import (
    And,
    Constant,
    Filter,
    Not,
    Or,
    Predicate,
    attributes_of,
    operands,
    predicates,
)
from crossroads.model.instantiate import transform
from crossroads.model.intervals import Interval, ValueSet
from crossroads.model.normal import BOXES_MAX, Box, Check, Conjunction, cover

PRODUCT_MAX = 256  # boxes of one conjunction, if several dimensions have several intervals
# Combining two parts of an AND costs the product of their alternatives, and a long filter does it
# often: alternatives times predicates stay below this.
COMBINED_MAX = 512
ALTERNATIVES_MIN = 4
PAIRS_COMPARED_MAX = 4096  # pairs of alternatives tested for overlap; beyond, they may overlap

Sides = dict[Dimension, Interval | None]  # per dimension an interval of keys, or None for NULL


@dataclass(frozen=True, slots=True)
class SingleBox:
    """One box of one filter. `residual`: the filter, where the box says less than it."""

    owner: int
    sides: Sides
    checks: frozenset[Check]
    residual: Filter | None
    direct: bool  # emits its subscription at once: nothing to check, nothing to count twice


def boxes_of(owner: int, filter_: Filter) -> Iterator[SingleBox]:
    parts = _parts_of(folded(filter_))
    for part, most in parts:
        found = cover(part, most)
        bounded = [_bounded(one.box) for one in found.alternatives]
        # A box that was widened may overlap its neighbours, whatever they were before.
        same = all(exact for _, exact in bounded)
        apart = len(parts) == 1 and same and _apart(found.alternatives)
        for one, (box, same_box) in zip(found.alternatives, bounded, strict=True):
            exact = same_box and found.exact
            checks = one.checks if exact else frozenset()
            residual = None if exact else part
            direct = apart and exact and not checks
            for sides in _intervals(box):
                yield SingleBox(owner, sides, checks, residual, direct)


def _parts_of(filter_: Filter) -> list[tuple[Filter, int]]:
    """Filters of which one must hold, and how many alternatives each may have.

    A long OR has as many boxes as it lists, if what it lists is simple; the rest of it by itself.
    """
    if not isinstance(filter_, Or) or len(filter_.parts) <= BOXES_MAX:
        return [(filter_, _most(filter_))]
    simple = tuple(part for part in filter_.parts if _is_simple(part))
    found = [(part, _most(part)) for part in filter_.parts if not _is_simple(part)]
    return [(Or(simple), len(simple)), *found] if simple else found


def _most(filter_: Filter) -> int:
    leaves = sum(1 for _ in predicates(filter_))
    return min(BOXES_MAX, max(ALTERNATIVES_MIN, COMBINED_MAX // leaves))


def _is_simple(part: Filter) -> bool:
    """One alternative: a predicate, or several that must all hold."""
    if isinstance(part, And):
        return all(_is_simple(inner) for inner in part.parts)
    return not isinstance(part.part if isinstance(part, Not) else part, And | Or | Not)


def folded(filter_: Filter) -> Filter:
    """Predicates about no attribute (`1 = 1`) replaced by what they are for every event."""
    if all(isinstance(leaf, Constant) or _attributes(leaf) for leaf in predicates(filter_)):
        return filter_
    return transform(
        filter_,
        lambda leaf: (
            leaf if isinstance(leaf, Constant) or _attributes(leaf) else Constant(truth(leaf, {}))
        ),
    )


def _attributes(leaf: Predicate) -> bool:
    return any(True for operand in operands(leaf) for _ in attributes_of(operand))


def _bounded(box: Box) -> tuple[Box, bool]:
    """(the box or a wider one, whether it is the same): few enough products of intervals.

    One dimension alone may have as many intervals as the filter has constants.
    """
    widened = dict(box)
    while True:
        several = [d for d, values in widened.items() if _parts(values) > 1]
        if len(several) < 2 or math.prod(_parts(widened[d]) for d in several) <= PRODUCT_MAX:
            return widened, len(widened) == len(box) and widened == dict(box)
        # NOT IN fills its hull almost, IN hardly: least is lost where most is filled.
        fullest = max(several, key=lambda d: (_filled(widened[d]), _parts(widened[d])))
        hull = widened[fullest].hull()
        if _parts(hull) > 1:  # values and NULL: as good as anything
            del widened[fullest]
        else:
            widened[fullest] = hull


def _parts(values: ValueSet) -> int:
    return len(values.intervals) + values.null


def _filled(values: ValueSet) -> float:
    """Roughly the share of its hull that the set fills."""
    if len(values.intervals) < 2:
        return 1.0
    first, last = values.intervals[0][0], values.intervals[-1][1]
    if isinstance(first, int) and isinstance(last, int):
        inside = sum(int(high) - int(low) for low, high in values.intervals if high is not None)
        return float(inside / (last - first))
    return 1.0 if last is None else 0.0  # text has no widths: open at the end means NOT something


def _intervals(box: Box) -> Iterator[Sides]:
    sides: list[list[tuple[Dimension, Interval | None]]] = []
    for dimension, values in box.items():
        parts: list[Interval | None] = [*values.intervals]
        if values.null:
            parts.append(None)
        sides.append([(dimension, part) for part in parts])
    return (dict(chosen) for chosen in itertools.product(*sides))


def _apart(alternatives: tuple[Conjunction, ...]) -> bool:
    """No event lies in two of them. Boxes of one alternative never overlap: their intervals are
    those of one set each."""
    pairs = len(alternatives) * (len(alternatives) - 1) // 2
    return pairs <= PAIRS_COMPARED_MAX and all(
        any(
            not one.box[dimension].intersection(other.box[dimension])
            for dimension in one.box.keys() & other.box.keys()
        )
        for one, other in itertools.combinations(alternatives, 2)
    )
