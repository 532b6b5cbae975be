"""A filter as alternatives of single intervals, kept apart as they are written.

The plain twin of `model.columnar`: that one reads a whole shape, this one a filter by itself, and
both see the same alternatives (`a IN (1, 2)` is two, `a <> 1` is two), so that a subscription gets
the same boxes whichever way it came. The normal form would merge them, and merge them differently
for different constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from crossroads.model.atoms import Dimension, atom, equal_range, known, necessary
from crossroads.model.columnar import ALTERNATIVES_MAX, OPPOSITE, TooManyAlternatives
from crossroads.model.filter import (
    MIRRORED,
    And,
    Attr,
    Cast,
    Compare,
    Comparison,
    Constant,
    Filter,
    In,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
)
from crossroads.model.intervals import Interval, ValueSet, all_values, only_null, value_set
from crossroads.model.normal import Box, cover
from crossroads.model.types import Key, Type, key_bounds


def alternatives_of(filter_: Filter) -> list[Box]:
    """As written; where those would be too many, as the normal form covers them."""
    try:
        return written_boxes(filter_)
    except TooManyAlternatives:
        return [one.box for one in cover(filter_).alternatives]


def written_boxes(filter_: Filter) -> list[Box]:
    """Raises TooManyAlternatives; where the columns of a shape do not, this does not."""
    return _boxes(filter_, True)


def _boxes(filter_: Filter, wanted: bool) -> list[Box]:
    match filter_:
        case Not(part):
            return _boxes(part, not wanted)
        case And(parts) | Or(parts):
            found = [_boxes(part, wanted) for part in parts]
            return _all(found) if isinstance(filter_, And) is wanted else _any(found)
        case _:
            return _few(_leaf(filter_, wanted))


def _any(found: list[list[Box]]) -> list[Box]:
    return _few([box for part in found for box in part])


def _all(found: list[list[Box]]) -> list[Box]:
    boxes: list[Box] = [{}]
    for part in found:
        met = [_meet([*one.items(), *other.items()]) for one, other in product(boxes, part)]
        boxes = _few([box for box in met if box is not None])
    return boxes


def _few(boxes: list[Box]) -> list[Box]:
    if len(boxes) > ALTERNATIVES_MAX:
        raise TooManyAlternatives
    return boxes


def _meet(sides: Iterable[tuple[Dimension, ValueSet]]) -> Box | None:
    box: dict[Dimension, ValueSet] = {}
    for dimension, values in sides:
        box[dimension] = box[dimension].intersection(values) if dimension in box else values
        if not box[dimension]:
            return None
    return box


def _leaf(predicate: Predicate, wanted: bool) -> list[Box]:
    match predicate:
        case Constant(value):
            return [{}] if value is wanted else []
        case Compare(op, left, Literal() as right) if attr := _attr(left):
            return _sides(attr, _comparison(attr.type, op, right, wanted))
        case Compare(op, Literal() as left, right) if attr := _attr(right):
            return _sides(attr, _comparison(attr.type, MIRRORED[op], left, wanted))
        case In(operand, options) if attr := _attr(operand):
            return _sides(attr, _membership(attr.type, options, wanted))
    exact = atom(predicate)
    if exact is None:
        box = _meet(necessary(predicate) if wanted else known(predicate))
        return [] if box is None else [box]
    values = exact.true if wanted else exact.false
    parts = [ValueSet(values.type, (interval,)) for interval in values.intervals]
    if values.null:
        parts.append(only_null(values.type))
    return [{exact.dimension: part} for part in parts]


def _attr(operand: Operand) -> Attr | None:
    inner = operand.operand if isinstance(operand, Cast) else operand
    return inner if isinstance(inner, Attr) else None


def _sides(attr: Attr, parts: list[ValueSet]) -> list[Box]:
    return [{Dimension(attr.name): part} for part in parts if part]


def _comparison(type_: Type, op: Comparison, literal: Literal, wanted: bool) -> list[ValueSet]:
    if literal.value is None:
        if op != "<=>":
            return []
        return [only_null(type_) if wanted else all_values(type_)]
    least, beyond = key_bounds(type_)
    low, high = _equal_range(type_, literal)
    equal, less, more = (low, high), (least, low), (high, beyond)
    if op == "<=>":
        if wanted:
            return _stretches(type_, [equal])
        return [*_stretches(type_, [less, more]), only_null(type_)]
    parts: dict[Comparison, list[Interval]] = {
        "=": [equal],
        "<>": [less, more],
        "<": [less],
        "<=": [(least, high)],
        ">": [more],
        ">=": [(low, beyond)],
    }
    return _stretches(type_, parts[op if wanted else OPPOSITE[op]])


def _membership(type_: Type, options: tuple[Literal, ...], wanted: bool) -> list[ValueSet]:
    if not wanted and any(option.value is None for option in options):
        return []  # not found is unknown
    ranges = [_equal_range(type_, option) for option in options if option.value is not None]
    if wanted:
        return _stretches(type_, ranges)
    least, beyond = key_bounds(type_)
    ranges.sort()
    starts, ends = [least, *(end for _, end in ranges)], [*(low for low, _ in ranges), beyond]
    return _stretches(type_, zip(starts, ends, strict=True))


def _equal_range(type_: Type, literal: Literal) -> tuple[Key, Key]:
    low, high = equal_range(type_, literal)
    assert high is not None, "behind the key of a literal there is always another"
    return low, high


def _stretches(type_: Type, intervals: Iterable[Interval]) -> list[ValueSet]:
    """Those that are not empty."""
    return [found for interval in intervals if (found := value_set(type_, [interval]))]
