"""One predicate on one attribute → exactly the values for which it is true, and false.

That is all a predicate says once NULL is accounted for: neither set holds the values (NULL, mostly)
for which it is unknown. Conversions are undone here: `bigint_attribute >= 1.5e0` compares
doubles in Spark, yet is an interval of bigints, because the conversions Spark makes silently never
reverse the order of two values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crossroads.model.coerce import cast_value
from crossroads.model.filter import (
    MIRRORED,
    Attr,
    Cast,
    Compare,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Operand,
    Predicate,
    TextTest,
    Truth,
    attributes_of,
    operands,
)
from crossroads.model.intervals import (
    ValueSet,
    all_values,
    at_least,
    below,
    nothing,
    only_null,
    point,
    value_set,
)
from crossroads.model.like import parse_like
from crossroads.model.types import BOOLEAN, Key, Type, after_prefix, from_key, key_bounds, to_key


@dataclass(frozen=True, slots=True, order=True)
class Dimension:
    """What a value set is about: an attribute, or the bytes of a text attribute read backwards,
    in which everything that ends alike lies together."""

    attribute: str
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Atom:
    """The two exact sets of values of one dimension."""

    dimension: Dimension
    true: ValueSet
    false: ValueSet


def atom(predicate: Predicate) -> Atom | None:
    """None: the predicate is about more than one attribute, or about no interval of values."""
    match predicate:
        case Truth(attr):
            return _atom(attr, point(BOOLEAN, 1), point(BOOLEAN, 0))
        case IsNull(operand) if found := _attr(operand):
            return _atom(found, only_null(found.type), all_values(found.type))
        case Compare(op, left, Literal() as right) if found := _attr(left):
            return _comparison(found, op, right)
        case Compare(op, Literal() as left, right) if found := _attr(right):
            return _comparison(found, MIRRORED[op], left)
        case In(operand, options) if found := _attr(operand):
            return _membership(found, options)
        case TextTest(op, Attr() as attr, Literal(None)):
            return _atom(attr, nothing(attr.type), nothing(attr.type))
        case TextTest("startswith", Attr() as attr, Literal(str(text))):
            return _prefix(attr, text)
        case TextTest("endswith", Attr() as attr, Literal(str(text))):
            return _suffix(attr, text)
        case TextTest("contains", Attr() as attr, Literal("")):
            return _prefix(attr, "")
        case Like(Attr() as attr, Literal(str(pattern)), escape):
            like = parse_like(pattern, escape)
            if like.equals is not None:
                return _two_valued(attr, point(attr.type, like.equals.encode()))
            if like.is_prefix_only or like.matches_everything:
                return _prefix(attr, like.prefix)
            if like.is_suffix_only:
                return _suffix(attr, like.suffix)
    return None


def necessary(predicate: Predicate) -> list[tuple[Dimension, ValueSet]]:
    """For a predicate that is no atom: sets in which the values must lie for it to be true."""
    match predicate:
        case Like(Attr() as attr, Literal(str(pattern)), escape):
            like = parse_like(pattern, escape)
            ends = [_prefix(attr, like.prefix)]  # the empty prefix too: it says "not NULL"
            if like.suffix:
                ends.append(_suffix(attr, like.suffix))
            return [(end.dimension, end.true) for end in ends]
    return known(predicate)


def known(predicate: Predicate) -> list[tuple[Dimension, ValueSet]]:
    """Attributes that must not be NULL for a predicate that is no atom to be true, or false."""
    if isinstance(predicate, IsNull) or (isinstance(predicate, Compare) and predicate.op == "<=>"):
        return []
    attrs = {attr.name: attr for side in operands(predicate) for attr in attributes_of(side)}
    return [(Dimension(name), all_values(attr.type)) for name, attr in attrs.items()]


def _atom(attr: Attr, true: ValueSet, false: ValueSet) -> Atom:
    return Atom(Dimension(attr.name), true, false)


def _attr(operand: Operand) -> Attr | None:
    match operand:
        case Attr():
            return operand
        case Cast(Attr() as attr, _):
            return attr
    return None


def _two_valued(attr: Attr, true: ValueSet) -> Atom:
    """True in the set, false for every other value, unknown for NULL."""
    return _atom(attr, true, ValueSet(attr.type, true.complement().intervals))


def _prefix(attr: Attr, prefix: str) -> Atom:
    low = prefix.encode()
    return _two_valued(attr, value_set(attr.type, [(low, after_prefix(low))]))


def _suffix(attr: Attr, suffix: str) -> Atom:
    forwards = _prefix(attr, "")
    low = suffix.encode()[::-1]
    true = value_set(attr.type, [(low, after_prefix(low))])
    false = true.complement().intersection(forwards.true)
    return Atom(Dimension(attr.name, backwards=True), true, false)


def _comparison(attr: Attr, op: Comparison, literal: Literal) -> Atom:
    if literal.value is None:
        if op == "<=>":
            return _atom(attr, only_null(attr.type), all_values(attr.type))
        return _atom(attr, nothing(attr.type), nothing(attr.type))
    low, high = equal_range(attr.type, literal)
    less, greater = below(attr.type, low), _from(attr.type, high)
    equal = value_set(attr.type, [(low, high)])
    match op:
        case "=":
            return _two_valued(attr, equal)
        case "<=>":
            return _atom(attr, equal, equal.complement())
        case "<>":
            return _atom(attr, less.union(greater), equal)
        case "<":
            return _two_valued(attr, less)
        case "<=":
            return _two_valued(attr, less.union(equal))
        case ">":
            return _two_valued(attr, greater)
        case ">=":
            return _two_valued(attr, equal.union(greater))


def _from(type_: Type, key: Key | None) -> ValueSet:
    return nothing(type_) if key is None else at_least(type_, key)


def _membership(attr: Attr, options: tuple[Literal, ...]) -> Atom:
    known = [equal_range(attr.type, option) for option in options if option.value is not None]
    true = value_set(attr.type, known)
    if len(known) < len(options):  # a NULL among them: not found is unknown
        return _atom(attr, true, nothing(attr.type))
    return _two_valued(attr, true)


def equal_range(type_: Type, literal: Literal) -> tuple[Key, Key | None]:
    """Keys [low, high) of the attribute's values that compare equal to the literal.

    Empty (low = high) where none does; low is then still the place where they would be.
    """
    wanted = literal.value
    if literal.type == type_ or (type_.is_text and literal.type.is_text):
        key = to_key(type_, wanted)
        return value_range(key)
    if type_.is_integral and literal.type.is_integral:
        assert isinstance(wanted, int)
        return wanted, wanted + 1

    def converted(key: int) -> object:
        """What Spark compares with the literal, for the attribute value with this key."""
        value = cast_value(from_key(type_, key), literal.type)
        return value if not isinstance(value, float) else to_key(literal.type, value)

    target = to_key(literal.type, wanted) if isinstance(wanted, float) else wanted
    start, end = key_bounds(type_)
    assert isinstance(start, int) and isinstance(end, int)
    low = _first(start, end, lambda key: converted(key) >= target)  # type: ignore[operator]
    high = _first(low, end, lambda key: converted(key) > target)  # type: ignore[operator]
    return low, high


def value_range(key: Key) -> tuple[Key, Key | None]:
    return key, key + 1 if isinstance(key, int) else key + b"\0"


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least key in [low, high) for which it holds, given that it holds from there on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
