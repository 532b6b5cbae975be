"""The language: what is let through and as what, what is refused, where and why."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import FilterError
from crossroads.model.filter import (
    And,
    Arithmetic,
    Attr,
    Cast,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    RLike,
    TextTest,
    Truth,
)
from crossroads.model.parse import FILTER_LENGTH_MAX, IN_SIZE_MAX, PREDICATES_MAX, parse
from crossroads.model.regex import REGEX_LENGTH_MAX
from crossroads.model.schema import Schema
from crossroads.model.show import show
from crossroads.model.syntax import NESTING_MAX
from crossroads.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    decimal_type,
)
from crossroads.testing.strategies import filters

SCHEMA = Schema.from_mapping(
    {
        "id": "id",
        "attributes": {
            "id": "bigint",
            "a": "int",
            "b": "int",
            "x": "double",
            "m": "decimal(10,2)",
            "wide": "decimal(38,0)",
            "s": "string",
            "symbol": "string",
            "link": "url",
            "c": "boolean",
            "d": "date",
            "ts": "timestamp",
            "order.total": "double",
            "two words": "int",
        },
    }
)
A, B, X, S = Attr("a", INT), Attr("b", INT), Attr("x", DOUBLE), Attr("s", STRING)
C, D, TS, M = (
    Attr("c", BOOLEAN),
    Attr("d", DATE),
    Attr("ts", TIMESTAMP),
    Attr("m", decimal_type(10, 2)),
)
ONE, TWO = Literal(1, INT), Literal(2, INT)
DAY = date(2020, 1, 31)
MIDNIGHT = datetime(2020, 1, 31, tzinfo=UTC)

UNDERSTOOD = {
    "a = 1": Compare("=", A, ONE),
    "a == 1": Compare("=", A, ONE),
    "a <=> 1": Compare("<=>", A, ONE),
    "a <> 1": Compare("<>", A, ONE),
    "a != 1": Compare("<>", A, ONE),
    "a<1": Compare("<", A, ONE),
    "a<=1": Compare("<=", A, ONE),
    "a>1": Compare(">", A, ONE),
    "a>=1": Compare(">=", A, ONE),
    "1 < a": Compare("<", ONE, A),
    "a < b": Compare("<", A, B),
    "A = 1": Compare("=", A, ONE),
    "`a` = 1": Compare("=", A, ONE),
    "a = -1": Compare("=", A, Literal(-1, INT)),
    "a = -2147483648": Compare("=", A, Literal(-(2**31), INT)),
    "a = 1L": Compare("=", A, Literal(1, BIGINT)),
    "a = 1.5D": Compare("=", Cast(A, DOUBLE), Literal(1.5, DOUBLE)),
    "a = 1.5": Compare(
        "=", Cast(A, decimal_type(10, 0)), Literal(Decimal("1.5"), decimal_type(2, 1))
    ),
    "x = 1": Compare("=", X, Literal(1.0, DOUBLE)),
    "m = 1": Compare("=", M, Literal(Decimal(1), decimal_type(1, 0))),
    "a = NULL": Compare("=", A, Literal(None, INT)),
    "a BETWEEN 1 AND 2": And((Compare(">=", A, ONE), Compare("<=", A, TWO))),
    "a NOT BETWEEN 1 AND 2": Not(And((Compare(">=", A, ONE), Compare("<=", A, TWO)))),
    "a IN (1, 2)": In(A, (ONE, TWO)),
    "a NOT IN (1, NULL)": Not(In(A, (ONE, Literal(None, INT)))),
    "s LIKE 'a%'": Like(S, Literal("a%", STRING)),
    "s NOT LIKE 'a%'": Not(Like(S, Literal("a%", STRING))),
    "s LIKE 'a!%' ESCAPE '!'": Like(S, Literal("a!%", STRING), "!"),
    "s NOT LIKE 'a!%' ESCAPE '!'": Not(Like(S, Literal("a!%", STRING), "!")),
    "s LIKE NULL": TextTest("contains", S, Literal(None, STRING)),
    "startswith(s, 'a')": TextTest("startswith", S, Literal("a", STRING)),
    "ENDSWITH(s, 'a')": TextTest("endswith", S, Literal("a", STRING)),
    "contains(s, s)": TextTest("contains", S, S),
    "s RLIKE 'a+'": RLike(S, Literal("a+", STRING)),
    "s NOT RLIKE 'a+'": Not(RLike(S, Literal("a+", STRING))),
    "a IS NULL": IsNull(A),
    "a IS NOT NULL": Not(IsNull(A)),
    "c": Truth(C),
    "NOT c": Not(Truth(C)),
    "!c": Not(Truth(C)),
    "c = TRUE": Compare("=", C, Literal(True, BOOLEAN)),
    "TRUE": Constant(True),
    "false": Constant(False),
    "NULL": Constant(None),
    "c AND c AND c": And((Truth(C), Truth(C), Truth(C))),
    "c OR (c OR c)": Or((Truth(C), Truth(C), Truth(C))),
    "c OR c AND c": Or((Truth(C), And((Truth(C), Truth(C))))),
    "((c))": Truth(C),
    "a + b > 1": Compare(">", Arithmetic("+", A, B, INT), ONE),
    "a / b > 1": Compare(
        ">", Arithmetic("/", Cast(A, DOUBLE), Cast(B, DOUBLE), DOUBLE), Literal(1.0, DOUBLE)
    ),
    "-a > 1": Compare(">", Negate(A, INT), ONE),
    "m / 3 IS NULL": IsNull(
        Arithmetic("/", M, Literal(Decimal(3), decimal_type(1, 0)), decimal_type(14, 6))
    ),
    "d = DATE '2020-01-31'": Compare("=", D, Literal(DAY, DATE)),
    "d = '2020-1-31'": Compare("=", D, Literal(DAY, DATE)),
    "d IN ('2020-01-31')": In(D, (Literal(DAY, DATE),)),
    "d < TIMESTAMP '2020-01-31'": Compare("<", Cast(D, TIMESTAMP), Literal(MIDNIGHT, TIMESTAMP)),
    "ts = DATE '2020-01-31'": Compare("=", TS, Literal(MIDNIGHT, TIMESTAMP)),
    "order.total > 1": Compare(">", Attr("order.total", DOUBLE), Literal(1.0, DOUBLE)),
    "`order`.`total` > 1": Compare(">", Attr("order.total", DOUBLE), Literal(1.0, DOUBLE)),
    "`order.total` > 1": Compare(">", Attr("order.total", DOUBLE), Literal(1.0, DOUBLE)),
    "`two words` = 1": Compare("=", Attr("two words", INT), ONE),
    "a = 1 -- the end": Compare("=", A, ONE),
    "a /* in the middle */ = 1": Compare("=", A, ONE),
    "\n a\n=\n1 ": Compare("=", A, ONE),
    "s = 'a -- b /* c */'": Compare("=", S, Literal("a -- b /* c */", STRING)),
    "a < 9223372036854775808": Constant(True),
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_the_language(text):
    assert parse(text, SCHEMA) == UNDERSTOOD[text]


# text, where the arrow ^ stands before the place that the error names; what the message has
REFUSED = [
    ("^symbl = 'x'", "no attribute 'symbl'", "did you mean 'symbol'?"),
    ("a = 1 AND -- no\n ^symbl = 'x'", "no attribute 'symbl'", "did you mean 'symbol'?"),
    ("s = 'long text' AND ^symbl = 'x'", "no attribute 'symbl'", ""),
    ("^order.totl > 1", "no attribute 'order.totl'", "did you mean 'order.total'?"),
    ("^t.a = 1", "no attribute 't.a'", "did you mean 'a'?"),
    ("a = ^'x'", "cannot compare int with string", "without quotes"),
    ("s = ^5", "cannot compare string with int", "the text with them"),
    ("^a = TRUE", "cannot compare int with boolean", ""),
    ("c > ^1", "cannot compare boolean with int", ""),
    ("d = ^5", "cannot compare date with int", ""),
    ("s = ^d", "cannot compare text with a date", "only a literal"),
    ("s IN ('a', ^1)", "cannot compare string with int", ""),
    ("wide = ^0.5", "no common decimal type", "end the number in D"),
    ("d = ^'2020-13-01'", "is not a date", ""),
    ("d = DATE ^'2020-02-30'", "is not a date", ""),
    ("ts = TIMESTAMP ^'noon'", "is not a timestamp", ""),
    ("^a", "a (int) is not a condition", "expected a comparison"),
    ("NOT ^a", "a (int) is not a condition", ""),
    ("^5", "a value alone is no condition", "price >= 45"),
    ("^'x'", "a value alone is no condition", ""),
    ("^a + 1", "a value alone is no condition", ""),
    ("^s + 1 = 2", "cannot calculate with a string", "expected numbers"),
    ("-^s = 1", "cannot negate a string", ""),
    ("x = -^'a'", "only a number can be negative", ""),
    ("a = ^+5", "a number takes no plus sign", ""),
    ("a = ^5x", "'5x' is not a number", ""),
    ("a = ^5S", "not supported", "L, D or BD"),
    ("a = ^1e999", "does not fit a double", ""),
    ("a = ^" + "9" * 39, "more than 38 digits", ""),
    ("a = ^" + "9" * 5000, "a number of 5000 characters", ""),
    ("a = ^1e99999999999999999999BD", "is not a number", ""),
    ("a IN (^b)", "IN takes constants only", "use = and OR"),
    ("^a IN ()", "IN needs constants", ""),
    ("^a IN 1", "this form of IN is not supported", ""),
    ("contains(^a, 'x')", "this is of type int", "expected text"),
    ("^contains(s, s, s)", "this form of contains()", ""),
    ("contains(s^)", "something is missing", ""),
    ("s LIKE ^5", "the pattern must be a string literal", ""),
    ("s LIKE ^symbol", "the pattern must be a string literal", ""),
    (r"s LIKE ^'ab\\'", "ends with its escape character", ""),
    (r"s LIKE ^'a\\b'", "cannot stand before 'b'", ""),
    ("s LIKE 'x' ESCAPE ^'ab'", "ESCAPE takes one character", ""),
    ("s LIKE 'x' ^ESCAPE", "something is missing", ""),
    ("s RLIKE ^'('", "not a valid regular expression", "RE2"),
    ("s RLIKE ^'(?=a)'", "lookahead", ""),
    ("s RLIKE ^symbol", "the pattern must be a string literal", ""),
    ("s RLIKE ^'" + "a" * (REGEX_LENGTH_MAX + 1) + "'", "1001 characters", ""),
    ("s RLIKE ^'(a{1000}){1000}'", "regular expression", ""),
    ("^a BETWEEN SYMMETRIC 1 AND 2", "this form of BETWEEN", ""),
    ("a BETWEEN ^1", "something is missing", ""),
    ("^a = 1 = 2", "a condition has no value", "AND, OR, NOT"),
    ("^c IS TRUE", "IS takes only NULL", "NOT c"),
    ("^a IS DISTINCT FROM b", "IS DISTINCT FROM is not supported", "<=>"),
    ("^s ILIKE 'x'", "ILIKE is not supported", "(?i)"),
    ("s LIKE ANY (^'x')", "ANY and ALL are not supported", "OR"),
    ("^a % 2 = 0", "% is not supported", "+ - * /"),
    ("^a DIV 2 = 0", "DIV is not supported", ""),
    ("^a & 1 = 0", "operators on bits", ""),
    ("s = ^'x' 'y'", "joining strings", "one string"),
    ("^s || 'x' = 'y'", "joining strings", ""),
    ("^s[0] = 'x'", "only attributes", ""),
    ("(^a, b) IN ((1, 2))", "lists stand only behind IN", ""),
    ("CASE WHEN ^c THEN c END", "CASE and IF", ""),
    ("a = ^*", "* stands for no value", ""),
    ("a = b ^AND", "something is missing beside 'AND'", ""),
    ("a = 1 AND ^AND c", "something is missing beside 'AND'", ""),
    ("a ^=", "something is missing beside '='", ""),
    ("^(a = 1", "this parenthesis is never closed", ""),
    ("a = 1 OR ^(b = 2", "this parenthesis is never closed", ""),
    ("a = 1^)", "this parenthesis was never opened", ""),
    ("a > 1 ^b", "unexpected 'b'", "AND, OR"),
    ("a ^!> b", "unexpected '!'", ""),
    ("a ^≥ 1", "unexpected '≥'", ""),
    ("a = ^'it", "never closed", ""),
    ("a = ^/* x", "never closed", ""),
    ("^`a = 1", "never closed", ""),
    ("a = ^r'x'", "'r' before a string", "DATE"),
    ("s = ^X'41'", "'X' before a string", ""),
    # attempts to get at more than the event
    ("^reflect('java.lang.Runtime', 'exit') = 'x'", "the function reflect()", "startswith"),
    ("c OR ^java_method('java.util.UUID', 'randomUUID') = 'x'", "java_method()", ""),
    ("^a IN (SELECT 1)", "subqueries are not supported", ""),
    ("c OR EXISTS(SELECT ^1)", "subqueries are not supported", ""),
    ("a = (SELECT ^1)", "subqueries are not supported", ""),
    ("CAST(^a AS string) = 'x'", "casts are not supported", ""),
    ("^a::string = 'x'", "casts are not supported", ""),
    ("a = 1^; DROP TABLE t", "one condition", ""),
    ("a = 1^;", "one condition", ""),
    ("a = 1 ^UNION SELECT 1", "unexpected 'UNION'", ""),
    ("a = 1 ^ORDER BY a", "unexpected 'ORDER BY'", ""),
    ("a = 1 ^LIMIT 1", "unexpected 'LIMIT'", ""),
    ("^upper(s) = 'X'", "the function upper()", ""),
    ("^rand() > 0", "the function rand()", ""),
    ("{^a} = 1", "parameters are not supported", ""),
    ("a = ^_L0_", "no attribute '_L0_'", ""),
    ("`^_L0_` = 1".replace("`^", "^`"), "no attribute", ""),
    # letters and signs that only look alike
    ("a = ^１", "no attribute", ""),
    ("s = ^‘x’", "no attribute", ""),
    ("^\u200ba = 1", "no attribute", ""),
    ("^а = 1", "no attribute 'а'", ""),  # Cyrillic
    (r"s = ^'\ud800'", "surrogate", ""),
]


@pytest.mark.parametrize(("marked", "message", "advice"), REFUSED)
def test_refused_with_the_place_and_the_reason(marked, message, advice):
    position = marked.index("^")
    text = marked.replace("^", "", 1)
    with pytest.raises(FilterError) as caught:
        parse(text, SCHEMA)
    shown = str(caught.value)
    assert message in shown
    assert advice in shown
    assert caught.value.position == position, shown
    assert f"at position {position + 1}" in shown
    assert "\n" not in shown


@pytest.mark.parametrize("text", ["", "  ", "-- nothing", "/* nothing */"])
def test_the_empty_filter(text):
    with pytest.raises(FilterError, match="the filter is empty"):
        parse(text, SCHEMA)


@pytest.mark.parametrize("text", [":x = 1", "? = a", "@x = 1", "$x = 1", "current_date > d", "()"])
def test_refused_without_a_place(text):
    with pytest.raises(FilterError):
        parse(text, SCHEMA)


# -- limits ------------------------------------------------------------------------------------

NESTINGS = {
    "parentheses": lambda n: "(" * n + "c" + ")" * n,
    "NOT": lambda n: "NOT " * n + "c",
    "bang": lambda n: "!" * n + "c",
    "minus": lambda n: "- " * n + "a > 1",
    "sum": lambda n: "a" + " + a" * n + " > 1",
    "terms in parentheses": lambda n: "-(" * (n // 2) + "a" + ")" * (n // 2) + " > 1",
    "NOT in parentheses": lambda n: "NOT (" * (n // 2) + "c" + ")" * (n // 2),
    "AND in OR": lambda n: "c AND (a = 1 OR " * n + "c" + ")" * n,
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nesting_is_bounded(name):
    parse(NESTINGS[name](NESTING_MAX), SCHEMA)
    for many in (NESTING_MAX + 2, 10 * NESTING_MAX, 5_000):
        with pytest.raises(FilterError, match="nested deeper than 32 levels"):
            parse(NESTINGS[name](many), SCHEMA)


def test_length_is_bounded():
    parse("c" + " " * (FILTER_LENGTH_MAX - 1), SCHEMA)
    with pytest.raises(FilterError, match="262145 characters, over 262144"):
        parse("c" + " " * FILTER_LENGTH_MAX, SCHEMA)


def test_in_is_bounded():
    parse(f"a IN ({','.join(['1'] * IN_SIZE_MAX)})", SCHEMA)
    with pytest.raises(FilterError, match="IN has 10001 options, over 10000"):
        parse(f"a IN ({','.join(['1'] * (IN_SIZE_MAX + 1))})", SCHEMA)


def test_predicates_are_bounded():
    parse(" OR ".join(["c"] * PREDICATES_MAX), SCHEMA)
    with pytest.raises(FilterError, match="more than 10000 predicates"):
        parse(" OR ".join(["c"] * (PREDICATES_MAX + 1)), SCHEMA)


# -- whatever is written, the only error is ours ------------------------------------------------

_WORDS = (
    *("a", "s", "c", "d", "`two words`", "order.total", "symbl", "NULL", "TRUE", "1", "-1", "1.5"),
    *("'x'", '"y"', "DATE '2020-01-31'", "AND", "OR", "NOT", "IN", "(", ")", ",", "=", "<=>", "<"),
    *("+", "-", "*", "/", "BETWEEN", "LIKE", "ESCAPE", "RLIKE", "IS", "contains", "CASE", "WHEN"),
    *("END", "SELECT", "FROM", "CAST", "AS", "INTERVAL", "::", "[", "]", "{", "}", "?", ":", "@"),
    *("%", "||", "->", "~", "!", ";", ".", "--", "/*", "*/", "'", "`", "\\", "\0", "😀", "\u2028"),
    *("EXISTS", "ARRAY", "LATERAL", "OVER", "ANY", "ALL", "COLLATE", "AT", "TIME", "ZONE", "_L0_"),
)


def parses_or_refuses(text: str) -> None:
    refused = None
    try:
        parse(text, SCHEMA)
    except FilterError as error:
        refused = error
    if refused is not None:
        assert refused.position is None or 0 <= refused.position <= len(text)
        assert "\n" not in str(refused)


@settings(max_examples=300)
@given(st.text(max_size=40))
def test_random_text(text):
    parses_or_refuses(text)


@settings(max_examples=600)
@given(st.lists(st.sampled_from(_WORDS), max_size=14), st.sampled_from((" ", "")))
def test_random_words(words, between):
    parses_or_refuses(between.join(words))


@settings(max_examples=300)
@given(st.data())
def test_mutated_filters(data):
    text = data.draw(filters(SCHEMA, depth=2))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 8)))
    parses_or_refuses(text[:start] + data.draw(st.sampled_from(("", *_WORDS))) + text[end:])


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("x = 1 -- c\r OR x = 2", "x = 1 OR x = 2"),  # a carriage return ends it
        ("x = 1 -- c\\\n OR x = 2", "x = 1"),  # a backslash carries it on
        ("x = 1 /* a * b */ OR x = 2", "x = 1 OR x = 2"),
    ],
)
def test_comments_end_where_spark_ends_them(text: str, means: str) -> None:
    schema = Schema.from_mapping({"id": "x", "attributes": {"x": "int"}})
    assert parse(text, schema) == parse(means, schema)


def test_nested_comments_are_refused() -> None:
    schema = Schema.from_mapping({"id": "x", "attributes": {"x": "int"}})
    with pytest.raises(FilterError, match="never closed"):
        parse("x = 1 /* /* */ OR x = 2 -- */", schema)


@pytest.mark.parametrize("text", ["w = 5", "w > 0", "w < 3000000000 - 2999999999", "w <= 99999999"])
def test_whole_numbers_next_to_a_wide_decimal_take_only_their_digits(text: str) -> None:
    schema = Schema.from_mapping({"id": "id", "attributes": {"id": "int", "w": "decimal(38,30)"}})
    if "-" in text:
        with pytest.raises(FilterError, match="no common decimal type"):
            parse(text, schema)
    else:
        assert parse(show(parse(text, schema)), schema) == parse(text, schema)
