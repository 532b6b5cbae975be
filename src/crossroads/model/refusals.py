"""What a person calls a piece of SQL that we refuse, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from crossroads.model.syntax import unexpected_argument


@dataclass(frozen=True, slots=True)
class Refusal:
    message: str
    hint: str | None = None


_SUBQUERY = Refusal("subqueries are not supported", "a filter sees one event, not tables")
_CAST = Refusal(
    "casts are not supported",
    "compare the attribute as it is, with a literal of its type such as DATE '2020-01-31'",
)
_PARAMETER = Refusal("parameters are not supported", "write the value itself")
_NO_VALUE_OF_CONDITION = Refusal(
    "a condition has no value to compare or calculate with", "combine conditions with AND, OR, NOT"
)
_OPERATORS_ONLY = "of the operators on numbers there are + - * /"

# The first class that fits names it.
_REFUSALS: tuple[tuple[tuple[type[exp.Expr], ...], Refusal], ...] = (
    ((exp.Select, exp.Subquery, exp.Exists, exp.SetOperation), _SUBQUERY),
    ((exp.Cast,), _CAST),  # TryCast too
    ((exp.Parameter, exp.Placeholder, exp.SessionParameter), _PARAMETER),
    ((exp.ILike,), Refusal("ILIKE is not supported", "RLIKE '(?i)…' ignores case")),
    ((exp.Any, exp.All), Refusal("ANY and ALL are not supported", "write the conditions with OR")),
    ((exp.Case, exp.If), Refusal("CASE and IF are not supported", "write it with AND and OR")),
    ((exp.Is,), Refusal("IS takes only NULL or NOT NULL here", "write c or NOT c for a boolean c")),
    ((exp.NullSafeNEQ,), Refusal("IS DISTINCT FROM is not supported", "write NOT a <=> b")),
    ((exp.IntDiv,), Refusal("DIV is not supported", _OPERATORS_ONLY)),
    ((exp.Mod,), Refusal("% is not supported", _OPERATORS_ONLY)),
    (
        (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
        Refusal("operators on bits are not supported", _OPERATORS_ONLY),
    ),
    (
        (exp.DPipe, exp.Concat),
        Refusal("joining strings is not supported", "write one string literal"),
    ),
    ((exp.Bracket, exp.Dot), Refusal("only attributes of the event can be named here")),
    ((exp.Tuple,), Refusal("lists stand only behind IN")),
    ((exp.Interval,), Refusal("intervals are not supported", "compare with a date or timestamp")),
    ((exp.Star,), Refusal("* stands for no value here")),
    (
        (exp.Connector, exp.Not, exp.Predicate, exp.Escape),
        _NO_VALUE_OF_CONDITION,
    ),
    (
        (exp.Binary, exp.Neg, exp.Column, exp.Literal),
        Refusal("a value alone is no condition", "compare it, e.g. price >= 45"),
    ),
)


# Let through in their plain form only.
_FORMS: dict[type[exp.Expr], str] = {
    exp.Between: "BETWEEN",
    exp.In: "IN",
    exp.Like: "LIKE",
    exp.RegexpLike: "RLIKE",
    exp.Contains: "contains()",
    exp.StartsWith: "startswith()",
    exp.EndsWith: "endswith()",
}


def refusal(node: exp.Expr) -> Refusal:
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _SUBQUERY
    if type(node) in _FORMS and unexpected_argument(node) is not None:
        return Refusal(f"this form of {_FORMS[type(node)]} is not supported")
    for classes, known in _REFUSALS:
        if isinstance(node, classes):
            return known
    if isinstance(node, exp.Anonymous):
        return _function(node.name)
    if isinstance(node, exp.Func):
        return _function(node.sql_name())
    return Refusal(f"{type(node).__name__.upper()} is not supported")


def _function(name: str) -> Refusal:
    return Refusal(
        f"the function {name.lower()}() is not supported",
        "functions are startswith, endswith and contains",
    )
