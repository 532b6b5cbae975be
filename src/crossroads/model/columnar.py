"""The normal form of a whole shape at once: alternatives whose bounds are columns, not values.

It says what `model.normal` says, for filters that differ in their literals only. A **side** is a
range on one dimension: lower and upper bound are columns of constants (or absent), or it is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.model.atoms import Dimension
from crossroads.model.columnkeys import Int64Array, backwards, double_keys
from crossroads.model.compiled import compiled
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
    IsNull,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
    TextTest,
    Truth,
)
from crossroads.model.normal import Check
from crossroads.model.shapes import Doubles, Moments, Numbers, ShapeGroup, Texts
from crossroads.model.types import BIGINT_MAX, BIGINT_MIN, Kind, Type, to_key

ALTERNATIVES_MAX = 16  # of one shape; beyond that its filters are treated one by one


@dataclass(frozen=True)
class Bound:
    """A column of constants (64-bit keys, or bytes); `strict` leaves the constant itself out."""

    constants: Int64Array | pa.Array
    strict: bool = False


@dataclass(frozen=True)
class Side:
    dimension: Dimension
    type: Type
    low: Bound | None = None
    high: Bound | None = None
    null: bool = False


@dataclass(frozen=True)
class Alternative:
    sides: tuple[Side, ...] = ()
    checks: tuple[Check, ...] = ()


class TooManyAlternatives(Exception):
    """The shape's filters are better treated one by one."""


def alternatives(group: ShapeGroup) -> list[Alternative]:
    return _Reader(group).filter(group.template, True)


OPPOSITE: dict[Comparison, Comparison] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}


class _Reader:
    def __init__(self, group: ShapeGroup) -> None:
        self.group = group
        self.size = group.rows.size

    def filter(self, filter_: Filter, wanted: bool) -> list[Alternative]:
        match filter_:
            case Not(part):
                return self.filter(part, not wanted)
            case And(parts):
                found = [self.filter(part, wanted) for part in parts]
                return _all(found) if wanted else _any(found)
            case Or(parts):
                found = [self.filter(part, wanted) for part in parts]
                return _any(found) if wanted else _all(found)
            case _:
                return self.leaf(filter_, wanted)

    def leaf(self, predicate: Predicate, wanted: bool) -> list[Alternative]:
        match predicate:
            case Constant(value):
                return [Alternative()] if value is wanted else []
            case Truth(attr):
                return _one(self.side(attr, "=", Bound(self.same(int(wanted)))))
            case IsNull(Attr() as attr):
                return _one(Side(Dimension(attr.name), attr.type, null=wanted))
            case Compare(op, Literal() as left, right):
                return self.compare(_attr(right), MIRRORED[op], left, wanted)
            case Compare(op, left, Literal() as right):
                return self.compare(_attr(left), op, right, wanted)
            case In(operand, options):
                return self.membership(_attr(operand), options, wanted)
            case TextTest(op, Attr() as attr, Literal() as literal):
                if literal.source is None:
                    return []  # NULL
                if op == "contains":
                    return _checked(attr, Check(predicate, wanted))
                return self.affix(attr, literal, wanted, at_end=op == "endswith")
            case _:
                (attr,) = (part for part in (getattr(predicate, "operand", None),) if part)
                return _checked(_attr(attr), Check(predicate, wanted))

    def compare(
        self, attr: Attr, op: Comparison, literal: Literal, wanted: bool
    ) -> list[Alternative]:
        if literal.value is None:
            if op != "<=>":
                return []
            return _one(Side(Dimension(attr.name), attr.type, null=wanted))
        bound = self.bound(attr.type, literal)
        if op == "<=>":
            found = (
                [self.side(attr, "=", bound)]
                if wanted
                else [
                    self.side(attr, "<", bound),
                    self.side(attr, ">", bound),
                    Side(Dimension(attr.name), attr.type, null=True),
                ]
            )
            return [Alternative((side,)) for side in found]
        meant = op if wanted else OPPOSITE[op]
        if meant == "<>":
            return [Alternative((self.side(attr, one, bound),)) for one in ("<", ">")]
        return _one(self.side(attr, meant, bound))

    def membership(
        self, attr: Attr, options: tuple[Literal, ...], wanted: bool
    ) -> list[Alternative]:
        known = [option for option in options if option.value is not None]
        if wanted:
            return _any([self.compare(attr, "=", option, True) for option in known])
        if len(known) < len(options):
            return []
        return self.none_of(attr, [self.bound(attr.type, option) for option in known])

    def none_of(self, attr: Attr, bounds: list[Bound | _Inexact]) -> list[Alternative]:
        """The gaps before, between and behind the constants, which are sorted row by row."""
        if len(bounds) >= ALTERNATIVES_MAX:
            raise TooManyAlternatives
        first, second = _sorted_rows(bounds)
        before = [None, *(Bound(column, strict=True) for column in first)]
        behind = [*(Bound(column, strict=True) for column in second), None]
        dimension = Dimension(attr.name)
        return [
            Alternative((Side(dimension, attr.type, low, high),))
            for low, high in zip(before, behind, strict=True)
        ]

    def affix(
        self, attr: Attr, literal: Literal, wanted: bool, *, at_end: bool
    ) -> list[Alternative]:
        """Texts that start (end) alike lie together, forwards (backwards)."""
        low = self.texts(literal)
        if at_end:
            low = backwards(low)
        dimension = Dimension(attr.name, at_end)
        after = Bound(_after_prefixes(low), strict=True)
        if wanted:
            return _one(Side(dimension, attr.type, Bound(low), after))
        return [
            Alternative((Side(dimension, attr.type, high=Bound(low, strict=True)),)),
            Alternative((Side(dimension, attr.type, low=Bound(after.constants)),)),
        ]

    # -- bounds ------------------------------------------------------------------------------

    def side(self, attr: Attr, op: str, bound: Bound | _Inexact) -> Side:
        if isinstance(bound, _Inexact):
            return self.inexact_side(attr, op, bound)
        strict = Bound(bound.constants, strict=True)
        low = {"=": bound, ">=": bound, ">": strict}.get(op)
        high = {"=": bound, "<=": bound, "<": strict}.get(op)
        return Side(Dimension(attr.name), attr.type, low, high)

    def inexact_side(self, attr: Attr, op: str, bound: _Inexact) -> Side:
        """Some literals lie between two values of the attribute: 4.5 for an int."""
        floor, between = bound.floor, bound.between
        least = floor + between  # the first value at or above the literal
        low = high = None
        if op in ("=", ">="):
            low = Bound(least)
        if op == ">":
            low = Bound(floor, strict=True)
        if op in ("=", "<="):
            high = Bound(floor)
        if op == "<":
            high = Bound(least, strict=True)
        return Side(Dimension(attr.name), attr.type, low, high)

    def same(self, key: int) -> Int64Array:
        return np.full(self.size, key, np.int64)

    def texts(self, literal: Literal) -> pa.Array:
        assert literal.source is not None
        slot = self.group.slots[literal.source[0]]
        assert isinstance(slot, Texts)
        return slot.values.cast(pa.large_string()).cast(pa.large_binary())

    def bound(self, type_: Type, literal: Literal) -> Bound | _Inexact:
        if literal.source is None:
            key = to_key(type_, literal.value)
            assert isinstance(key, int)
            return Bound(self.same(key))
        number, negative = literal.source
        match self.group.slots[number]:
            case Texts():
                return Bound(self.texts(literal))
            case Moments(_, keys):
                return Bound(keys)
            case Doubles(values):
                return Bound(double_keys(-values if negative else values))
            case Numbers(mantissa, scale):
                signed = -mantissa if negative else mantissa
                if type_.kind is Kind.DOUBLE:
                    return Bound(double_keys(signed / 10.0 ** scale.astype(np.float64)))
                if (scale == type_.scale).all():
                    return Bound(signed)  # written in the very units of the keys, as usual
                floor, between = _scaled(signed, scale, type_.scale)
                return _Inexact(floor, between)


@dataclass(frozen=True)
class _Inexact:
    """The greatest key not above the literal, and 1 where the literal lies above it."""

    floor: Int64Array
    between: Int64Array


def _sorted_rows(
    bounds: list[Bound | _Inexact],
) -> tuple[list[Int64Array | pa.Array], list[Int64Array | pa.Array]]:
    """Columns (last key not above, first key not below each constant), ascending in every row."""
    if any(isinstance(bound, _Inexact) for bound in bounds):
        floors, ceilings = zip(*map(_around, bounds), strict=True)
        return list(np.sort(floors, axis=0)), list(np.sort(ceilings, axis=0))
    columns = [bound.constants for bound in bounds if isinstance(bound, Bound)]
    assert len(columns) == len(bounds)
    if isinstance(columns[0], np.ndarray):
        ordered = list(np.sort(columns, axis=0))
        return ordered, ordered
    joined = pa.concat_arrays(columns)
    encoded = joined.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(rank.size)
    ranks = rank[encoded.indices.to_numpy()].reshape(len(columns), -1)
    order = np.argsort(ranks, axis=0) * ranks.shape[1] + np.arange(ranks.shape[1])
    texts = [joined.take(pa.array(row)) for row in order]
    return texts, texts


def _around(bound: Bound | _Inexact) -> tuple[Int64Array, Int64Array]:
    """The last key not above the number, and the first one not below it."""
    if isinstance(bound, _Inexact):
        return bound.floor, bound.floor + bound.between
    assert isinstance(bound.constants, np.ndarray)
    return bound.constants, bound.constants


@compiled
def _scaled(
    mantissa: Int64Array, scale: npt.NDArray[np.uint8], wanted: int
) -> tuple[Int64Array, Int64Array]:
    """mantissa / 10**scale in units of 10**-wanted, rounded down; and whether it was rounded."""
    floor = np.empty(mantissa.size, np.int64)
    between = np.zeros(mantissa.size, np.int64)
    for i in range(mantissa.size):
        value = mantissa[i]
        places = wanted - np.int64(scale[i])
        if places >= 0:
            for _ in range(places):
                # Ten times this is beyond every decimal(18, s): as far off as 64 bits go.
                if value > 900_000_000_000_000_000:
                    value = BIGINT_MAX
                    break
                if value < -900_000_000_000_000_000:
                    value = BIGINT_MIN
                    break
                value *= 10
            floor[i] = value
        else:
            unit = 1
            for _ in range(-places):
                unit *= 10
            floor[i] = value // unit
            between[i] = 1 if floor[i] * unit != value else 0
    return floor, between


def _after_prefixes(prefixes: pa.Array) -> pa.Array:
    """Of valid, non-empty UTF-8 (or its reverse): no byte is 0xFF, so the last one has a next."""
    _, offsets, data = prefixes.buffers()
    ends = np.frombuffer(offsets, np.int64)[prefixes.offset : prefixes.offset + len(prefixes) + 1]
    raised = np.frombuffer(data, np.uint8).copy()
    raised[ends[1:] - 1] += 1
    buffers = [None, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(raised)]
    return pa.Array.from_buffers(pa.large_binary(), len(prefixes), buffers)


def _attr(operand: Operand) -> Attr:
    inner = operand.operand if isinstance(operand, Cast) else operand
    assert isinstance(inner, Attr), operand
    return inner


def _one(side: Side) -> list[Alternative]:
    return [Alternative((side,))]


def _checked(attr: Attr, check: Check) -> list[Alternative]:
    """True or false, the predicate says that its attribute is not NULL."""
    return [Alternative((Side(Dimension(attr.name), attr.type),), (check,))]


def _any(found: list[list[Alternative]]) -> list[Alternative]:
    merged = [one for part in found for one in part]
    if len(merged) > ALTERNATIVES_MAX:
        raise TooManyAlternatives
    return merged


def _all(found: list[list[Alternative]]) -> list[Alternative]:
    product = [Alternative()]
    for part in found:
        product = [
            Alternative(one.sides + other.sides, one.checks + other.checks)
            for one in product
            for other in part
        ]
        if len(product) > ALTERNATIVES_MAX:
            raise TooManyAlternatives
    return product
