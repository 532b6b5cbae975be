"""The shape of a filter → sqlglot's tree, or why there is none. Nothing is let through here yet."""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from crossroads.model.scan import SLOT

# Parentheses, NOTs, minuses and operations inside each other. sqlglot takes up to 20 Python calls
# for each, of the 1,000 that Python allows: this leaves the caller over 300.
NESTING_MAX = 32
SHAPES_CACHED = 4_096  # trees kept; a subscription set rarely has more distinct shapes
# Characters of a shape worth keeping: trees take hundreds of bytes per character, so a few thousand
# long ones would fill the memory. Long shapes seldom repeat.
SHAPE_CACHED_MAX = 2_000
TOO_DEEP = f"nested deeper than {NESTING_MAX} levels"


class ShapeError(Exception):
    """The shape cannot be read. `position` is an offset into the shape."""

    def __init__(self, position: int, message: str, expected: str | None = None) -> None:
        super().__init__(position, message, expected)
        self.position = position
        self.message = message
        self.expected = expected


def tree_of(shape: str) -> exp.Expr:
    """sqlglot's tree of a shape. Often a kept one: the tree is read, never changed."""
    return _kept_tree(shape) if len(shape) <= SHAPE_CACHED_MAX else _tree(shape)


@lru_cache(maxsize=SHAPES_CACHED)
def _kept_tree(shape: str) -> exp.Expr:
    return _tree(shape)


def _tree(shape: str) -> exp.Expr:
    _check_brackets(shape)
    try:
        return sqlglot.parse_one(shape, read="spark", into=exp.Condition)
    except ParseError as error:
        raise _unread(shape, error) from error
    except SqlglotError as error:
        raise ShapeError(0, "cannot be read", "a Spark SQL condition") from error


def _unread(shape: str, error: ParseError) -> ShapeError:
    first = error.errors[0] if error.errors else {}
    word = str(first.get("highlight") or "")
    line, column = first.get("line") or 1, first.get("col") or 1
    start = sum(len(part) + 1 for part in shape.split("\n")[: line - 1])
    position = max(0, start + column - max(len(word), 1))
    shown = "a literal" if SLOT.fullmatch(word.strip("'")) else repr(word)
    description = str(first.get("description") or "")
    if description.startswith("Expecting "):
        return ShapeError(position, f"cannot be read after {shown}", description[10:])
    if description.startswith("Required"):  # an operator lacks a side, or the text ends too early
        return ShapeError(position, f"something is missing beside {shown}", "a complete condition")
    return ShapeError(position, f"unexpected {shown}", "AND, OR, or the end of the filter")


_BRACKETS = re.compile(r"`[^`]*`|[()]")


def _check_brackets(shape: str) -> None:
    """Refuse before the (recursive) parser meets it, and say it better than the parser would."""
    opened: list[int] = []
    for found in _BRACKETS.finditer(shape):
        if found[0] == "(":
            opened.append(found.start())
        elif found[0] == ")" and opened:
            opened.pop()
        elif found[0] == ")":
            raise ShapeError(found.start(), "this parenthesis was never opened")
        if len(opened) > NESTING_MAX:
            raise ShapeError(found.start(), TOO_DEEP)
    if opened:
        raise ShapeError(opened[-1], "this parenthesis is never closed")


# What a node may carry. sqlglot puts the rest of SQL into further arguments of the same nodes
# (NOT LIKE is a LIKE with `negate`), which must never be overlooked.
_PLAIN = frozenset({"this", "expression"})
_ARGUMENTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Div: _PLAIN | {"safe", "typed"},  # what sqlglot says of Spark's division in general
    exp.In: frozenset({"this", "expressions"}),
    exp.Like: _PLAIN | {"negate"},
    exp.Literal: frozenset({"this", "is_string"}),
}


def unexpected_argument(node: exp.Expr) -> str | None:
    """The name of something the node carries that no reader of ours looks at."""
    allowed = _ARGUMENTS.get(type(node), _PLAIN)
    return next((name for name, value in node.args.items() if value and name not in allowed), None)


def spine(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The parts of a left-deep chain, in order, without recursion: chains may be long."""
    parts: list[exp.Expr] = []
    while isinstance(node, kind):
        parts.append(node.args["expression"])
        node = node.args["this"]
    parts.append(node)
    return parts[::-1]
