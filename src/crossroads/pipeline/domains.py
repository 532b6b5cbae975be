"""Constants of filters against the domains of the schema: values no event is expected to have.

`doubtful_constants` looks at one filter and says what is wrong with it; `doubtful_rows` finds the
same filters among all of one shape without making a single tree.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.model.coerce import cast_value
from crossroads.model.filter import Attr, Cast, Compare, Filter, In, Literal, Operand, predicates
from crossroads.model.schema import Attribute, Schema
from crossroads.model.shapes import Doubles, Moments, Numbers, ShapeGroup, Slot, Texts
from crossroads.model.show import show_literal
from crossroads.model.types import DOUBLE, Value, to_key
from crossroads.model.values import text_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

VALUES_SHOWN = 6  # of an enumeration, when nothing in it resembles the constant


class Doubt(StrEnum):
    NO_SUCH_VALUE = "no such value"
    OUTSIDE = "outside"


def _compared(filter_: Filter, schema: Schema) -> Iterator[tuple[Attribute, Literal, Doubt]]:
    """Constants that an attribute with a domain is compared with, and what could be doubted."""
    for leaf in predicates(filter_):
        match leaf:
            case Compare(op, left, Literal() as literal) | Compare(op, Literal() as literal, left):
                pairs: list[tuple[Operand, Literal]] = [(left, literal)]
                equality = op in ("=", "<=>", "<>")
            case In(left, options):
                pairs, equality = [(left, option) for option in options], True
            case _:
                continue
        for operand, literal in pairs:
            inner = operand.operand if isinstance(operand, Cast) else operand
            attribute = schema.find(inner.name) if isinstance(inner, Attr) else None
            if attribute is None or literal.value is None:
                continue
            if attribute.values and equality:
                yield attribute, literal, Doubt.NO_SUCH_VALUE
            elif attribute.min is not None or attribute.max is not None:
                yield attribute, literal, Doubt.OUTSIDE


# -- one filter --------------------------------------------------------------------------------


def doubtful_constants(filter_: Filter, schema: Schema) -> Iterator[tuple[Doubt, str]]:
    """Each constant that no valid (or no expected) event has, with a sentence about it."""
    for attribute, literal, doubt in _compared(filter_, schema):
        if _holds(doubt, attribute, literal):
            unknown = doubt is Doubt.NO_SUCH_VALUE
            say = _no_such_value if unknown else _out_of_range
            yield doubt, say(attribute, literal)


def _holds(doubt: Doubt, attribute: Attribute, literal: Literal) -> bool:
    if doubt is Doubt.OUTSIDE:
        return _outside(attribute, literal)
    return all(_as(value, literal) != literal.value for value in attribute.values)


def _as(value: Value, literal: Literal) -> object:
    """The value of the domain in a form that Python compares exactly with the literal."""
    if isinstance(literal.value, datetime) and not isinstance(value, datetime):
        return cast_value(value, literal.type)
    if isinstance(literal.value, date) and not isinstance(literal.value, datetime):
        return value.date() if isinstance(value, datetime) else value
    return value


def _outside(attribute: Attribute, literal: Literal) -> bool:
    low, high = (
        None if end is None else _as(end, literal) for end in (attribute.min, attribute.max)
    )
    wanted = literal.value
    return (low is not None and wanted < low) or (high is not None and wanted > high)  # type: ignore[operator]


def _no_such_value(attribute: Attribute, literal: Literal) -> str:
    known = [text_of(value) for value in attribute.values]
    near = difflib.get_close_matches(text_of(literal.value), known, n=1, cutoff=0.5)
    if near:
        advice = f"did you mean {near[0]!r}?"
    else:
        more = ", …" if len(known) > VALUES_SHOWN else ""
        advice = f"it has: {', '.join(known[:VALUES_SHOWN])}{more}"
    return f"{attribute.name} is never {_shown(literal)}; {advice}"


def _out_of_range(attribute: Attribute, literal: Literal) -> str:
    low = "" if attribute.min is None else f"from {text_of(attribute.min)} "
    high = "" if attribute.max is None else f"up to {text_of(attribute.max)}"
    return f"{attribute.name} is expected {(low + high).strip()}, not {_shown(literal)}"


def _shown(literal: Literal) -> str:
    return show_literal(literal) if isinstance(literal.value, str) else text_of(literal.value)


# -- all filters of a shape ----------------------------------------------------------------------


def doubtful_rows(group: ShapeGroup, schema: Schema) -> Iterator[tuple[Doubt, Ints]]:
    """For each kind of doubt, the rows of the group for which `doubtful_constants` has it."""
    found: dict[Doubt, Bools] = {}
    for attribute, literal, doubt in _compared(group.template, schema):
        if literal.source is None:  # TRUE or FALSE: the same in every row
            mask = np.full(group.rows.size, _holds(doubt, attribute, literal))
        else:
            number, negative = literal.source
            slot = _as_compared(group.slots[number], attribute)
            if doubt is Doubt.NO_SUCH_VALUE:
                mask = ~_among(slot, negative, attribute)
            else:
                mask = _beyond(slot, negative, attribute)
        found[doubt] = found[doubt] | mask if doubt in found else mask
    for doubt, mask in found.items():
        if mask.any():
            yield doubt, np.flatnonzero(mask)


def _as_compared(slot: Slot, attribute: Attribute) -> Slot:
    if isinstance(slot, Numbers) and attribute.type == DOUBLE:
        return Doubles(slot.mantissa / 10.0 ** slot.scale.astype(np.float64))
    return slot


def _among(slot: Slot, negative: bool, attribute: Attribute) -> Bools:
    """Is the literal one of the values of the enumeration?"""
    match slot:
        case Texts(texts):
            known = pa.array([str(value) for value in attribute.values], texts.type)
            return np.asarray(pc.is_in(texts, value_set=known))
        case Moments(type_, keys):
            return np.isin(keys, [to_key(type_, value) for value in attribute.values])
        case Doubles(values):
            known = attribute.values
            return np.isin(-values if negative else values, [float(_number(v)) for v in known])
        case Numbers():
            found = np.zeros(slot.mantissa.size, np.bool_)
            for rows, mantissa, unit in _by_scale(slot, negative):
                scaled = [_number(value) * unit for value in attribute.values]
                whole = [int(one) for one in scaled if one == int(one) and abs(one) < 2**63]
                found[rows] = np.isin(mantissa, np.array(whole, np.int64))
            return found


def _beyond(slot: Slot, negative: bool, attribute: Attribute) -> Bools:
    """Does the literal lie below the minimum or above the maximum?"""
    low, high = attribute.min, attribute.max
    match slot:
        case Texts(texts):
            masks = [
                compare(texts, pa.scalar(str(end), texts.type))
                for end, compare in ((low, pc.less), (high, pc.greater))
                if end is not None
            ]
            either: Bools = np.logical_or.reduce([np.asarray(mask) for mask in masks])
            return either
        case Moments(type_, keys):
            return _beyond_keys(
                keys,
                None if low is None else int(to_key(type_, low)),
                None if high is None else int(to_key(type_, high)),
            )
        case Doubles(values):
            signed = -values if negative else values
            least = -math.inf if low is None else float(_number(low))
            most = math.inf if high is None else float(_number(high))
            outside: Bools = (signed < least) | (signed > most)
            return outside
        case Numbers():
            found = np.zeros(slot.mantissa.size, np.bool_)
            for rows, mantissa, unit in _by_scale(slot, negative):
                found[rows] = _beyond_keys(
                    mantissa,
                    None if low is None else math.ceil(_number(low) * unit),
                    None if high is None else math.floor(_number(high) * unit),
                )
            return found


def _by_scale(slot: Numbers, negative: bool) -> Iterator[tuple[Ints, Ints, int]]:
    """Rows with the same number of decimal places, so that whole numbers can be compared."""
    for scale in np.unique(slot.scale).tolist():
        rows = np.flatnonzero(slot.scale == scale)
        mantissa = slot.mantissa[rows]
        yield rows, -mantissa if negative else mantissa, 10**scale


def _beyond_keys(keys: Ints, low: int | None, high: int | None) -> Bools:
    outside = np.zeros(keys.size, np.bool_)
    if low is not None:
        outside |= keys < max(low, -(2**63)) if low < 2**63 else True
    if high is not None:
        outside |= keys > min(high, 2**63 - 1) if high >= -(2**63) else True
    return outside


def _number(value: Value) -> Decimal:
    """As an exact number; the shortest text of a double is what its author wrote."""
    assert isinstance(value, int | float | Decimal)
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
