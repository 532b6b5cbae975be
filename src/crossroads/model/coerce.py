"""Types meet: which common type two operands take, as Spark 4.3 does with ANSI on.

Where Spark would convert text to a number (or the like), we refuse: the subscriber surely meant
something else, and an event with odd text would fail the whole query in Spark.
"""

from __future__ import annotations

from decimal import Decimal

from crossroads.errors import FilterError
from crossroads.model.filter import (
    MIRRORED,
    Arithmetic,
    ArithmeticOp,
    Cast,
    Comparison,
    Literal,
    Negate,
    Operand,
)
from crossroads.model.literals import decimal_of_integral, tight_decimal
from crossroads.model.types import (
    BIGINT,
    BIGINT_MAX,
    BIGINT_MIN,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    INT,
    INT_MAX,
    INT_MIN,
    STRING,
    TIMESTAMP,
    VOID,
    Kind,
    Type,
    Value,
    decimal_type,
)
from crossroads.model.values import canonical

_DIVISION_SCALE_MIN = 6  # Spark keeps at least this many decimal places


def comparable(
    parts: list[Operand], position: int | None, *, two_sides: bool = False
) -> list[Operand]:
    """The same operands with one common type.

    On the `two_sides` of a comparison Spark gives a whole number next to a decimal only the digits
    it has; in a list it gives it all that its type may have.
    """
    common = VOID
    sized = two_sides and any(part.type.kind is Kind.DECIMAL for part in parts)
    for part in parts:
        common = _common(common, _sized(part) if sized else part.type, position)
    return [convert(part, common, position) for part in parts]


def _sized(part: Operand) -> Type:
    if isinstance(part, Literal) and part.type.is_integral and part.value is not None:
        assert isinstance(part.value, int)
        return tight_decimal(part.value)
    return part.type


def settled_order(op: Comparison, left: Operand, right: Operand) -> bool | None:
    """What Spark answers at once when whole numbers meet a literal beyond every bigint.

    It looks only at the literal, so the answer holds for NULL too: `k < 9223372036854775808` is
    true where k is NULL. Only < <= > >= are settled so, and only literals written as such.
    """
    if op in ("=", "<=>", "<>"):
        return None
    if isinstance(left, Literal):
        op, left, right = MIRRORED[op], right, left
    if not (left.type.is_integral and isinstance(right, Literal)):
        return None
    if not isinstance(right.value, Decimal) or BIGINT_MIN <= right.value <= BIGINT_MAX:
        return None
    return (op in ("<", "<=")) == (right.value > 0)


def _common(left: Type, right: Type, position: int | None) -> Type:
    if left.is_text:
        left = STRING
    if right.is_text:
        right = STRING
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left.is_number and right.is_number:
        return _common_number(left, right, position)
    if left.is_time and right.is_time:
        return TIMESTAMP
    for one, other in ((left, right), (right, left)):
        if one.is_time and other == STRING:
            return one
    raise FilterError(
        f"cannot compare {left} with {right}",
        position=position,
        hint=_advice(left, right),
    )


def _advice(left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    if Kind.STRING in kinds and (left.is_number or right.is_number):
        return "write the number without quotes, or the text with them"
    if Kind.BOOLEAN in kinds:
        return "a boolean compares with TRUE or FALSE only"
    return "both sides must be numbers, text, booleans, or dates and timestamps"


def _common_number(left: Type, right: Type, position: int | None) -> Type:
    if DOUBLE in (left, right):
        return DOUBLE
    if left.is_integral and right.is_integral:
        return BIGINT
    left, right = _as_decimal(left), _as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale > DECIMAL_PRECISION_MAX:
        raise FilterError(
            f"{left} and {right} have no common decimal type of {DECIMAL_PRECISION_MAX} digits",
            position=position,
            hint="compare with a double (end the number in D) or with fewer digits",
        )
    return decimal_type(whole + scale, scale)


def _as_decimal(type_: Type) -> Type:
    return type_ if type_.kind is Kind.DECIMAL else decimal_of_integral(type_)


def convert(part: Operand, to: Type, position: int | None) -> Operand:
    """The operand as that type: literals are converted here and now, the rest gets a Cast."""
    if part.type == to or (part.type.is_text and to == STRING):
        return part
    if isinstance(part, Literal):
        if part.type == STRING:
            return Literal(_moment(part.value, to, position), to, part.source)
        if to.kind is Kind.DECIMAL:
            if part.value is None:  # of one type, however the others are written
                return Literal(None, decimal_type(1, 0), part.source)
            return _decimal_operand(part)
        return Literal(cast_value(part.value, to), to, part.source)
    if part.type == STRING or part.type.is_text:
        raise FilterError(
            f"cannot compare text with a {to}",
            position=position,
            hint=f"only a literal in quotes is read as a {to}",
        )
    if part.type.kind is Kind.DECIMAL and to.kind is Kind.DECIMAL:
        return part  # exact numbers compare alike whatever their scale
    if part.type.is_integral and to.is_integral:
        return part
    if to.kind is Kind.DECIMAL:
        return _decimal_operand(part)
    return Cast(part, to)


def _moment(value: Value, to: Type, position: int | None) -> Value:
    try:
        return canonical(to, value)
    except ValueError as error:
        raise FilterError(str(error), position=position) from error


def cast_value(value: Value, to: Type) -> Value:
    """What `Cast` means for one value; NULL stays NULL."""
    if value is None:
        return None
    match to.kind:
        case Kind.DOUBLE:
            return float(value)  # type: ignore[arg-type]
        case Kind.DECIMAL:
            return Decimal(value)  # type: ignore[arg-type]
        case Kind.TIMESTAMP:
            return canonical(TIMESTAMP, value)
    return value


# -- arithmetic --------------------------------------------------------------------------------


def arithmetic(op: ArithmeticOp, left: Operand, right: Operand, position: int | None) -> Operand:
    left, right = _unvoid(left, right.type), _unvoid(right, left.type)
    for part in (left, right):
        if not part.type.is_number:
            raise FilterError(
                f"cannot calculate with a {part.type}", position=position, expected="numbers"
            )
    if DOUBLE in (left.type, right.type) or (
        op == "/" and left.type.is_integral and right.type.is_integral
    ):
        return Arithmetic(
            op, convert(left, DOUBLE, position), convert(right, DOUBLE, position), DOUBLE
        )
    if left.type.is_integral and right.type.is_integral:
        return Arithmetic(op, left, right, BIGINT if BIGINT in (left.type, right.type) else INT)
    left, right = _decimal_operand(left), _decimal_operand(right)
    return Arithmetic(op, left, right, _decimal_result(op, left.type, right.type))


def negate(part: Operand, position: int | None) -> Operand:
    part = _unvoid(part, DOUBLE)
    if not part.type.is_number:
        raise FilterError(f"cannot negate a {part.type}", position=position, expected="a number")
    return Negate(part, part.type)


def _unvoid(part: Operand, other: Type) -> Operand:
    if part.type != VOID:
        return part
    return Literal(None, other if other.is_number else DOUBLE)


def _decimal_operand(part: Operand) -> Operand:
    if part.type.kind is Kind.DECIMAL:
        return part
    if isinstance(part, Literal) and part.value is not None:
        assert isinstance(part.value, int)
        return Literal(Decimal(part.value), tight_decimal(part.value), part.source)
    if isinstance(part, Literal):
        return Literal(None, decimal_of_integral(part.type))
    return Cast(part, decimal_of_integral(part.type))


def _decimal_result(op: ArithmeticOp, left: Type, right: Type) -> Type:
    """Spark's precision and scale of a decimal result, shortened to 38 digits where needed."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match op:
        case "+" | "-":
            scale = max(s1, s2)
            precision = max(p1 - s1, p2 - s2) + scale + 1
        case "*":
            precision, scale = p1 + p2 + 1, s1 + s2
        case "/":
            scale = max(_DIVISION_SCALE_MIN, s1 + p2 + 1)
            precision = p1 - s1 + s2 + scale
    if precision <= DECIMAL_PRECISION_MAX:
        return decimal_type(precision, scale)
    whole = precision - scale
    kept = max(DECIMAL_PRECISION_MAX - whole, min(scale, _DIVISION_SCALE_MIN))
    return decimal_type(DECIMAL_PRECISION_MAX, kept)


def integral_range(type_: Type) -> tuple[int, int]:
    return (INT_MIN, INT_MAX) if type_.kind is Kind.INT else (-(2**63), 2**63 - 1)
