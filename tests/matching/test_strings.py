"""The pair kernels against Python's own string operations and the LIKE reference."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.matching.strings import (
    compare_pairs,
    compile_likes,
    contains_pairs,
    endswith_pairs,
    equal_pairs,
    like_pairs,
    startswith_pairs,
)
from crossroads.model.like import parse_like

# Few characters of one to four bytes, with NUL, so that random strings do share parts.
texts = st.lists(st.text(alphabet="ab\x00éè€😀", max_size=7), min_size=1, max_size=12)
patterns = st.lists(
    st.lists(st.sampled_from(["a", "b", "\x00", "é", "😀", "%", "_"]), max_size=7).map("".join),
    min_size=1,
    max_size=12,
)


def column(strings: list[str], kind: pa.DataType | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The buffers of an Arrow array, as callers have them."""
    array = pa.array(strings, kind or pa.string())
    _, offsets, data = array.buffers()
    width = np.int64 if kind == pa.large_string() else np.int32
    return (
        np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8),
        np.frombuffer(offsets, dtype=width)[: len(strings) + 1],
    )


def all_pairs(lefts: list[str], rights: list[str]) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.divmod(np.arange(len(lefts) * len(rights), dtype=np.int32), len(rights))
    return left, right


DEFINITIONS = {
    contains_pairs: lambda a, b: b in a,
    startswith_pairs: lambda a, b: a.startswith(b),
    endswith_pairs: lambda a, b: a.endswith(b),
    equal_pairs: lambda a, b: a == b,
    compare_pairs: lambda a, b: (a.encode() > b.encode()) - (a.encode() < b.encode()),
}


@pytest.mark.parametrize("kernel", DEFINITIONS, ids=lambda kernel: kernel.__name__)
@given(lefts=texts, rights=texts)
def test_pairs_are_the_definition(kernel, lefts: list[str], rights: list[str]) -> None:
    left, right = all_pairs(lefts, rights)
    found = kernel(*column(lefts), left, *column(rights, pa.large_string()), right)
    definition = DEFINITIONS[kernel]
    assert found.tolist() == [definition(a, b) for a in lefts for b in rights]


@given(lefts=texts, likes=patterns)
def test_like_pairs_are_the_reference(lefts: list[str], likes: list[str]) -> None:
    parsed = [parse_like(pattern) for pattern in likes]
    left, right = all_pairs(lefts, likes)
    found = like_pairs(*column(lefts), left, *compile_likes(parsed), right)
    assert found.tolist() == [like.matches(text) for text in lefts for like in parsed]


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_contains_where_every_place_looks_promising(copies: int, before: int, after: int) -> None:
    """Periodic strings exhaust the patience of the plain search, so the linear one answers."""
    text = "a" * before + "b" + "a" * after
    needle = "a" * copies + "b" + "a" * copies
    periodic = ("ab" * copies + "aa") * 20
    lefts, rights = (
        [text, text * 20, periodic],
        [needle, "ab" * copies + "b", "ab" * copies + "aaa"],
    )
    left, right = all_pairs(lefts, rights)
    found = contains_pairs(*column(lefts), left, *column(rights), right)
    assert found.tolist() == [b in a for a in lefts for b in rights]


def test_a_hostile_pair_takes_linear_time() -> None:
    """4 * 10^10 comparisons one place at a time; this would not end."""
    text, needle = "a" * 400_000, "a" * 100_000 + "ba"
    zero = np.zeros(1, dtype=np.int64)
    assert not contains_pairs(*column([text]), zero, *column([needle]), zero)[0]


def test_strings_of_a_sliced_column() -> None:
    """A slice of an Arrow array has offsets that do not start at 0."""
    data, offsets = column(["xx", "abc", "b"])
    left, right = all_pairs(["abc", "b"], ["abc", "b"])
    found = contains_pairs(data, offsets[1:], left, data, offsets[1:], right)
    assert found.tolist() == [True, True, False, True]


def test_no_pairs() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert contains_pairs(*column(["a"]), nothing, *column(["a"]), nothing).size == 0


def test_uneven_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="not pairs"):
        equal_pairs(*column(["a"]), np.zeros(2, np.int64), *column(["a"]), np.zeros(1, np.int64))
