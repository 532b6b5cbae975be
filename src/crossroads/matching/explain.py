"""Why an event matches a filter, or why not: each predicate with its values, truth and weight.

    print("\\n".join(explain(filter_, event).lines()))

    ✗ all of                                      ← decided
      ✓ symbol = 'aapl'   symbol = 'aapl'
      ✗ low <= 18         low = 20.5              ← decided

What **decided**: of an AND that is false its first false part, of an OR that is true its first true
part; where all parts were needed (AND true, OR false), all of them; where the answer is unknown,
the unknown parts. NOT passes through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from crossroads.matching.definition import truth
from crossroads.model.filter import (
    MIRRORED,
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
    Not,
    Operand,
    Or,
    Predicate,
    RLike,
    TextTest,
    Truth,
    attributes_of,
    operands,
)
from crossroads.model.literals import quote_text
from crossroads.model.show import show, show_literal, show_operand
from crossroads.model.types import DOUBLE, INT, Value
from crossroads.model.values import text_of

Event = Mapping[str, Value]

LINE_TEXT_MAX = 72  # characters of a predicate in `lines` and `reason`: an IN may have thousands
REASON_PARTS_MAX = 4  # predicates named in one sentence; more are only counted
_MARKS = {True: "✓", False: "✗", None: "?"}
_WORDS = {
    "contains": ("contains", "does not contain"),
    "startswith": ("starts with", "does not start with"),
    "endswith": ("ends with", "does not end with"),
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node of the filter. `decided`: it is one of those on which the answer rests."""

    filter: Filter
    truth: bool | None
    decided: bool
    values: tuple[tuple[str, Value], ...] = ()  # attributes a predicate looked at
    parts: tuple[Explanation, ...] = ()

    @property
    def matches(self) -> bool:
        return self.truth is True

    @property
    def text(self) -> str:
        match self.filter:
            case And():
                return "all of"
            case Or():
                return "any of"
            case Not():
                return "not"
        return show(_readable(self.filter))

    @property
    def deciding(self) -> Iterator[Explanation]:
        """The predicates that decided, from left to right."""
        if self.decided and not self.parts:
            yield self
        for part in self.parts:
            yield from part.deciding

    @property
    def reason(self) -> str:
        """One short sentence."""
        phrases = list(dict.fromkeys(_phrase(leaf) for leaf in self.deciding))
        named = " and ".join(phrases[:REASON_PARTS_MAX])
        more = len(phrases) - REASON_PARTS_MAX
        return f"{named} and {more} more" if more > 0 else named

    def lines(self) -> list[str]:
        """For people: one line per node, values in a column of their own."""
        rows = list(_rows(self, 0))
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        return [
            f"{text:<{widths[0]}}   {values:<{widths[1]}}   {note}".rstrip()
            for text, values, note in rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `truth` is true, false or null (unknown)."""
        found: dict[str, Any] = {"text": show(self.filter)} if not self.parts else {}
        if self.parts:
            found["of"] = {And: "and", Or: "or", Not: "not"}[type(self.filter)]
        found |= {"truth": self.truth, "decided": self.decided}
        if self.parts:
            found["parts"] = [part.to_dict() for part in self.parts]
        else:
            found["values"] = {name: _plain(value) for name, value in self.values}
        return found


def explain(filter_: Filter, event: Event) -> Explanation:
    """`truth` of every node is that of the definition."""
    return _weighed(_explained(filter_, event), True)


def _explained(filter_: Filter, event: Event) -> Explanation:
    match filter_:
        case And(parts) | Or(parts):
            found = tuple(_explained(part, event) for part in parts)
            truths = {part.truth for part in found}
            decisive = isinstance(filter_, Or)  # the truth of one part that settles the whole
            if decisive in truths:
                whole: bool | None = decisive
            else:
                whole = None if None in truths else not decisive
            return Explanation(filter_, whole, False, parts=found)
        case Not(part):
            inner = _explained(part, event)
            whole = None if inner.truth is None else not inner.truth
            return Explanation(filter_, whole, False, parts=(inner,))
    names = (attr.name for operand in operands(filter_) for attr in attributes_of(operand))
    values = tuple((name, event.get(name)) for name in dict.fromkeys(names))
    return Explanation(filter_, truth(filter_, event), False, values)


def _weighed(node: Explanation, decided: bool) -> Explanation:
    """The same tree with `decided` filled in."""
    chosen: set[int] = set()
    if decided:
        match node.filter:
            case And() | Or():
                agreeing = [at for at, part in enumerate(node.parts) if part.truth is node.truth]
                settled_by_one = node.truth is isinstance(node.filter, Or)
                chosen = set(agreeing[:1] if settled_by_one else agreeing)
            case Not():
                chosen = {0}
    parts = tuple(_weighed(part, at in chosen) for at, part in enumerate(node.parts))
    return Explanation(node.filter, node.truth, decided, node.values, parts)


def _rows(node: Explanation, depth: int) -> Iterator[tuple[str, str, str]]:
    text = f"{'  ' * depth}{_MARKS[node.truth]} {_short(node.text)}"
    values = ", ".join(_short(f"{name} = {_shown(value)}") for name, value in node.values)
    yield text, values, "← decided" if node.decided else ""
    for part in node.parts:
        yield from _rows(part, depth + 1)


# -- sentences -----------------------------------------------------------------------------------


def _phrase(leaf: Explanation) -> str:
    """A deciding predicate with its values, as part of a sentence."""
    known = dict(leaf.values)
    if leaf.truth is None:
        return _unknown_phrase(leaf)
    verb = "is" if leaf.truth else "is not"
    predicate = leaf.filter
    assert not isinstance(predicate, And | Or | Not)
    if isinstance(predicate, Compare) and isinstance(predicate.left, Literal):
        predicate = Compare(MIRRORED[predicate.op], predicate.right, predicate.left)
    match predicate:
        case Constant():
            return f"the filter says {show(predicate)}"
        case Truth(Attr(name, _)):
            return f"{name} = {_shown(known[name])}"
        case IsNull(Attr(name, _)):
            return f"{name} is NULL" if leaf.truth else f"{name} = {_shown(known[name])}"
    subject, rest = _subject(predicate)
    if subject is None:
        with_values = ", ".join(f"{name} = {_shown(value)}" for name, value in leaf.values)
        said = f"{_short(show(_readable(predicate)))} is {'true' if leaf.truth else 'false'}"
        return f"{said} with {with_values}" if with_values else said
    value = f"{subject} = {_shown(known[subject])}"
    match predicate:
        case Compare("=" | "<=>"):
            return value if leaf.truth else f"{value} is not {rest}"
        case Compare(op, _, Literal()):
            return f"{value} {op} {rest}" if leaf.truth else f"{value} is not {op} {rest}"
        case In():
            return _short(f"{value} {verb} in {rest}")
        case TextTest(op):
            said, denied = _WORDS[op]
            return f"{value} {said if leaf.truth else denied} {rest}"
        case Like():
            return f"{value} {verb} LIKE {rest}"
    return f"{value} {verb} RLIKE {rest}"


def _subject(predicate: Predicate) -> tuple[str | None, str]:
    """(attribute, what it is compared with) of a predicate that is about one attribute."""
    match predicate:
        case Compare(_, left, Literal() as right) | TextTest(_, left, Literal() as right):
            return _name(left), _constant(right)
        case In(left, options):
            return _name(left), "(" + ", ".join(map(_constant, options)) + ")"
        case Like(left, pattern, _) | RLike(left, pattern):
            return _name(left), show_literal(pattern)
    return None, ""


def _name(operand: Operand) -> str | None:
    inner = operand.operand if isinstance(operand, Cast) else operand
    return inner.name if isinstance(inner, Attr) else None


def _unknown_phrase(leaf: Explanation) -> str:
    missing = [name for name, value in leaf.values if value is None]
    if missing:
        return " and ".join(f"{name} is NULL" for name in missing)
    assert not isinstance(leaf.filter, And | Or | Not)
    sides = operands(leaf.filter)
    options = leaf.filter.options if isinstance(leaf.filter, In) else ()
    if isinstance(leaf.filter, Constant) or any(
        isinstance(side, Literal) and side.value is None for side in (*sides, *options)
    ):
        return f"{_short(show(_readable(leaf.filter)))} asks about the constant NULL"
    calculated = (side for side in sides if not isinstance(side, Literal))
    shown = " or ".join(_short(show_operand(_readable_operand(side))) for side in calculated)
    return f"{shown} has no result: it overflows or divides by zero"


def _constant(literal: Literal) -> str:
    return show_literal(_readable_literal(literal))


def _readable(filter_: Filter) -> Filter:
    """For the eye only: `price >= 10` compares doubles, and parses to `price >= 10.0D`."""
    match filter_:
        case Compare(op, left, right):
            return Compare(op, _readable_operand(left), _readable_operand(right))
        case In(operand, options):
            return In(operand, tuple(map(_readable_literal, options)))
    return filter_


def _readable_operand(operand: Operand) -> Operand:
    match operand:
        case Literal():
            return _readable_literal(operand)
        case Arithmetic(op, left, right, type_):
            return Arithmetic(op, _readable_operand(left), _readable_operand(right), type_)
    return operand


def _readable_literal(literal: Literal) -> Literal:
    value = literal.value
    if not isinstance(value, float) or "e" in repr(value):
        return literal
    return Literal(int(value), INT) if value.is_integer() else Literal(Decimal(repr(value)), DOUBLE)


def _short(text: str) -> str:
    return text if len(text) <= LINE_TEXT_MAX else text[: LINE_TEXT_MAX - 1] + "…"


def _shown(value: Value) -> str:
    return _short(quote_text(value) if isinstance(value, str) else text_of(value))


def _plain(value: Value) -> bool | int | float | str | None:
    """As JSON can carry it."""
    if isinstance(value, Decimal | date) or (isinstance(value, float) and not math.isfinite(value)):
        return text_of(value)
    return value
