"""The normal form: NOT pushed down, NULL accounted for, then alternatives of boxes.

"Is the filter true?" and "is it false?" are two questions, and NOT exchanges them: pushed down to
the leaves, neither needs a third value any more, because each leaf carries its own true-set and
false-set. A **conjunction** is a box (per dimension a set of values; absent means anything, NULL
too) and the **checks** that no box can express, such as `close > open`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from crossroads.model.atoms import Dimension, atom, known, necessary
from crossroads.model.filter import And, Constant, Filter, Not, Or, Predicate
from crossroads.model.intervals import ValueSet

BOXES_MAX = 64  # alternatives of one filter the index keeps apart before it takes hulls

Box = Mapping[Dimension, ValueSet]
ANYTHING: Box = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Check:
    """The predicate must be true (or false); unknown is neither."""

    predicate: Predicate
    wanted: bool


@dataclass(frozen=True)
class Conjunction:
    box: Box
    checks: frozenset[Check] = field(default_factory=frozenset)

    @property
    def is_everything(self) -> bool:
        return not self.box and not self.checks

    def within(self, other: Conjunction) -> bool:
        """Whatever satisfies this one satisfies the other (sound; complete without checks)."""
        return other.checks <= self.checks and all(
            dimension in self.box and wide.contains(self.box[dimension])
            for dimension, wide in other.box.items()
        )


@dataclass(frozen=True, slots=True)
class Cover:
    """Alternatives that together hold every event the filter matches.

    `exact`: an event satisfies one of them exactly when the filter matches it. Otherwise they are a
    superset, and the filter itself decides.
    """

    alternatives: tuple[Conjunction, ...]
    exact: bool


def cover(filter_: Filter, max_boxes: int = BOXES_MAX) -> Cover:
    """At most `max_boxes` alternatives; hulls where there would be more."""
    assert max_boxes >= 1
    alternatives, exact = _alternatives(filter_, True, max_boxes)
    return Cover(tuple(alternatives), exact)


def never_matches(filter_: Filter) -> bool:
    """Provably true of no event. (Sound: a filter may be impossible without our seeing it.)"""
    return not cover(filter_).alternatives


def always_matches(filter_: Filter) -> bool:
    """Provably true of every event."""
    found = cover(filter_)
    return found.exact and any(one.is_everything for one in found.alternatives)


def covers(wide: Filter, narrow: Filter) -> bool:
    """Does every event that matches `narrow` match `wide`? Sound, and complete for single boxes."""
    if wide == narrow:
        return True
    outer, inner = cover(wide), cover(narrow)
    return outer.exact and all(
        any(one.within(other) for other in outer.alternatives) for one in inner.alternatives
    )


def _alternatives(filter_: Filter, wanted: bool, most: int) -> tuple[list[Conjunction], bool]:
    match filter_:
        case Not(part):
            return _alternatives(part, not wanted, most)
        case Constant(value):
            return ([Conjunction(ANYTHING)] if value is wanted else []), True
        case And(parts):
            combine = _all if wanted else _any
        case Or(parts):
            combine = _any if wanted else _all
        case _:
            return _leaf(filter_, wanted), True
    return combine([_alternatives(part, wanted, most) for part in parts], most)


def _leaf(predicate: Predicate, wanted: bool) -> list[Conjunction]:
    exact = atom(predicate)
    if exact is not None:
        values = exact.true if wanted else exact.false
        if not values:
            return []
        return [Conjunction(ANYTHING if values.is_everything else {exact.dimension: values})]
    checks = frozenset({Check(predicate, wanted)})
    box = _meet(necessary(predicate) if wanted else known(predicate))
    return [] if box is None else [Conjunction(box, checks)]


_Found = tuple[list[Conjunction], bool]


def _any(parts: list[_Found], most: int) -> _Found:
    found = _merged([one for alternatives, _ in parts for one in alternatives])
    exact = all(exact for _, exact in parts)
    return (found, exact) if len(found) <= most else (_hulls(found, most), False)


def _all(parts: list[_Found], most: int) -> _Found:
    found = [Conjunction(ANYTHING)]
    exact = True
    for alternatives, part_exact in sorted(parts, key=lambda part: len(part[0])):
        exact = exact and part_exact
        found = [
            Conjunction(box, one.checks | other.checks)
            for one in found
            for other in alternatives
            if (box := _meet([*one.box.items(), *other.box.items()])) is not None
        ]
        found = _merged(found)
        if len(found) > most:
            found, exact = _hulls(found, most), False
    return found, exact


def _meet(sides: Iterable[tuple[Dimension, ValueSet]]) -> Box | None:
    """The box of everything in all of them; None if it is empty."""
    box: dict[Dimension, ValueSet] = {}
    for dimension, values in sides:
        if dimension in box:
            values = box[dimension].intersection(values)  # noqa: PLW2901
        if not values:
            return None
        box[dimension] = values
    return box


def _merged(found: list[Conjunction]) -> list[Conjunction]:
    """Alternatives that differ in one dimension only become one: `a < 3 OR a > 7` is one box."""
    if len(found) < 2:
        return found
    merged: list[Conjunction] = []
    for one in found:
        for at, other in enumerate(merged):
            union = _union(one, other)
            if union is not None:
                merged[at] = union
                break
        else:
            merged.append(one)
    return merged


def _union(one: Conjunction, other: Conjunction) -> Conjunction | None:
    if one.checks != other.checks:
        return None
    if one.within(other):
        return other
    if other.within(one):
        return one
    if one.box.keys() != other.box.keys():
        return None
    differing = [d for d in one.box if one.box[d] != other.box[d]]
    if len(differing) != 1:
        return None
    dimension = differing[0]
    values = one.box[dimension].union(other.box[dimension])
    box = dict(one.box)
    if values.is_everything:
        del box[dimension]
    else:
        box[dimension] = values
    return Conjunction(box, one.checks)


def _hulls(found: list[Conjunction], most: int) -> list[Conjunction]:
    """Neighbours joined until there are few enough: a superset, so checks are dropped."""
    size = -(-len(found) // most)
    return [_hull(found[at : at + size]) for at in range(0, len(found), size)]


def _hull(found: list[Conjunction]) -> Conjunction:
    box: dict[Dimension, ValueSet] = dict(found[0].box)
    for other in found[1:]:
        for dimension in list(box):
            values = other.box.get(dimension)
            joined = box[dimension].union(values).hull() if values is not None else None
            if joined is None or joined.is_everything:
                del box[dimension]
            else:
                box[dimension] = joined
    return Conjunction(box)
