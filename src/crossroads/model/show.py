"""Typed filter → text that parses back to the same filter."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal

from sqlglot.dialects.spark import Spark

from crossroads.model.filter import (
    And,
    Arithmetic,
    Attr,
    Cast,
    Compare,
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
from crossroads.model.literals import quote_text
from crossroads.model.types import BIGINT, INT_MAX, INT_MIN, Kind
from crossroads.model.values import text_of

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_FINE_AS_NAMES = {"DATE", "TIMESTAMP"}  # keywords that both Spark and sqlglot take as columns
_KEYWORDS = set(Spark.Tokenizer.KEYWORDS) | set(Spark.Parser.NO_PAREN_FUNCTION_PARSERS)


def show(filter_: Filter) -> str:
    """One line of Spark SQL."""
    match filter_:
        case And(parts):
            return " AND ".join(_inside(part, (Or,)) for part in parts)
        case Or(parts):
            return " OR ".join(map(show, parts))
        case Not(part):
            return "NOT " + _inside(part, (And, Or))
        case Compare(op, left, right):
            return f"{show_operand(left)} {op} {show_operand(right)}"
        case In(operand, options):
            return f"{show_operand(operand)} IN ({', '.join(map(show_operand, options))})"
        case TextTest(op, left, right):
            return f"{op}({show_operand(left)}, {show_operand(right)})"
        case Like(operand, pattern, escape):
            tail = "" if escape == "\\" else f" ESCAPE {quote_text(escape)}"
            return f"{show_operand(operand)} LIKE {show_literal(pattern)}{tail}"
        case RLike(operand, pattern):
            return f"{show_operand(operand)} RLIKE {show_literal(pattern)}"
        case IsNull(operand):
            return f"{show_operand(operand)} IS NULL"
        case Truth(attr):
            return show_name(attr.name)
        case Constant(value):
            return "NULL" if value is None else str(value).upper()


def _inside(part: Filter, bracketed: tuple[type, ...]) -> str:
    return f"({show(part)})" if isinstance(part, bracketed) else show(part)


def show_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and not any(
        part.upper() in _KEYWORDS and part.upper() not in _FINE_AS_NAMES for part in name.split(".")
    ):
        return name
    return f"`{name}`"


def show_operand(operand: Operand) -> str:
    match operand:
        case Attr(name, _):
            return show_name(name)
        case Literal():
            return show_literal(operand)
        case Cast(inner, _):
            return show_operand(inner)  # parsing puts the conversion back
        case Arithmetic(op, left, right, _):
            # The left side of a chain needs no brackets: a - b - c is read from the left.
            rank = _RANK[op]
            return f"{_term(left, rank)} {op} {_term(right, rank + 1)}"
        case Negate(inner, _):
            return f"-({show_operand(inner)})"  # -5 without brackets would be a literal


_RANK = {"+": 0, "-": 0, "*": 1, "/": 1}


def _term(operand: Operand, rank: int) -> str:
    inner = operand.operand if isinstance(operand, Cast) else operand
    shown = show_operand(inner)
    return f"({shown})" if isinstance(inner, Arithmetic) and _RANK[inner.op] < rank else shown


def show_literal(literal: Literal) -> str:
    match literal.value:
        case None:
            return "NULL"
        case bool(value):
            return str(value).upper()
        case str(value):
            return quote_text(value)
        case float(value):
            assert math.isfinite(value), "no text stands for an infinite or NaN literal"
            return f"{value!r}D" if "e" not in repr(value) else repr(value)
        case Decimal() as value:
            return _decimal(value)
        case int(value):
            small = INT_MIN <= value <= INT_MAX
            return f"{value}L" if literal.type == BIGINT and small else str(value)
        case datetime() as value:
            return f"TIMESTAMP '{text_of(value)}'"
        case value:
            return f"{'DATE' if literal.type.kind is Kind.DATE else 'TIMESTAMP'} '{text_of(value)}'"


def _decimal(value: Decimal) -> str:
    text = f"{value:f}"
    return text if "." in text else text + "BD"
