"""Literals as Spark SQL writes them: numbers with their types, strings with their escapes."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from crossroads.errors import FilterError
from crossroads.model.filter import Literal
from crossroads.model.types import (
    BIGINT,
    BIGINT_MAX,
    BIGINT_MIN,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    INT,
    INT_MAX,
    INT_MIN,
    Kind,
    Type,
    decimal_type,
)

_NUMBER = re.compile(
    r"([0-9]+\.?[0-9]*|\.[0-9]+)(E[+-]?[0-9]+)?(BD|[DF])?|([0-9]+)([LSY])", re.IGNORECASE
)
NUMBER_LENGTH_MAX = 400  # characters: the longest double written out, and some zeros
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def number(text: str, *, negative: bool = False, position: int | None = None) -> Literal:
    """`12` int, `3000000000` bigint, `1.50` decimal(3,2), `1e3` double; suffixes L, D and BD."""
    if len(text) > NUMBER_LENGTH_MAX:
        raise FilterError(
            f"a number of {len(text)} characters, over {NUMBER_LENGTH_MAX}", position=position
        )
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise FilterError(f"{text!r} is not a number", position=position)
    digits, exponent = found[1] or found[4], found[2]
    suffix = (found[3] or found[5] or "").upper()
    if suffix in ("S", "Y", "F"):
        raise FilterError(
            f"{text!r}: smallint, tinyint and float literals are not supported",
            position=position,
            expected="a plain number, or one that ends in L, D or BD",
        )
    sign = "-" if negative else ""
    if suffix == "D" or (exponent and suffix != "BD"):
        double = float(sign + digits + (exponent or ""))
        if math.isinf(double):
            raise FilterError(f"{text!r} does not fit a double", position=position)
        return Literal(double, DOUBLE)
    if suffix == "BD" or "." in digits:
        try:
            value = Decimal(sign + digits + (exponent or ""))
        except InvalidOperation as error:  # an exponent beyond all bounds
            raise FilterError(f"{text!r} is not a number", position=position) from error
        return _decimal(value, text, position)
    whole = int(sign + digits)
    if suffix != "L" and INT_MIN <= whole <= INT_MAX:
        return Literal(whole, INT)
    if BIGINT_MIN <= whole <= BIGINT_MAX:
        return Literal(whole, BIGINT)
    if suffix == "L":
        raise FilterError(f"{text!r} does not fit bigint", position=position)
    return _decimal(Decimal(whole), text, position)


def _decimal(value: Decimal, text: str, position: int | None) -> Literal:
    """Spark's type of a decimal literal: as many digits as were written, leading zeros aside."""
    too_long = FilterError(
        f"{text!r} has more than {DECIMAL_PRECISION_MAX} digits", position=position
    )
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if value.adjusted() >= DECIMAL_PRECISION_MAX:  # before 1e999999999BD is written out
        raise too_long
    if exponent > 0:  # 12e3BD has no negative scale in SQL
        value, exponent = Decimal(int(value)), 0
        digits = value.as_tuple().digits
    significant = len("".join(map(str, digits)).lstrip("0"))
    precision = max(significant, -exponent, 1)
    if precision > DECIMAL_PRECISION_MAX:
        raise too_long
    return Literal(value, decimal_type(precision, -exponent))


def tight_decimal(value: int) -> Type:
    """The decimal type that a whole-number literal takes next to a decimal."""
    return decimal_type(len(str(abs(value))), 0)


def decimal_of_integral(type_: Type) -> Type:
    return decimal_type(10, 0) if type_.kind is Kind.INT else decimal_type(20, 0)


def unquote(text: str, position: int | None = None) -> str:
    """The string that a quoted literal stands for, by Spark's rules of escaping."""
    quote, inside = text[0], text[1:-1]
    if quote not in "'\"" or len(text) < 2 or text[-1] != quote:
        raise FilterError("not a string literal", position=position)
    if quote in inside:
        inside = (
            inside.replace(quote * 2, f"\\{quote}")
            if "\\" not in inside
            else _doubled(inside, quote)
        )
    if "\\" not in inside:
        return inside
    value = _ESCAPE.sub(_unescape, inside)
    try:
        value.encode()
    except UnicodeEncodeError:
        # Java strings are UTF-16: two escapes may spell one character, half of one is none.
        try:
            value = value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise FilterError("half of a surrogate pair in a string", position=position) from error
    return value


def _doubled(inside: str, quote: str) -> str:
    """Doubled quotes become escaped ones, but a quote behind a backslash is left alone."""
    return re.sub(
        rf"\\.|{quote}{quote}", lambda m: m[0] if m[0][0] == "\\" else "\\" + quote, inside
    )


def _unescape(found: re.Match[str]) -> str:
    short, long, octal, char = found.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    if char in "%_":
        return found[0]  # kept for LIKE, as Spark does
    return _NAMED.get(char, char)


def quote_text(value: str) -> str:
    """A literal that reads back as this string, and stays on one line."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    for name, char in _NAMED.items():
        if name != "0":
            escaped = escaped.replace(char, f"\\{name}")
    return "'" + escaped.replace("\0", "\\u0000") + "'"
