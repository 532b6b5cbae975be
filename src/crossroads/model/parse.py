"""Text → typed filter: a subset of Spark SQL's WHERE, read by sqlglot, passed by an allow-list.

sqlglot only gives the tree of the shape; every node that may pass has a case below, and anything
else is refused with its position. The text itself never reaches Spark. Literals are read by our own
rules (`literals`), because escapes and number types must be Spark's to the letter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from crossroads.errors import FilterError
from crossroads.model.coerce import arithmetic, comparable, negate, settled_order
from crossroads.model.filter import (
    ArithmeticOp,
    Attr,
    Compare,
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operand,
    RLike,
    TextTest,
    TextTestOp,
    Truth,
    conjunction,
    disjunction,
)
from crossroads.model.like import LikePatternError, parse_like
from crossroads.model.literals import number, unquote
from crossroads.model.refusals import refusal
from crossroads.model.regex import RegexError, check_regex
from crossroads.model.scan import SLOT, LiteralKind, Scanned, scan
from crossroads.model.schema import Schema
from crossroads.model.syntax import (
    NESTING_MAX,
    TOO_DEEP,
    ShapeError,
    spine,
    tree_of,
    unexpected_argument,
)
from crossroads.model.types import BOOLEAN, STRING, VOID, Kind, Type
from crossroads.model.values import canonical

FILTER_LENGTH_MAX = 262_144  # characters: the longest IN with options of ordinary length
IN_SIZE_MAX = 10_000  # options of one IN; more belong in a table to join with
PREDICATES_MAX = 10_000  # leaves of one filter: bounds the work one subscription can cause

# sqlglot warns through logging about syntax it half knows; such nodes are refused here anyway.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], ArithmeticOp] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
}
_LEVELS: tuple[type[exp.Expr], ...] = (exp.Paren, exp.Not, exp.Neg, *_ARITHMETIC)
_TEXT_TESTS: dict[type[exp.Expr], TextTestOp] = {
    exp.StartsWith: "startswith",
    exp.EndsWith: "endswith",
    exp.Contains: "contains",
}


def parse(text: str, schema: Schema) -> Filter:
    """The typed filter, or a FilterError that says where and what was expected."""
    if len(text) > FILTER_LENGTH_MAX:
        raise FilterError(f"the filter has {len(text)} characters, over {FILTER_LENGTH_MAX}")
    scanned = scan(text)
    if not scanned.shape.strip():  # also: nothing but comments
        raise FilterError("the filter is empty", expected="a condition such as price >= 45")
    try:
        return _Reader(scanned, schema).filter(tree_of(scanned.shape))
    except ShapeError as error:
        raise FilterError(
            error.message, position=scanned.original(error.position), expected=error.expected
        ) from error
    except RecursionError as error:
        raise FilterError(TOO_DEEP) from error


class _Reader:
    """Walks one sqlglot tree. Methods return typed nodes or raise FilterError."""

    def __init__(self, scanned: Scanned, schema: Schema) -> None:
        self.scanned = scanned
        self.schema = schema
        self.depth = 0
        self.leaves = 0

    @contextmanager
    def level(self, node: exp.Expr) -> Iterator[None]:
        """Counts what stands inside what; AND and OR need parentheses to nest, so those count."""
        deeper = isinstance(node, _LEVELS)
        self.depth += deeper
        if self.depth > NESTING_MAX:
            raise self.refuse(node, TOO_DEEP)
        yield
        self.depth -= deeper  # after an error nobody asks any more

    # -- conditions --------------------------------------------------------------------------

    def filter(self, node: exp.Expr) -> Filter:
        with self.level(node):
            return self._filter(node)

    def _filter(self, node: exp.Expr) -> Filter:
        self.check_arguments(node)
        match node:
            case exp.Paren():
                return self.filter(node.this)
            case exp.And():
                return conjunction([self.filter(part) for part in spine(node, exp.And)])
            case exp.Or():
                return disjunction([self.filter(part) for part in spine(node, exp.Or)])
            case exp.Not():
                return Not(self.filter(node.this))
        self.leaves += 1
        if self.leaves > PREDICATES_MAX:
            raise FilterError(
                f"more than {PREDICATES_MAX} predicates", position=self.position(node)
            )
        return self.predicate(node)

    def predicate(self, node: exp.Expr) -> Filter:
        """A leaf: every kind of it that may pass is named here."""
        op = _COMPARISONS.get(type(node))
        if op is not None:
            return self.compare(op, node.this, node.expression)
        text_test = _TEXT_TESTS.get(type(node))
        if text_test is not None:
            return self.text_test(text_test, node)
        match node:
            case exp.Between():
                return conjunction(
                    [
                        self.compare(">=", node.this, node.args["low"]),
                        self.compare("<=", node.this, node.args["high"]),
                    ]
                )
            case exp.In():
                return self.in_list(node)
            case exp.Like():
                return self.like(node, "\\")
            case exp.Escape() if isinstance(node.this, exp.Like):
                self.check_arguments(node.this)
                return self.like(node.this, self.escape_character(node.expression))
            case exp.RegexpLike():
                return self.rlike(node)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self.operand(node.this))
            case exp.Boolean():
                return Constant(bool(node.this))
            case exp.Null():
                return Constant(None)
            case exp.Column() | exp.Dot() if self.literal(node) is None:
                return self.bare(node)
        raise self.unsupported(node)

    def compare(self, op: Comparison, left: exp.Expr, right: exp.Expr) -> Filter:
        sides = [self.operand(left), self.operand(right)]
        settled = settled_order(op, *sides)
        if settled is not None:
            return Constant(settled)
        one, other = comparable(sides, self.position(right, left), two_sides=True)
        return Compare(op, one, other)

    def in_list(self, node: exp.In) -> Filter:
        options = node.args.get("expressions") or []
        if not options:
            raise self.refuse(node, "IN needs constants", "e.g. IN (1, 2)")
        if len(options) > IN_SIZE_MAX:
            raise self.refuse(node, f"IN has {len(options)} options, over {IN_SIZE_MAX}")
        sought, *found = parts = [self.operand(node.this), *map(self.operand, options)]
        for option, part in zip(options, found, strict=True):
            if not isinstance(part, Literal):
                raise self.refuse(
                    option, "IN takes constants only", "literals; use = and OR for the rest"
                )
            comparable([sought, part], self.position(option, node))  # so the error says which
        converted = comparable(parts, self.position(node))
        literals = tuple(part for part in converted[1:] if isinstance(part, Literal))
        assert len(literals) == len(options)
        return In(converted[0], literals)

    def text_test(self, op: TextTestOp, node: exp.Expr) -> Filter:
        return TextTest(op, self.text_operand(node.this), self.text_operand(node.expression))

    def like(self, node: exp.Like, escape: str) -> Filter:
        found = self.plain_like(node, escape)
        return Not(found) if node.args.get("negate") else found

    def plain_like(self, node: exp.Like, escape: str) -> Filter:
        operand, pattern = self.text_operand(node.this), self.pattern(node.expression)
        if pattern.value is None:
            return TextTest("contains", operand, pattern)
        try:
            parse_like(str(pattern.value), escape)
        except LikePatternError as error:
            raise self.bad_pattern(node.expression, error) from error
        return Like(operand, pattern, escape)

    def rlike(self, node: exp.RegexpLike) -> Filter:
        operand, pattern = self.text_operand(node.this), self.pattern(node.expression)
        if pattern.value is None:
            return TextTest("contains", operand, pattern)
        try:
            check_regex(str(pattern.value))
        except RegexError as error:
            raise self.bad_pattern(node.expression, error) from error
        return RLike(operand, pattern)

    def bad_pattern(self, node: exp.Expr, error: LikePatternError | RegexError) -> FilterError:
        return FilterError(error.message, position=self.position(node), hint=error.hint)

    def escape_character(self, node: exp.Expr) -> str:
        escape = self.pattern(node).value
        if not isinstance(escape, str) or len(escape) != 1:
            raise self.refuse(node, "ESCAPE takes one character", "e.g. ESCAPE '!'")
        return escape

    def pattern(self, node: exp.Expr) -> Literal:
        part = self.operand(node)
        if not isinstance(part, Literal) or part.type not in (STRING, VOID):
            raise self.refuse(node, "the pattern must be a string literal")
        return Literal(part.value, STRING, part.source)

    def bare(self, node: exp.Expr) -> Filter:
        attr = self.attribute(node)
        if attr.type != BOOLEAN:
            raise self.refuse(node, f"{attr.name} ({attr.type}) is not a condition", "a comparison")
        return Truth(attr)

    # -- operands ----------------------------------------------------------------------------

    def text_operand(self, node: exp.Expr) -> Operand:
        part = self.operand(node)
        if part.type == VOID:
            return Literal(None, STRING)
        if not part.type.is_text:
            raise self.refuse(node, f"this is of type {part.type}", "text")
        return part

    def operand(self, node: exp.Expr) -> Operand:
        with self.level(node):
            return self._operand(node)

    def _operand(self, node: exp.Expr) -> Operand:
        self.check_arguments(node)
        op = _ARITHMETIC.get(type(node))
        if op is not None:
            left, right = self.operand(node.this), self.operand(node.expression)
            return arithmetic(op, left, right, self.position(node))
        match node:
            case exp.Paren():
                return self.operand(node.this)
            case exp.Column() | exp.Dot() | exp.Literal():
                literal = self.literal(node)
                return self.attribute(node) if literal is None else literal
            case exp.Null():
                return Literal(None, VOID)
            case exp.Boolean():
                return Literal(bool(node.this), BOOLEAN)
            case exp.Neg():
                return self.negative(node)
        raise self.unsupported(node)

    def attribute(self, node: exp.Expr) -> Attr:
        name = ".".join(self.names(node))
        found = self.schema.find(name)
        if found is None:
            raise FilterError(
                f"no attribute {name!r}", position=self.position(node), hint=self.schema.near(name)
            )
        return Attr(found.name, found.type)

    def names(self, node: exp.Expr) -> list[str]:
        """The parts of a dotted name; sqlglot makes a Dot of those from the fifth on."""
        match node:
            case exp.Column():
                return [part.name for part in node.parts]
            case exp.Dot(this=inner, expression=exp.Identifier() as last):
                return [*self.names(inner), last.name]
        raise self.unsupported(node)

    def negative(self, node: exp.Neg) -> Operand:
        """A minus before a number belongs to the number: -2147483648 is an int."""
        literal = self.literal(node.this, negative=True)
        return literal or negate(self.operand(node.this), self.position(node))

    def literal(self, node: exp.Expr, *, negative: bool = False) -> Literal | None:
        """The literal whose place this is, if it is one."""
        slot = SLOT.fullmatch(node.name) if isinstance(node, exp.Column | exp.Literal) else None
        if slot is None:
            return None
        source = (int(slot[1]), negative)
        written = self.scanned.literals[source[0]]
        if written.kind is LiteralKind.NUMBER:
            found = number(written.text, negative=negative, position=written.start)
            return replace(found, source=source)
        if negative:
            raise FilterError("only a number can be negative", position=written.start)
        value = unquote(written.text, written.start)
        if written.kind is LiteralKind.STRING:
            return Literal(value, STRING, source)
        type_ = Type(Kind(written.kind))
        try:
            return Literal(canonical(type_, value), type_, source)
        except ValueError as error:
            raise FilterError(str(error), position=written.start) from error

    # -- errors ------------------------------------------------------------------------------

    def position(self, *nodes: exp.Expr) -> int | None:
        """Where the first of them starts whose place is known (TRUE and NULL have none)."""
        for node in nodes:
            starts = [int(part.meta["start"]) for part in node.walk() if "start" in part.meta]
            if starts:
                return self.scanned.original(min(starts))
        return None

    def refuse(self, node: exp.Expr, message: str, expected: str | None = None) -> FilterError:
        return FilterError(message, position=self.position(node), expected=expected)

    def unsupported(self, node: exp.Expr) -> FilterError:
        why = refusal(node)
        return FilterError(why.message, position=self.position(node), hint=why.hint)

    def check_arguments(self, node: exp.Expr) -> None:
        if unexpected_argument(node) is not None:
            raise self.unsupported(node)
