"""The typed filter: one small tree, whatever language it was written in.

An **operand** has a value (or NULL) for an event; a **filter** is true, false or unknown (None).
Both sides of a comparison have the same type: where Spark would convert silently, the tree has a
`Cast`, so that nothing about types is left to whoever evaluates it. All nodes are frozen and
compare by content. `And` and `Or` are n-ary and never contain one of their own kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from crossroads.model.types import Type, Value

Comparison = OneOf["=", "<=>", "<>", "<", "<=", ">", ">="]
ArithmeticOp = OneOf["+", "-", "*", "/"]
TextTestOp = OneOf["startswith", "endswith", "contains"]

# What a comparison becomes when its sides are exchanged.
MIRRORED: dict[Comparison, Comparison] = {
    "=": "=",
    "<=>": "<=>",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


@dataclass(frozen=True, slots=True)
class Attr:
    """The event's value of an attribute."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL.

    `source` says which literal of the text it came from (and whether a minus was folded into it),
    so that filters of one shape can share a tree; it is no part of what the literal means.
    """

    value: Value
    type: Type
    source: tuple[int, bool] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """A silent conversion of Spark's, made visible. Only conversions that cannot fail."""

    operand: Operand
    type: Type


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` on numbers. Overflow and division by zero give NULL (decision 0006)."""

    op: ArithmeticOp
    left: Operand
    right: Operand
    type: Type


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Operand
    type: Type


Operand = Attr | Literal | Cast | Arithmetic | Negate


@dataclass(frozen=True, slots=True)
class Compare:
    op: Comparison
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class In:
    operand: Operand
    options: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class TextTest:
    op: TextTestOp
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Like:
    operand: Operand
    pattern: Literal
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class RLike:
    """RE2's meaning of the pattern, found anywhere in the text; the one exception to Spark's."""

    operand: Operand
    pattern: Literal


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Operand


@dataclass(frozen=True, slots=True)
class Truth:
    """A bare boolean attribute."""

    operand: Attr


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


Predicate = Compare | In | TextTest | Like | RLike | IsNull | Truth | Constant
Filter = Predicate | Not | And | Or


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing interest: who wants it, and the filter that says what."""

    id: str
    subscriber: str
    filter: Filter


def conjunction(parts: Iterator[Filter] | list[Filter]) -> Filter:
    flat = _flatten(And, parts)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterator[Filter] | list[Filter]) -> Filter:
    flat = _flatten(Or, parts)
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def _flatten(kind: type[And] | type[Or], parts: Iterator[Filter] | list[Filter]) -> list[Filter]:
    flat: list[Filter] = []
    for part in parts:
        if isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(part)
    assert flat
    return flat


def operands(predicate: Predicate) -> tuple[Operand, ...]:
    match predicate:
        case Compare(_, left, right) | TextTest(_, left, right):
            return left, right
        case In(operand, _) | Like(operand, _, _) | RLike(operand, _) | IsNull(operand):
            return (operand,)
        case Truth(attr):
            return (attr,)
        case Constant():
            return ()


def predicates(filter_: Filter) -> Iterator[Predicate]:
    """The leaves, from left to right."""
    match filter_:
        case And(parts) | Or(parts):
            for part in parts:
                yield from predicates(part)
        case Not(part):
            yield from predicates(part)
        case _:
            yield filter_


def attributes_of(operand: Operand) -> Iterator[Attr]:
    match operand:
        case Attr():
            yield operand
        case Cast(inner, _) | Negate(inner, _):
            yield from attributes_of(inner)
        case Arithmetic(_, left, right, _):
            yield from attributes_of(left)
            yield from attributes_of(right)


def attributes(filter_: Filter) -> set[str]:
    """Names of all attributes the filter looks at."""
    return {
        attr.name
        for predicate in predicates(filter_)
        for operand in operands(predicate)
        for attr in attributes_of(operand)
    }
