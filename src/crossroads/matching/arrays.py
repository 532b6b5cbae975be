"""Comparisons between attributes, with arithmetic, over whole columns.

Serves whole numbers, doubles, dates and timestamps; for the rest (decimals, text, sums that might
overflow 64 bits) it answers None, and the definition decides pair by pair.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crossroads.matching.batch import Batch
from crossroads.matching.boxes import Int64Array
from crossroads.model.coerce import integral_range
from crossroads.model.columnkeys import double_keys
from crossroads.model.filter import Arithmetic, Attr, Cast, Compare, Literal, Negate, Operand
from crossroads.model.types import DOUBLE, Kind, Type, to_key

Bools = npt.NDArray[np.bool_]
_Known = tuple[npt.NDArray[np.int64] | npt.NDArray[np.float64], Bools]  # values, and which are NULL

_SERVED = {Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP}
_MICROSECONDS_PER_DAY = 86_400_000_000
_PRODUCT_MAX, _SUM_MAX = 2**31, 2**62  # operands below these cannot overflow 64 bits


class _NotServed(Exception):
    """Left to the definition."""


def compare_arrays(
    comparison: Compare, batch: Batch, events: Int64Array
) -> tuple[Bools, Bools] | None:
    """(true, unknown) for each of the events; None: not served here."""
    try:
        with np.errstate(all="ignore"):
            left, left_null = _ordered(comparison.left, batch, events)
            right, right_null = _ordered(comparison.right, batch, events)
    except _NotServed:
        return None
    unknown = left_null | right_null
    if comparison.op == "<=>":
        both = left_null & right_null
        return both | (~unknown & (left == right)), np.zeros(events.size, np.bool_)
    true = {
        "=": np.equal,
        "<>": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }[comparison.op](left, right)
    return true & ~unknown, unknown


def _ordered(operand: Operand, batch: Batch, events: Int64Array) -> _Known:
    """Keys: what compares as Spark compares (NaN above all)."""
    values, null = _values(operand, batch, events)
    if operand.type == DOUBLE:
        values = double_keys(np.asarray(values, np.float64))
    return values, null


def _values(operand: Operand, batch: Batch, events: Int64Array) -> _Known:
    if operand.type.kind not in _SERVED:
        raise _NotServed
    match operand:
        case Attr(name, type_):
            null = ~batch.valid(name)[events]
            if type_ == DOUBLE:
                return batch.column(name).fill_null(0.0).to_numpy(zero_copy_only=False)[
                    events
                ], null
            return batch.keys(name)[events], null
        case Literal(None, _):
            return np.zeros(events.size, np.int64), np.ones(events.size, np.bool_)
        case Literal(value, type_):
            plain = value if type_ == DOUBLE else to_key(type_, value)
            assert isinstance(plain, int | float)
            return np.full(events.size, plain), np.zeros(events.size, np.bool_)
        case Cast(inner, type_):
            return _cast(inner, type_, batch, events)
        case Negate(inner, type_):
            zero = np.zeros(events.size, np.int64)
            values, null = _values(inner, batch, events)
            if type_ == DOUBLE:
                return -values, null
            return _calculated("-", (zero, ~(null | True)), (values, null), type_)
        case Arithmetic(op, left, right, type_):
            one, other = _values(left, batch, events), _values(right, batch, events)
            return _calculated(op, one, other, type_)


def _cast(inner: Operand, to: Type, batch: Batch, events: Int64Array) -> _Known:
    values, null = _values(inner, batch, events)
    if to == DOUBLE and inner.type.is_integral:
        return values.astype(np.float64), null
    if to.kind is Kind.TIMESTAMP and inner.type.kind is Kind.DATE:
        return values * _MICROSECONDS_PER_DAY, null
    raise _NotServed


def _calculated(op: str, left: _Known, right: _Known, type_: Type) -> _Known:
    null = left[1] | right[1]
    if op == "/":
        null = null | (right[0] == 0)
    if type_.is_integral:
        most = _PRODUCT_MAX if op == "*" else _SUM_MAX
        for values, _ in (left, right):
            if values.size and (values.max() >= most or values.min() <= -most):
                raise _NotServed
    result = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](
        left[0], right[0]
    )
    if type_.is_integral:
        low, high = integral_range(type_)
        null = null | (result < low) | (result > high)
    return result, null
