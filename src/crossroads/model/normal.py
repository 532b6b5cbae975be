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
from crossroads.model.filter import (
    And,
    Attr,
    Constant,
    Filter,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    TextTest,
)
from crossroads.model.intervals import ValueSet, all_values, value_set
from crossroads.model.like import parse_like
from crossroads.model.types import STRING, Key, successor

BOXES_MAX = 64  # alternatives of one filter the index keeps apart before it takes hulls
ABSORBED_MAX = 256  # alternatives compared pair by pair to drop those within another
# What one filter may cost: the sides and intervals of all pairs of alternatives ever combined or
# compared, at up to a microsecond each. The longest list of constants takes a seventh; a
# product of long lists would take minutes, so beyond it sets become hulls and boxes become few.
WORK_MAX = 1_500_000
MERGED_MAX = 4_000_000  # sides looked at to merge alternatives; beyond it they stay apart

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
            _side_within(self.box, dimension, wide) for dimension, wide in other.box.items()
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
    """At most `max_boxes` alternatives; hulls where there would be more, or too much work."""
    assert max_boxes >= 1
    alternatives, exact = _alternatives(filter_, True, _Limits(max_boxes))
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


def _side_within(box: Box, dimension: Dimension, wide: ValueSet) -> bool:
    """Do the values of everything in the box lie in the set?"""
    if dimension in box:
        return wide.contains(box[dimension])
    # The same text read the other way says whether it is NULL, and all if it names whole texts.
    narrow = box.get(Dimension(dimension.attribute, not dimension.backwards))
    if narrow is None or (narrow.null and not wide.null):
        return False
    texts = narrow.points
    if texts is not None:
        return all(wide.has(_backwards(text)) for text in texts)
    return wide.intervals == all_values(wide.type).intervals


def _backwards(text: Key) -> Key:
    assert isinstance(text, bytes)
    return text[::-1]


@dataclass(slots=True)
class _Limits:
    """Of one call of `cover`: the alternatives kept apart, and the work that is left."""

    most: int
    work: int = field(default_factory=lambda: WORK_MAX)

    def spend(self, cost: int) -> bool:
        """Is there enough left? Then it is spent."""
        affordable = cost <= self.work
        if affordable:
            self.work -= cost
        return affordable


def _alternatives(filter_: Filter, wanted: bool, limits: _Limits) -> tuple[list[Conjunction], bool]:
    match filter_:
        case Not(part):
            return _alternatives(part, not wanted, limits)
        case Constant(value):
            return ([Conjunction(ANYTHING)] if value is wanted else []), True
        case And(parts):
            combine = _all if wanted else _any
        case Or(parts):
            combine = _any if wanted else _all
        case _:
            return _leaf(filter_, wanted), True
    return combine([_alternatives(part, wanted, limits) for part in parts], limits)


def _leaf(predicate: Predicate, wanted: bool) -> list[Conjunction]:
    exact = atom(predicate)
    if exact is not None:
        values = exact.true if wanted else exact.false
        if not values:
            return []
        return [Conjunction(ANYTHING if values.is_everything else {exact.dimension: values})]
    box = _meet(necessary(predicate) if wanted else known(predicate))
    return [] if box is None else [Conjunction(box, _checks(predicate, wanted))]


def _checks(predicate: Predicate, wanted: bool) -> frozenset[Check]:
    """`LIKE '%x%'` asks what `contains` asks; `LIKE 'a%bc_d'` asks it too, among other things,
    and what it asks of plain text is what an event can be found by."""
    match predicate:
        case Like(Attr() as attr, Literal(str(pattern)), escape):
            like = parse_like(pattern, escape)
            if like.contains:
                return frozenset({Check(_contains(attr, like.contains), wanted)})
            if wanted and like.literals:
                longest = max(like.literals, key=lambda text: (len(text), text))
                return frozenset({Check(predicate, True), Check(_contains(attr, longest), True)})
    return frozenset({Check(predicate, wanted)})


def _contains(attr: Attr, text: str) -> Predicate:
    return TextTest("contains", attr, Literal(text, STRING))


_Found = tuple[list[Conjunction], bool]


def _any(parts: list[_Found], limits: _Limits) -> _Found:
    found = _merged([one for alternatives, _ in parts for one in alternatives], limits)
    return _few(found, all(exact for _, exact in parts), limits)


def _all(parts: list[_Found], limits: _Limits) -> _Found:
    """Two by two, like a knock-out cup: long chains on one attribute stay cheap that way."""
    left = sorted(parts, key=lambda part: len(part[0]))
    while len(left) > 1:
        paired = [
            _both(one, other, limits) for one, other in zip(left[::2], left[1::2], strict=False)
        ]
        left = paired + left[len(left) - len(left) % 2 :]
    return left[0]


def _both(one: _Found, other: _Found, limits: _Limits) -> _Found:
    one, other = _affordable(one, other, limits)
    found = _merged(
        [
            Conjunction(box, mine.checks | theirs.checks)
            for mine in one[0]
            for theirs in other[0]
            if (box := _meet([*mine.box.items(), *theirs.box.items()])) is not None
        ],
        limits,
    )
    if not found:
        return [], True  # not even the supersets meet
    return _few(found, one[1] and other[1], limits)


def _few(found: list[Conjunction], exact: bool, limits: _Limits) -> _Found:
    few = len(found) <= limits.most
    return (found, exact) if few else (_hulls(found, limits.most), False)


def _affordable(one: _Found, other: _Found, limits: _Limits) -> tuple[_Found, _Found]:
    """Both, or supersets of them that cost less to combine: fewer intervals, then fewer boxes."""
    if limits.spend(_cost(one, other)):
        return one, other
    one, other = _widened(one), _widened(other)
    if limits.spend(_cost(one, other)):
        return one, other
    return _single(one), _single(other)  # as cheap as reading them


def _cost(one: _Found, other: _Found) -> int:
    return _size(one[0]) * len(other[0]) + _size(other[0]) * len(one[0])


def _size(found: list[Conjunction]) -> int:
    """Sides and their intervals; an alternative without sides counts as well."""
    return sum(
        1 + sum(1 + len(values.intervals) for values in conjunction.box.values())
        for conjunction in found
    )


def _widened(found: _Found) -> _Found:
    """The hull of every set of values."""
    wide: list[Conjunction] = []
    exact = found[1]
    for conjunction in found[0]:
        if any(len(values.intervals) > 1 for values in conjunction.box.values()):
            exact = False
            hulls = {dimension: values.hull() for dimension, values in conjunction.box.items()}
            box = {d: values for d, values in hulls.items() if not values.is_everything}
            conjunction = Conjunction(box, conjunction.checks)
        wide.append(conjunction)
    return wide, exact


def _single(found: _Found) -> _Found:
    return found if len(found[0]) <= 1 else ([_hull(found[0])], False)


def _meet(sides: Iterable[tuple[Dimension, ValueSet]]) -> Box | None:
    """The box of everything in all of them; None if it is empty."""
    box: dict[Dimension, ValueSet] = {}
    for dimension, values in sides:
        both = box[dimension].intersection(values) if dimension in box else values
        if not both:
            return None
        box[dimension] = both
    for dimension in [one for one in box if one.backwards]:
        forwards = Dimension(dimension.attribute)
        if forwards in box:
            kept = _whole_texts(box[forwards], box[dimension])
            if kept is None:
                continue
            if not kept:
                return None
            box[forwards] = kept
            del box[dimension]
    return box


def _whole_texts(forwards: ValueSet, backwards: ValueSet) -> ValueSet | None:
    """Where whole texts are named, what they end with needs no second dimension."""
    texts = forwards.points
    if texts is None:
        return None
    kept = [(text, successor(text)) for text in texts if backwards.has(_backwards(text))]
    return value_set(forwards.type, kept, forwards.null and backwards.null)


def _merged(found: list[Conjunction], limits: _Limits) -> list[Conjunction]:
    """Alternatives that differ in one dimension only become one: `a < 3 OR a > 7` is one box.

    By hashing, not pair by pair: a filter may have thousands of alternatives.
    """
    if len(found) < 2:
        return found
    if sum(len(one.box) ** 2 for one in found) <= MERGED_MAX:
        found = _Merger(found).merged()
    if len(found) <= ABSORBED_MAX and limits.spend(len(found) * _size(found)):
        return _absorbed(found)
    return found


_Key = tuple[frozenset[Check], frozenset[int]]  # the checks, and the sides by their numbers


class _Merger:
    """Merges along one dimension after the other, each time among those that have it."""

    def __init__(self, found: list[Conjunction]) -> None:
        self.numbers: dict[tuple[Dimension, ValueSet], int] = {}
        # Long sets are slow to hash and many alternatives share one; held, so that no other set
        # can come to have its id.
        self.seen: dict[tuple[Dimension, int], tuple[ValueSet, int]] = {}
        self.alive: dict[_Key, Conjunction] = {}  # equal ones become one here
        for one in found:
            self.alive.setdefault(self.key(one), one)

    def key(self, one: Conjunction) -> _Key:
        return one.checks, frozenset(self.number(d, values) for d, values in one.box.items())

    def number(self, dimension: Dimension, values: ValueSet) -> int:
        known = self.seen.get((dimension, id(values)))
        if known is None:
            number = self.numbers.setdefault((dimension, values), len(self.numbers))
            known = self.seen[dimension, id(values)] = values, number
        return known[1]

    def merged(self) -> list[Conjunction]:
        having: dict[Dimension, dict[_Key, None]] = {}  # in order, and none twice
        for key, one in self.alive.items():
            for dimension in one.box:
                having.setdefault(dimension, {})[key] = None
        for dimension in list(having):
            for key in self.merge_along(dimension, having.pop(dimension)):
                for other in self.alive[key].box:  # made just now: listed where it is yet to come
                    if other in having:
                        having[other][key] = None
        return list(self.alive.values())

    def merge_along(self, dimension: Dimension, keys: Iterable[_Key]) -> list[_Key]:
        """Those alike in all but this dimension, with the union of their values in it."""
        alike: dict[_Key, list[_Key]] = {}
        for key in keys:
            if key in self.alive:
                side = self.number(dimension, self.alive[key].box[dimension])
                alike.setdefault((key[0], key[1] - {side}), []).append(key)
        made: list[_Key] = []
        for rest, group in alike.items():
            if rest in self.alive:  # allows anything in this dimension
                for key in group:
                    del self.alive[key]
            elif len(group) > 1:
                union = _union_along(dimension, [self.alive.pop(key) for key in group])
                made.append(self.key(union))
                self.alive[made[-1]] = union
        return made


def _union_along(dimension: Dimension, group: list[Conjunction]) -> Conjunction:
    box = dict(group[0].box)
    sides = [one.box[dimension] for one in group]
    values = value_set(
        sides[0].type,
        [interval for side in sides for interval in side.intervals],
        any(side.null for side in sides),
    )
    if values.is_everything:
        del box[dimension]
    else:
        box[dimension] = values
    return Conjunction(box, group[0].checks)


def _absorbed(found: list[Conjunction]) -> list[Conjunction]:
    """Without those that lie within another."""
    kept: list[Conjunction] = []
    for one in found:
        if not any(one.within(other) for other in kept):
            kept = [other for other in kept if not other.within(one)]
            kept.append(one)
    return kept


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
