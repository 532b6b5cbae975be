"""What a match is. Every index, plan and network in this project must give what this gives.

An event matches a subscription when the filter is true for it. Unknown (None, SQL's NULL) is not
true. These lines are Spark's three-valued logic, written to be believed, not to be fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

from crossroads.model.coerce import cast_value, integral_range
from crossroads.model.filter import (
    And,
    Arithmetic,
    Attr,
    Cast,
    Compare,
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Operand,
    Or,
    RLike,
    TextTest,
    Truth,
)
from crossroads.model.like import parse_like
from crossroads.model.regex import regex_search
from crossroads.model.types import Kind, Type, Value, to_key

Event = Mapping[str, Value]

_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)
# Spark's minus keeps 34 digits, though a decimal has up to 38.
_NEGATED = Context(prec=34, rounding=ROUND_HALF_EVEN)
_QUOTIENT = Decimal(1).scaleb(-39)  # Spark divides decimals to 39 places before rounding


def matches(filter_: Filter, event: Event) -> bool:
    return truth(filter_, event) is True


def truth(filter_: Filter, event: Event) -> bool | None:
    match filter_:
        case And(parts):
            found = [truth(part, event) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, event) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            inner = truth(part, event)
            return None if inner is None else not inner
        case Constant(known):
            return known
        case Truth(attr):
            flag = value(attr, event)
            assert flag is None or isinstance(flag, bool)
            return flag
        case IsNull(operand):
            return value(operand, event) is None
        case Compare(op, left, right):
            return compare(op, _key(left, event), _key(right, event))
        case In(operand, options):
            sought = _key(operand, event)
            found = [compare("=", sought, _key(option, event)) for option in options]
            return True if True in found else None if None in found else False
        case TextTest(op, left, right):
            text, other = value(left, event), value(right, event)
            if text is None or other is None:
                return None
            assert isinstance(text, str) and isinstance(other, str)
            if op == "contains":
                return other in text
            return text.startswith(other) if op == "startswith" else text.endswith(other)
        case Like(operand, pattern, escape):
            text = value(operand, event)
            return (
                None if text is None else parse_like(str(pattern.value), escape).matches(str(text))
            )
        case RLike(operand, pattern):
            text = value(operand, event)
            return None if text is None else regex_search(str(pattern.value), str(text))


def compare(op: Comparison, left: object, right: object) -> bool | None:
    """Of two comparable keys; None is NULL."""
    if op == "<=>":
        return left == right
    if left is None or right is None:
        return None
    match op:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<":
            return left < right  # type: ignore[operator, no-any-return]
        case "<=":
            return left <= right  # type: ignore[operator, no-any-return]
        case ">":
            return left > right  # type: ignore[operator, no-any-return]
        case ">=":
            return left >= right  # type: ignore[operator, no-any-return]


def _key(operand: Operand, event: Event) -> object:
    """What comparisons compare: exact numbers as they are, everything else by its key."""
    known = value(operand, event)
    if known is None or isinstance(known, Decimal):
        return known
    return to_key(operand.type, known)


def value(operand: Operand, event: Event) -> Value:
    match operand:
        case Attr(name, _):
            return event.get(name)
        case Literal(known, _):
            return known
        case Cast(inner, type_):
            return cast_value(value(inner, event), type_)
        case Negate(inner, type_):
            known = value(inner, event)
            if known is None:
                return None
            assert isinstance(known, int | float | Decimal)
            return _fit(_NEGATED.minus(known) if isinstance(known, Decimal) else -known, type_)
        case Arithmetic(op, left, right, type_):
            one, other = value(left, event), value(right, event)
            if one is None or other is None:
                return None
            return calculate(op, one, other, type_)


def calculate(op: str, left: Value, right: Value, type_: Type) -> Value:
    """Overflow and division by zero give NULL, as Spark's try_add, try_divide, … do."""
    if op == "/" and right == 0:
        return None
    if type_.kind is Kind.DECIMAL:
        assert isinstance(left, Decimal) and isinstance(right, Decimal)
        exact = {"+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply, "/": _quotient}
        return _fit(exact[op](left, right), type_)
    assert isinstance(left, int | float) and isinstance(right, int | float)
    match op:
        case "+":
            return _fit(left + right, type_)
        case "-":
            return _fit(left - right, type_)
        case "*":
            return _fit(left * right, type_)
    return _fit(left / right, type_)


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    return _WIDE.divide(left, right).quantize(_QUOTIENT, context=_WIDE)


def _fit(result: int | float | Decimal, type_: Type) -> Value:
    """The result in its type, or NULL if it does not fit."""
    if isinstance(result, Decimal):
        rounded = result.quantize(Decimal(1).scaleb(-type_.scale), context=_WIDE)
        fits = not rounded or rounded.adjusted() < type_.precision - type_.scale
        return rounded if fits else None
    if type_.is_integral:
        low, high = integral_range(type_)
        return result if low <= result <= high else None
    return result
