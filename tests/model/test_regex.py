"""RLIKE: the allow-list, the limits, and RE2's meaning."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import CrossroadsError
from crossroads.model.regex import (
    REGEX_LENGTH_MAX,
    REGEX_PROGRAM_MAX,
    RegexError,
    check_regex,
    compile_regex,
    regex_search,
)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "abc", "a|b|", "(a)(?:b)(?<year>c)(?P<day>d)", "[abc][^a-z0-9_]", r"[\d\-\]\[\\]",
        r"\d\D\w\W\s\S\b\B\A\z^$.", r"\t\n\r\f\a\x41\x{1F600}",
        r"\.\*\+\?\(\)\[\]\{\}\|\^\$\\\/\-\ ",
        "a*b+c?d{2}e{2,}f{2,3}", "a*?b+?c??d{2}?e{2,}?f{2,3}?", "(?i)a(?s).(?m)^b", "(?i-s:a)(?-i)",
        r"\pL\p{Lu}\P{Nd}[\p{L}]", "é😀[é-ü]", "a\x00b", "}]", "[a&b]", "[-a]", "[a^]",
    ],
)  # fmt: skip
def test_allowed(pattern: str) -> None:
    check_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "position", "says"),
    [
        ("a(?=b)", 1, "lookahead"),
        ("a(?!b)", 1, "negative lookahead"),
        ("(?<=a)b", 0, "lookbehind"),
        ("(?<!a)b", 0, "negative lookbehind"),
        ("(?>a)", 0, "atomic"),
        ("(?#a)", 0, "comment"),
        ("(?P=a)", 0, "backreference"),
        (r"(a)\1", 3, "backreference"),
        (r"\k<a>", 0, r"\k"),
        ("a++", 2, "possessive"),
        ("a{2}+", 4, "possessive"),
        ("a*?+", 3, "possessive"),
        ("a**", 2, "repetition of a repetition"),
        ("a{2}{3}", 4, "repetition of a repetition"),
        (r"\C", 0, r"\C"),
        (r"\Qa\E", 0, r"\Q"),
        (r"\v", 0, r"\v"),
        (r"\Z", 0, r"\Z"),
        (r"\01", 0, r"\0"),
        (r"\u0041", 0, r"\u"),
        ("\\\n", 0, r"\\n"),
        (r"\p{Greek}", 0, r"\p"),
        ("[[:alpha:]]", 1, "inside a class"),
        ("[a&&b]", 2, "&&"),
        ("[]a]", 1, "starts with ]"),
        ("[^]a]", 2, "starts with ]"),
        (r"[\b]", 1, r"\b"),
        ("a{,3}", 1, "{"),
        ("{", 0, "{"),
        ("(?x)a", 0, "flag"),
        ("(?U)a", 0, "flag"),
        ("(?i", 0, "flag"),
        ("a\\", 1, "backslash"),
        ("ab[c", 2, "not closed"),
        ("\ud800", 0, "surrogate"),
        ("(", None, "missing )"),
        (")", None, "unexpected )"),
        ("*a", None, "no argument"),
        ("[z-a]", None, "range"),
        (r"\x{110000}", None, "escape"),
        ("(\n", None, "missing )"),
        ("a{1001}", None, "repetition size"),
        ("(?:a{100}){100}", None, "repetition size"),
        ("a" * (REGEX_LENGTH_MAX + 1), None, "characters"),
        (r"(?:\pL|\d){20}", None, "too large"),
        (r"\pL{900}", None, "too large"),
    ],
)
def test_refused(pattern: str, position: int | None, says: str) -> None:
    with pytest.raises(RegexError) as caught:
        check_regex(pattern)
    assert says in str(caught.value)
    assert caught.value.position == position
    assert isinstance(caught.value, CrossroadsError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).position == position


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        ("b", "abc", True),  # a search, not a full match
        ("^b", "abc", False),
        ("a$", "a\n", False),  # Java would say true
        ("a.c", "a\nc", False),
        ("a.c", "a\rc", True),  # Java would say false
        ("(?s)a.c", "a\nc", True),
        ("(?m)^b$", "a\nb\nc", True),
        (r"\s", "\x0b", False),  # Java would say true
        ("(?i)É", "é", True),  # Java would say false
        ("^.$", "😀", True),  # characters, not bytes
        (r"a\x00", "a\x00", True),
        ("", "", True),
    ],
)
def test_the_meaning_is_re2s(pattern: str, text: str, answer: bool) -> None:
    assert regex_search(pattern, text) == answer


pieces = st.recursive(
    st.sampled_from(["a", "b", "é", ".", "[ab]", "[^a]", r"\d", r"\.", "1"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda piece: f"({piece})"),
    ),
    max_leaves=6,
)


@given(pieces, st.text(alphabet="abé.1\n", max_size=6))
def test_agrees_with_another_engine_where_both_mean_the_same(pattern: str, text: str) -> None:
    assert regex_search(pattern, text) == (re.search(pattern, text, re.ASCII) is not None)


@given(st.text(alphabet=r"ab\[](){}?*+<>=!:&|^$.,-1Ppi", max_size=12))
def test_any_text_is_accepted_or_refused_politely(pattern: str) -> None:
    try:
        compiled = compile_regex(pattern)
    except RegexError:
        return
    assert compiled.programsize <= REGEX_PROGRAM_MAX
    assert regex_search(pattern, "ab1") in (True, False)
