"""Random schemas, events and filters for property tests (hypothesis).

    @given(st.data())
    def test_mine(data):
        schema = data.draw(schemas())
        text = data.draw(filters(schema))
        event = data.draw(events(schema))
        assert my_matcher(text, event) == matches(parse(text, schema), event)

Values and constants come from the same small pools (`pools`), so predicates are often true, often
false, and often unknown. Filters are valid text and use the whole language. `filter_twins` also
gives the text to hand to Spark, where two things are written otherwise: a dotted name needs
backticks, and arithmetic that may overflow needs try_add and its like, because Spark's plain
operators stop the query where ours give NULL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from crossroads.errors import FilterError
from crossroads.model.filter import ArithmeticOp
from crossroads.model.literals import quote_text
from crossroads.model.parse import parse
from crossroads.model.scan import LiteralKind, LiteralText, scan
from crossroads.model.schema import Attribute, Schema
from crossroads.model.show import show_name
from crossroads.model.types import BIGINT, Kind, Type, Value, to_key
from crossroads.model.values import text_of
from crossroads.testing import pools
from crossroads.testing.constants import (
    COMPARABLE_KINDS,
    TextConstants,
    constants,
    patterns,
    quoted,
)

Event = dict[str, Value]

ID = "id"  # every schema has it: a bigint that is never NULL
_NAMES = ("a", "b", "price", "Symbol", "order.total", "two words", "date", "select", "日付", "x1")
_KINDS = tuple(kind for kind in Kind if kind is not Kind.VOID)
_DOMAINS = ("none", "none", "values", "both", "min", "max")
_COMPARISONS = ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=")
# As columns of them are read: no exponent, no suffix, at most 15 digits.
_PLAIN_NUMBERS = (
    *("0", "1", "2", "3", "5", "7", "10", "007", "2147483647", "2147483648", "900719925474099"),
    *("1.0", "2.5", "2.50", ".5", "0.01", "0.005", "999.99", "0.1"),
)
_MOMENT = re.compile(r"['\"]\d+-\d+-\d")
_TRY: dict[ArithmeticOp, str] = {
    "+": "try_add",
    "-": "try_subtract",
    "*": "try_multiply",
    "/": "try_divide",
}


@dataclass(frozen=True, slots=True)
class FilterText:
    """One filter twice: as we read it, and as Spark does where it must be written otherwise."""

    text: str
    spark: str

    def __str__(self) -> str:
        return self.text


def _same(text: str) -> FilterText:
    return FilterText(text, text)


def _join(template: str, *parts: FilterText) -> FilterText:
    return FilterText(
        template.format(*(part.text for part in parts)),
        template.format(*(part.spark for part in parts)),
    )


# -- schemas and events ------------------------------------------------------------------------


def types(kinds: Collection[Kind] = _KINDS) -> st.SearchStrategy[Type]:
    plain = [Type(kind) for kind in kinds if kind is not Kind.DECIMAL]
    decimals = pools.DECIMAL_TYPES if Kind.DECIMAL in kinds else ()
    return st.sampled_from((*plain, *decimals))


@st.composite
def schemas(
    draw: st.DrawFn,
    *,
    max_attributes: int = 6,
    kinds: Collection[Kind] = _KINDS,
    domains: bool = False,
) -> Schema:
    """`id` and up to `max_attributes` others, some with names that need quoting.

    `domains`: some attributes have one, and `events` keeps to none of them.
    """
    names = draw(
        st.lists(st.sampled_from(_NAMES), min_size=1, max_size=max_attributes, unique=True)
    )
    drawn = [draw(_attribute(name, draw(types(kinds)), domains)) for name in names]
    return Schema("random", (ID,), (Attribute(name=ID, type=BIGINT), *drawn))


@st.composite
def _attribute(draw: st.DrawFn, name: str, type_: Type, domains: bool) -> Attribute:
    """`domains`: some have an enumeration, or one or both ends of a domain, infinite ones too."""
    domain = draw(st.sampled_from(_DOMAINS)) if domains else "none"
    if domain == "none":
        return Attribute(name=name, type=type_)
    pool = [value for value in pools.pool(type_) if value == value]  # NaN is no end of anything
    if domain == "values":
        listed = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4))
        return Attribute(name=name, type=type_, values=tuple(dict.fromkeys(listed)))
    ends = draw(st.tuples(st.sampled_from(pool), st.sampled_from(pool)))
    low, high = sorted(ends, key=lambda value: to_key(type_, value))
    return Attribute(
        name=name,
        type=type_,
        min=low if domain in ("both", "min") else None,
        max=high if domain in ("both", "max") else None,
    )


def values(type_: Type) -> st.SearchStrategy[Value]:
    """NULL every fourth time."""
    pool = pools.pool(type_)
    return st.integers(0, 3).flatmap(lambda n: st.sampled_from(pool) if n else st.none())


@st.composite
def events(draw: st.DrawFn, schema: Schema) -> Event:
    """One event by attribute name; NULLs are there as None. Id attributes are never NULL."""
    return {
        attribute.name: draw(
            st.sampled_from(pools.pool(attribute.type))
            if attribute.name in schema.id
            else values(attribute.type)
        )
        for attribute in schema.attributes
    }


@st.composite
def event_lists(
    draw: st.DrawFn, schema: Schema, *, min_size: int = 0, max_size: int = 20
) -> list[Event]:
    """Events with distinct ids, if the schema's id is ours."""
    found = draw(st.lists(events(schema), min_size=min_size, max_size=max_size))
    if schema.id == (ID,):
        for number, event in enumerate(found):
            event[ID] = number
    return found


def event_table(schema: Schema, found: Sequence[Event]) -> pa.Table:
    """The events as a table in the schema's own columns."""
    return pa.Table.from_pylist(found, schema=schema.arrow)


# -- filters -----------------------------------------------------------------------------------


def filters(
    schema: Schema, *, depth: int = 3, rlike: bool = True, arithmetic: bool = True
) -> st.SearchStrategy[str]:
    """Valid filter text over the schema; `depth` bounds how often AND, OR and NOT nest."""
    return filter_twins(schema, depth=depth, rlike=rlike, arithmetic=arithmetic).map(str)


def filter_twins(
    schema: Schema, *, depth: int = 3, rlike: bool = True, arithmetic: bool = True
) -> st.SearchStrategy[FilterText]:
    leaf = predicate_twins(schema, rlike=rlike, arithmetic=arithmetic)
    found = leaf
    for _ in range(depth):
        found = st.one_of(leaf, _combined(found))
    return found


@st.composite
def filters_alike(draw: st.DrawFn, schema: Schema, *, size: int = 5, depth: int = 2) -> list[str]:
    """Filters of one shape with constants of their own: `model.shapes` reads them as columns."""
    text = draw(filters(schema, depth=depth, arithmetic=False))
    others = [draw(_refilled(text)) for _ in range(size - 1)]
    return [text, *(other if _parses(other, schema) else text for other in others)]


@st.composite
def filter_lists(
    draw: st.DrawFn, schema: Schema, *, depth: int = 2, max_alone: int = 4
) -> list[str]:
    """Both ways in which a table of filters is read: some by themselves, some of one shape."""
    alone = draw(st.lists(filters(schema, depth=depth), min_size=1, max_size=max_alone))
    return alone + draw(filters_alike(schema, depth=depth))


@st.composite
def _refilled(draw: st.DrawFn, text: str) -> str:
    """The same filter with other constants; they may not fit where these stood."""
    pieces: list[str] = []
    done = 0
    for literal in scan(text).literals:
        before = text[done : literal.start]
        # What follows ESCAPE belongs to the shape: it says how the pattern is read.
        stays = before.rstrip().upper().endswith("ESCAPE")
        pieces += [before, literal.text if stays else draw(_constant_like(literal))]
        done = literal.start + len(literal.text)
    return "".join([*pieces, text[done:]])


def _constant_like(literal: LiteralText) -> st.SearchStrategy[str]:
    """Another constant of that kind, written plainly: the odd ways are not read as columns."""
    if literal.kind is LiteralKind.NUMBER:
        return st.sampled_from(_PLAIN_NUMBERS)
    if literal.kind is LiteralKind.STRING and not _MOMENT.match(literal.text):
        pieces = TextConstants.pieces((*pools.TEXTS, *pools.URLS, *pools.PATHS))
        forms = st.sampled_from(("{}", "{}", "{}", "{}%", "%{}", "%{}%"))
        return st.builds(str.format, forms, st.sampled_from(pieces)).map(quote_text)
    moments = pools.TIMESTAMPS if len(literal.text) > len("'0001-01-01'") else pools.DATES
    return st.sampled_from(moments).map(lambda moment: f"'{text_of(moment)}'")


def _parses(text: str, schema: Schema) -> bool:
    try:
        parse(text, schema)
    except FilterError:
        return False
    return True


@st.composite
def _combined(draw: st.DrawFn, inner: st.SearchStrategy[FilterText]) -> FilterText:
    word = draw(st.sampled_from(("AND", "OR", "NOT", "and", "!")))
    if word in ("NOT", "!"):
        return _join(word + " ({})", draw(inner))
    parts = draw(st.lists(inner, min_size=2, max_size=3))
    # Bare parts must be predicates or chains that bind as tightly; brackets are always right.
    return _join(f" {word} ".join("({})" for _ in parts), *parts)


def predicate_twins(
    schema: Schema, *, rlike: bool = True, arithmetic: bool = True
) -> st.SearchStrategy[FilterText]:
    """One predicate of any kind that the schema allows."""
    attrs = schema.attributes
    texts = [a for a in attrs if a.type.is_text]
    numbers = [a for a in attrs if a.type.is_number]
    flags = [a for a in attrs if a.type.kind is Kind.BOOLEAN]
    kinds = [
        st.sampled_from(attrs).flatmap(lambda a: _comparison(schema, a)),
        st.sampled_from(attrs).flatmap(_membership),
        st.sampled_from(attrs).flatmap(_between),
        st.sampled_from(attrs).flatmap(_null_test),
        st.sampled_from(("TRUE", "FALSE", "NULL", "NULL IS NULL", "NULL <=> NULL", "1 = 1.0")).map(
            _same
        ),
    ]
    if texts:
        kinds += [
            st.sampled_from(texts).flatmap(lambda a: _text_test(schema, a)),
            st.sampled_from(texts).flatmap(_like),
        ]
        if rlike:
            kinds.append(st.sampled_from(texts).flatmap(_rlike))
    if flags:
        kinds.append(st.sampled_from(flags).flatmap(_bare))
    if numbers and arithmetic:
        kinds.append(_calculation(schema, numbers))
    return st.one_of(kinds)


def _name(attribute: Attribute) -> FilterText:
    shown = show_name(attribute.name)
    # Spark reads an unquoted dot as a field of a struct; we read it as part of the name.
    return FilterText(shown, shown if shown.startswith("`") else f"`{attribute.name}`")


def _constant(attribute: Attribute) -> st.SearchStrategy[FilterText]:
    return constants(attribute.type).map(_same)


@st.composite
def _comparison(draw: st.DrawFn, schema: Schema, attribute: Attribute) -> FilterText:
    like = COMPARABLE_KINDS[attribute.type.kind]
    others = [a for a in schema.attributes if a.type.kind in like]
    other = draw(
        st.one_of(_constant(attribute), _constant(attribute), st.sampled_from(others).map(_name))
    )
    sides = [_name(attribute), other]
    if draw(st.booleans()):
        sides.reverse()
    return _join(f"{{}} {draw(st.sampled_from(_COMPARISONS))} {{}}", *sides)


@st.composite
def _membership(draw: st.DrawFn, attribute: Attribute) -> FilterText:
    options = draw(st.lists(_constant(attribute), min_size=1, max_size=4))
    word = draw(st.sampled_from(("IN", "NOT IN", "in")))
    return _join(f"{{}} {word} ({', '.join('{}' for _ in options)})", _name(attribute), *options)


@st.composite
def _between(draw: st.DrawFn, attribute: Attribute) -> FilterText:
    word = draw(st.sampled_from(("BETWEEN", "NOT BETWEEN")))
    return _join(
        f"{{}} {word} {{}} AND {{}}",
        _name(attribute),
        draw(_constant(attribute)),
        draw(_constant(attribute)),
    )


def _null_test(attribute: Attribute) -> st.SearchStrategy[FilterText]:
    return st.sampled_from(("{} IS NULL", "{} IS NOT NULL", "NOT {} IS NULL")).map(
        lambda template: _join(template, _name(attribute))
    )


def _bare(attribute: Attribute) -> st.SearchStrategy[FilterText]:
    return st.sampled_from(("{}", "NOT {}", "({})")).map(
        lambda template: _join(template, _name(attribute))
    )


@st.composite
def _text_test(draw: st.DrawFn, schema: Schema, attribute: Attribute) -> FilterText:
    op = draw(st.sampled_from(("startswith", "endswith", "contains", "StartsWith")))
    texts = [a for a in schema.attributes if a.type.is_text]
    other = draw(
        st.one_of(
            st.sampled_from(TextConstants.pieces(pools.pool(attribute.type))).flatmap(quoted),
            st.just("NULL"),
        ).map(_same)
        | st.sampled_from(texts).map(_name)
    )
    sides = [_name(attribute), other]
    if draw(st.integers(0, 4)) == 0:
        sides.reverse()
    return _join(f"{op}({{}}, {{}})", *sides)


@st.composite
def _like(draw: st.DrawFn, attribute: Attribute) -> FilterText:
    escape = draw(st.sampled_from(("\\", "\\", "!", "/")))
    word = draw(st.sampled_from(("LIKE", "NOT LIKE", "like")))
    if draw(st.integers(0, 15)) == 0:
        return _join(f"{{}} {word} NULL", _name(attribute))
    pattern = draw(patterns(pools.pool(attribute.type), escape).flatmap(quoted))
    tail = "" if escape == "\\" else f" ESCAPE '{escape}'"
    return _join("{} {} {}{}", _name(attribute), _same(word), _same(pattern), _same(tail))


def _rlike(attribute: Attribute) -> st.SearchStrategy[FilterText]:
    return (
        st.sampled_from(pools.REGEXES)
        .flatmap(quoted)
        .map(lambda pattern: _join("{} RLIKE {}", _name(attribute), _same(pattern)))
    )


# -- arithmetic --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Number:
    """An expression of numbers and the kind of its result, which says how it may be negated."""

    text: FilterText
    kind: Kind
    long: bool = False  # may have more digits than Spark can negate without an error


@st.composite
def _calculation(draw: st.DrawFn, schema: Schema, numbers: Sequence[Attribute]) -> FilterText:
    term = draw(_terms(numbers))
    side = draw(_operands(numbers))
    op = draw(st.sampled_from(_COMPARISONS))
    template = draw(st.sampled_from((f"{{}} {op} {{}}", f"{{1}} {op} {{0}}", "{} IS NULL")))
    found = _join(template, term.text, side.text)
    return found if _has_common_type(found, schema) else _join("{} IS NOT NULL", term.text)


def _has_common_type(found: FilterText, schema: Schema) -> bool:
    """Decimals may grow so wide in a calculation that we refuse to compare them; nothing else."""
    try:
        parse(found.text, schema)
    except FilterError as error:
        if "no common decimal type" not in error.message:
            raise
        return False
    return True


def _operands(numbers: Sequence[Attribute]) -> st.SearchStrategy[_Number]:
    attribute = st.sampled_from(numbers).map(
        lambda a: _Number(_name(a), a.type.kind, a.type.precision > 34)
    )
    constant = st.sampled_from(
        (
            ("0", Kind.INT),
            ("1", Kind.INT),
            ("3", Kind.INT),
            ("-2", Kind.INT),
            ("2147483647", Kind.INT),
            ("3L", Kind.BIGINT),
            ("1.234", Kind.DECIMAL),
            ("0.5BD", Kind.DECIMAL),
            ("-7.00", Kind.DECIMAL),
            ("2.5D", Kind.DOUBLE),
            ("1e-3", Kind.DOUBLE),
        )
    ).map(lambda pair: _Number(_same(pair[0]), pair[1]))
    return st.one_of(attribute, attribute, constant)


def _terms(numbers: Sequence[Attribute]) -> st.SearchStrategy[_Number]:
    leaf = _operands(numbers)
    once = _calculated(leaf)
    return st.one_of(
        once, once, _calculated(st.one_of(leaf, once)), _negated(st.one_of(leaf, once))
    )


@st.composite
def _calculated(draw: st.DrawFn, inner: st.SearchStrategy[_Number]) -> _Number:
    left, right = draw(inner), draw(inner)
    op: ArithmeticOp = draw(st.sampled_from(("+", "-", "*", "/")))
    text = FilterText(
        f"({left.text.text}) {op} ({right.text.text})",
        f"{_TRY[op]}({left.text.spark}, {right.text.spark})",
    )
    kind = _result_kind(op, left.kind, right.kind)
    return _Number(text, kind, kind is Kind.DECIMAL)


def _result_kind(op: ArithmeticOp, left: Kind, right: Kind) -> Kind:
    both = {left, right}
    if Kind.DOUBLE in both:
        return Kind.DOUBLE
    if Kind.DECIMAL in both:
        return Kind.DECIMAL
    if op == "/":
        return Kind.DOUBLE
    return Kind.BIGINT if Kind.BIGINT in both else Kind.INT


@st.composite
def _negated(draw: st.DrawFn, inner: st.SearchStrategy[_Number]) -> _Number:
    """Spark has no try_negative: where the least integer may come, zero minus it says the same."""
    part = draw(inner)
    if part.long:
        return part
    plain = f"-({part.text.text})"
    spark = {
        Kind.INT: f"try_subtract(0, {part.text.spark})",
        Kind.BIGINT: f"try_subtract(0L, {part.text.spark})",
    }.get(part.kind, f"-({part.text.spark})")
    return _Number(FilterText(plain, spark), part.kind)
