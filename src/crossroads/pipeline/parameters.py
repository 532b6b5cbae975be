"""Filters that differ in their literals only, as one template and a table of its literals.

A literal of a template with a `source` (k, …) is parameter k: row i of column k is what the filter
with the i-th ordinal has in its place. Columns are typed so that Spark's comparison with the
attribute is exact: no number changes on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.model.filter import (
    Arithmetic,
    Attr,
    Cast,
    Compare,
    Filter,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Operand,
    Predicate,
    RLike,
    TextTest,
    attributes_of,
)
from crossroads.model.instantiate import split_likes, transform
from crossroads.model.shapes import Doubles, FilterTable, Moments, Numbers, ShapeGroup, Slot, Texts
from crossroads.model.types import STRING, Kind, Type

# Filters without a shape of others that Spark is asked about in one pass: a larger expression takes
# it longer to plan than to run.
FILTERS_PER_PASS = 256

Ints = npt.NDArray[np.int64]

SHARED_MIN = 8  # filters of one shape that are worth a join of their own
IN_PARAMETERS_MAX = 16  # options of an IN that become columns; a longer list stays as it is
_POWERS = 10 ** np.arange(19, dtype=np.int64)  # all that fit 64 bits
_ANY = "?"  # what stands for every literal in a key: keys are compared, never evaluated


@dataclass(frozen=True)
class Parametrised:
    """`columns[k]` are the literals of parameter k, in the order of `ordinals`."""

    template: Filter
    ordinals: Ints
    columns: tuple[pa.Array, ...]


def parametrise(table: FilterTable) -> tuple[list[Parametrised], dict[int, Filter]]:
    """All filters of a table: those of shared shapes, and the rest by ordinal."""
    shared = [
        _of_group(part) for group in table.groups for part in split_likes(group) if part.rows.size
    ]
    alike: dict[Filter, list[tuple[int, list[Literal]]]] = {}
    for ordinal, filter_ in table.singles.items():
        key, literals = _taken_out(filter_)
        alike.setdefault(key, []).append((ordinal, literals))
    alone: dict[int, Filter] = {}
    for key, members in alike.items():
        if len(members) >= SHARED_MIN:
            shared.append(_of_singles(key, members))
        else:
            alone.update((ordinal, table.singles[ordinal]) for ordinal, _ in members)
    return shared, alone


# -- from the columns of a shape -----------------------------------------------------------------


class _Columns:
    """Collects the columns of one group; numbers them."""

    def __init__(self, group: ShapeGroup) -> None:
        self.slots = group.slots
        self.found: list[pa.Array] = []

    def parameter(self, literal: Literal, attr_type: Type) -> Literal:
        if literal.source is None:
            return literal  # NULL, TRUE or FALSE: the same in every row
        slot, negative = literal.source
        self.found.append(_column(self.slots[slot], negative, attr_type))
        return replace(literal, source=(len(self.found) - 1, False))


def _of_group(group: ShapeGroup) -> Parametrised:
    columns = _Columns(group)

    def side(operand: Operand, attr: Attr) -> Operand:
        return columns.parameter(operand, attr.type) if isinstance(operand, Literal) else attr

    def change(leaf: Predicate) -> Predicate:
        # Casts go: they belong to the literal that the template happened to have.
        match leaf:
            case Compare(op, left, right):
                attr = _attribute(left, right)
                return Compare(op, side(left, attr), side(right, attr))
            case In(operand, options):
                attr = _attribute(operand)
                return In(attr, tuple(columns.parameter(one, attr.type) for one in options))
            case TextTest(op, left, right):
                attr = _attribute(left, right)
                return TextTest(op, side(left, attr), side(right, attr))
            case Like(operand, pattern, _) | RLike(operand, pattern):
                return replace(leaf, pattern=columns.parameter(pattern, STRING))
            case _:
                return leaf

    template = transform(group.template, change)
    return Parametrised(template, group.rows, tuple(columns.found))


def _attribute(*sides: Operand) -> Attr:
    (attr,) = (attr for side in sides for attr in attributes_of(side))
    return attr


def _column(slot: Slot, negative: bool, attr_type: Type) -> pa.Array:
    match slot:
        case Texts(values):
            return values.cast(pa.string())
        case Moments(type_, keys):
            whole = keys.astype(np.int32) if type_.kind is Kind.DATE else keys
            return pa.array(whole).cast(type_.arrow)
        case Doubles(values):
            return pa.array(-values if negative else values)
        case Numbers(mantissa, scale):
            signed = -mantissa if negative else mantissa
            if attr_type.kind is Kind.DOUBLE:
                # At most 15 digits where there is a fraction: the quotient is rounded correctly.
                return pa.array(signed / 10.0 ** scale.astype(np.float64))
            return exact_numbers(signed, scale.astype(np.int64))


def exact_numbers(mantissa: Ints, scale: Ints) -> pa.Array:
    """mantissa / 10**scale as bigint, or as the tightest decimal that holds them all."""
    places = int(scale.max(initial=0))
    if places == 0:
        return pa.array(mantissa)
    digits = len(str(int(np.abs(mantissa // _POWERS[scale]).max()))) + places
    if digits <= 18:  # 64 bits hold the unscaled numbers
        return _decimals(mantissa * _POWERS[places - scale], pa.decimal128(digits, places))
    unscaled = [
        int(m) * 10 ** (places - int(s))
        for m, s in zip(mantissa.tolist(), scale.tolist(), strict=True)
    ]
    halves = b"".join(number.to_bytes(16, "little", signed=True) for number in unscaled)
    type_ = pa.decimal128(digits, places)
    return pa.Array.from_buffers(type_, mantissa.size, [None, pa.py_buffer(halves)])


def _decimals(unscaled: Ints, type_: pa.DataType) -> pa.Array:
    """Arrow's decimals are 128-bit integers: the low half, then the sign spread over the high."""
    halves = np.stack([unscaled, unscaled >> 63], axis=1)
    buffer = pa.py_buffer(np.ascontiguousarray(halves))
    return pa.Array.from_buffers(type_, unscaled.size, [None, buffer])


# -- from trees ------------------------------------------------------------------------------------


def _taken_out(filter_: Filter) -> tuple[Filter, list[Literal]]:
    """The filter without its literals, equal for filters of one shape; and the literals."""
    taken: list[Literal] = []

    def take(literal: Literal) -> Literal:
        if literal.value is None:
            return replace(literal, source=None)  # NULL is part of the shape
        taken.append(literal)
        return Literal(_ANY, literal.type, (len(taken) - 1, False))

    return with_literals(filter_, take), taken


def _of_singles(key: Filter, members: list[tuple[int, list[Literal]]]) -> Parametrised:
    ordinals = np.array([ordinal for ordinal, _ in members], np.int64)
    columns = tuple(
        pa.array([literal.value for literal in column], column[0].type.arrow)
        for column in zip(*(literals for _, literals in members), strict=True)
    )
    return Parametrised(key, ordinals, columns)


def with_literals(filter_: Filter, change: Callable[[Literal], Literal]) -> Filter:
    """The same filter with its literals changed, in a fixed order; long IN lists stay."""

    def operand(found: Operand) -> Operand:
        match found:
            case Literal():
                return change(found)
            case Cast(inner, _) | Negate(inner, _):
                return replace(found, operand=operand(inner))
            case Arithmetic(_, left, right, _):
                return replace(found, left=operand(left), right=operand(right))
            case Attr():
                return found

    def predicate(leaf: Predicate) -> Predicate:
        match leaf:
            case Compare(_, left, right) | TextTest(_, left, right):
                return replace(leaf, left=operand(left), right=operand(right))
            case In(sought, options):
                if len(options) > IN_PARAMETERS_MAX:
                    return In(operand(sought), tuple(replace(one, source=None) for one in options))
                return In(operand(sought), tuple(change(one) for one in options))
            case Like(sought, pattern, _):
                return replace(leaf, operand=operand(sought), pattern=change(pattern))
            case RLike(Attr(), pattern):
                return replace(leaf, pattern=change(pattern))
            case RLike():
                return _without_sources(leaf)  # of two constants: a constant itself
            case IsNull(sought):
                return IsNull(operand(sought))
            case _:
                return leaf

    return transform(filter_, predicate)


def _without_sources(leaf: RLike) -> RLike:
    assert isinstance(leaf.operand, Literal)
    return RLike(replace(leaf.operand, source=None), replace(leaf.pattern, source=None))
