"""A typed filter → a Spark Column, node by node. No text of a user ever reaches Spark's parser.

Meaning is the definition's, in any session: what depends on a session's settings (time zone, ANSI)
is written so that it does not. Literals come from a callable, so that they can be constants or the
columns of a table of literals. RLIKE has RE2's meaning, which Spark cannot give: what matches is
found beforehand, as a column with the numbers of the patterns that match the event's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from crossroads.model.filter import (
    And,
    Arithmetic,
    ArithmeticOp,
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
    Predicate,
    RLike,
    TextTest,
    TextTestOp,
    Truth,
)
from crossroads.model.types import DOUBLE, VOID, Kind, Type, Value, to_key

EVENT_ROW = "_event_row"  # which event a pair is about: bigint
ORDINAL = "_ordinal"  # which subscription: its place in the table, int

SECONDS_PER_DAY = 86_400

_COMPARE: dict[Comparison, Callable[[Column, Column], Column]] = {
    "=": lambda left, right: left == right,
    "<=>": lambda left, right: left.eqNullSafe(right),
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_CALCULATE: dict[ArithmeticOp, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
    "/": F.try_divide,
}
_TEST: dict[TextTestOp, Callable[[Column, Column], Column]] = {
    "startswith": F.startswith,
    "endswith": F.endswith,
    "contains": F.contains,
}


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def instant_of_day(day: Column) -> Column:
    """The midnight in UTC with which a date begins; a cast would take the session's time zone."""
    return F.timestamp_seconds(F.unix_date(day).cast("bigint") * SECONDS_PER_DAY)


def literal_column(literal: Literal) -> Column:
    """The constant, of exactly its type."""
    return _constant(literal.value, literal.type)


def _constant(value: Value, type_: Type) -> Column:
    if value is None:
        return F.lit(None).cast("boolean" if type_ == VOID else _spark_name(type_))
    match type_.kind:
        case Kind.DECIMAL:
            return F.lit(f"{value:f}").cast(_spark_name(type_))
        # As counts from the epoch: dates before 1582 would change calendars on their way.
        case Kind.DATE:
            return F.date_from_unix_date(F.lit(to_key(type_, value)))
        case Kind.TIMESTAMP:
            return F.timestamp_micros(F.lit(to_key(type_, value)).cast("bigint"))
        case Kind.DOUBLE:
            assert isinstance(value, float)
            return F.lit(str(value + 0.0)).cast("double")  # -0.0 is 0.0, in hash sets too
        case _:
            return F.lit(value).cast(_spark_name(type_))


def _spark_name(type_: Type) -> str:
    return "string" if type_.is_text else str(type_)


class Conditions:
    """Makes Columns of filters; `literal` gives the literals, `hits` the answers of RLIKE."""

    def __init__(
        self,
        literal: Callable[[Literal], Column] = literal_column,
        hits: Callable[[RLike], Column] | None = None,
    ) -> None:
        self._literal = literal
        self._hits = hits

    def condition(self, filter_: Filter) -> Column:
        """True, false or NULL for every event, as the definition says."""
        match filter_:
            case And(parts):
                return balanced(and_, [self.condition(part) for part in parts])
            case Or(parts):
                return balanced(or_, [self.condition(part) for part in parts])
            case Not(part):
                return ~self.condition(part)
            case _:
                return self._predicate(filter_)

    def _predicate(self, predicate: Predicate) -> Column:
        match predicate:
            case Constant(known):
                return F.lit(known).cast("boolean")
            case Truth(attr):
                return self.operand(attr)
            case IsNull(operand):
                return self.operand(operand).isNull()
            case Compare(op, left, right):
                return _COMPARE[op](self.operand(left), self.operand(right))
            case In(operand, options):
                return self._membership(operand, options)
            case TextTest(op, left, right):
                return _TEST[op](self.operand(left), self.operand(right))
            case Like(operand, pattern, escape):
                return F.like(self.operand(operand), self._literal(pattern), F.lit(escape))
            case RLike():
                assert self._hits is not None, "RLIKE needs its patterns matched beforehand"
                return self._hits(predicate)

    def _membership(self, operand: Operand, options: Sequence[Literal]) -> Column:
        sought = self.operand(operand)
        if operand.type == DOUBLE:
            # Spark turns many constants into a hash set, in which -0.0 would not be 0.0.
            sought = sought + F.lit(0.0)
        return sought.isin(*(self._literal(option) for option in options))

    def operand(self, operand: Operand) -> Column:
        match operand:
            case Attr(name, _):
                return F.col(quoted(name))
            case Literal():
                return self._literal(operand)
            case Cast(inner, type_) if type_.kind is Kind.TIMESTAMP:
                return instant_of_day(self.operand(inner))
            case Cast(inner, type_):
                return self.operand(inner).cast(_spark_name(type_))
            case Negate(inner, type_) if type_.is_integral:
                # The least integer has no opposite: NULL, and not an error or itself.
                return F.try_subtract(F.lit(0).cast(_spark_name(type_)), self.operand(inner))
            case Negate(inner, _):
                return -self.operand(inner)
            case Arithmetic(op, left, right, _):
                return _CALCULATE[op](self.operand(left), self.operand(right))


def balanced(join: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    """Parts joined as a balanced tree: Spark walks trees recursively, and a chain may be long."""
    if len(parts) <= 2:
        return reduce(join, parts)
    half = len(parts) // 2
    return join(balanced(join, parts[:half]), balanced(join, parts[half:]))
