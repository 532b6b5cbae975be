"""LIKE: what Spark says, the normal form, the classification, and the plain meaning."""

from __future__ import annotations

import pickle
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import CrossroadsError
from crossroads.model.like import LikePattern, LikePatternError, Wildcard, parse_like

ONE, MANY = Wildcard.ONE, Wildcard.MANY
SMILE = "\U0001f600"

# Few characters, so that random patterns do meet random texts.
texts = st.text(alphabet=f"ab%_\\\n\x00é{SMILE}", max_size=8)
tokens = st.lists(
    st.sampled_from([*f"ab\n\x00é{SMILE}", "%", "_", "\\%", "\\_", "\\\\"]), max_size=8
)
patterns = tokens.map("".join)


def as_python_regex(pattern: str, escape: str) -> re.Pattern[str]:
    """Spark's own way: translate to a backtracking regular expression, character by character."""
    out, rest = [], iter(pattern)
    for character in rest:
        if character == escape:
            out.append(re.escape(next(rest)))
        else:
            out.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.compile("".join(out), re.DOTALL)


@given(patterns, texts)
def test_matches_is_the_translation_to_a_regular_expression(pattern: str, text: str) -> None:
    expected = as_python_regex(pattern, "\\").fullmatch(text) is not None
    assert parse_like(pattern).matches(text) == expected


@given(patterns, texts)
def test_properties_say_what_matches(pattern: str, text: str) -> None:
    like = parse_like(pattern)
    if like.equals is not None:
        assert like.matches(text) == (text == like.equals)
    if like.contains is not None:
        assert like.matches(text) == (like.contains in text)
    if like.is_prefix_only:
        assert like.matches(text) == text.startswith(like.prefix)
    if like.is_suffix_only:
        assert like.matches(text) == text.endswith(like.suffix)
    if like.matches_everything:
        assert like.matches(text)
    if like.matches(text):
        assert text.startswith(like.prefix)
        assert text.endswith(like.suffix)
        assert len(text) >= like.min_length
        assert all(literal in text for literal in like.literals)


@given(patterns, st.sampled_from(["\\", "/", "a", "é"]))
def test_text_of_a_pattern_parses_back(pattern: str, escape: str) -> None:
    like = parse_like(pattern)
    assert parse_like(like.to_text(escape), escape) == like


@given(patterns)
def test_normal_form_joins_literals_and_orders_wildcards(pattern: str) -> None:
    parts = parse_like(pattern).parts
    for left, right in pairwise(parts):
        assert not (isinstance(left, str) and isinstance(right, str))
        assert not (left is MANY and isinstance(right, Wildcard))
    assert "" not in parts


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("", ()),
        ("%", (MANY,)),
        ("%%", (MANY,)),
        ("%_%_", (ONE, ONE, MANY)),
        ("a\\%b", ("a%b",)),
        ("%a_b%", (MANY, "a", ONE, "b", MANY)),
    ],
)
def test_normal_form(pattern: str, parts: tuple[object, ...]) -> None:
    assert parse_like(pattern).parts == parts


@pytest.mark.parametrize(
    ("pattern", "equals", "contains", "prefix_only", "suffix_only", "min_length", "everything"),
    [
        ("", "", None, False, False, 0, False),
        ("abc", "abc", None, False, False, 3, False),
        ("abc%", None, None, True, False, 3, False),
        ("%abc", None, None, False, True, 3, False),
        ("%abc%", None, "abc", False, False, 3, False),
        ("%", None, None, False, False, 0, True),
        ("_%", None, None, False, False, 1, False),
        ("a%b", None, None, False, False, 2, False),
        ("a_", None, None, False, False, 2, False),
        (f"{SMILE}_%", None, None, False, False, 2, False),
    ],
)
def test_classification(
    pattern: str,
    equals: str | None,
    contains: str | None,
    prefix_only: bool,
    suffix_only: bool,
    min_length: int,
    everything: bool,
) -> None:
    like = parse_like(pattern)
    assert (like.equals, like.contains) == (equals, contains)
    assert (like.is_prefix_only, like.is_suffix_only) == (prefix_only, suffix_only)
    assert (like.min_length, like.matches_everything) == (min_length, everything)


# Each row was answered by Spark 4.3 itself (UTF8_BINARY, ANSI).
@pytest.mark.parametrize(
    ("text", "pattern", "answer"),
    [
        (f"{SMILE}b", f"{SMILE}_", True),
        (f"{SMILE}b", f"{SMILE}%b", True),
        (f"a{SMILE}", "a_", True),
        (f"x{SMILE}y", f"%_{SMILE}%", True),
        ("é\n", "é_", True),
        ("a\nb", "a%b", True),
        ("ab\n", "ab", False),
        ("a\x00b", "a_b", True),
        ("a\rb", "a_b", True),
        ("", "", True),
        ("", "%", True),
        ("", "_", False),
        ("ab", "a%%b", True),
        ("a%", "a\\%", True),
    ],
)
def test_spark_agrees(text: str, pattern: str, answer: bool) -> None:
    assert parse_like(pattern).matches(text) == answer


@pytest.mark.parametrize(
    ("pattern", "escape", "text"),
    [("a%%b", "%", "a%b"), ("a__", "_", "a_"), ("a/%", "/", "a%"), ("%\\\\", "\\", "x\\")],
)
def test_the_escape_comes_first(pattern: str, escape: str, text: str) -> None:
    assert parse_like(pattern, escape).matches(text)


@pytest.mark.parametrize(
    ("pattern", "escape", "position"),
    [
        ("a\\b", "\\", 1),
        ("ab\\", "\\", 2),
        ("a%", "%", 1),
        ("_a", "_", 0),
        ("x\ud800", "\\", 1),
        ("a", "", None),
        ("a", "ab", None),
        ("a", SMILE, None),
    ],
)
def test_refused_patterns(pattern: str, escape: str, position: int | None) -> None:
    with pytest.raises(LikePatternError) as caught:
        parse_like(pattern, escape)
    assert caught.value.position == position
    assert isinstance(caught.value, CrossroadsError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).position == position


def test_a_wildcard_that_is_the_escape_has_no_text() -> None:
    with pytest.raises(LikePatternError):
        LikePattern((MANY,)).to_text("%")
