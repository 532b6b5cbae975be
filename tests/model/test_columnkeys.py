"""Keys of whole columns are the keys of their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossroads.model.columnkeys import (
    backwards,
    binary_buffers,
    byte_keys,
    double_keys,
    heads_of,
    int_keys,
    wide_key,
)
from crossroads.model.types import DOUBLE, to_key
from crossroads.testing import pools
from crossroads.testing.strategies import types, values

# Few characters of one to four bytes, with NUL; columns that begin inside their buffers too.
texts = st.lists(st.text(alphabet="ab\x00éè€😀", max_size=12), min_size=1, max_size=12)


def binary(strings: list[str]) -> pa.Array:
    return pa.array(["xx", *strings], pa.large_string()).cast(pa.large_binary()).slice(1)


@given(texts)
def test_backwards_turns_every_text_around(strings):
    assert backwards(binary(strings)).to_pylist() == [text.encode()[::-1] for text in strings]


@given(texts)
def test_heads_are_the_first_eight_bytes(strings):
    padded = [text.encode()[:8].ljust(8, b"\0") for text in strings]
    assert heads_of(*binary_buffers(binary(strings))).tolist() == [
        int.from_bytes(head, "big") for head in padded
    ]


@given(st.data())
def test_keys_of_columns_are_those_of_the_model(data):
    type_ = data.draw(types())
    drawn = data.draw(st.lists(values(type_), max_size=8))
    column = pa.array([None, *drawn], type_.arrow).slice(1)
    if type_.is_text or type_.wide:
        keys = byte_keys(type_, column).to_pylist()
        wanted = [
            None if one is None else wide_key(to_key(type_, one)) if type_.wide else one.encode()
            for one in drawn
        ]
    else:
        keys = int_keys(type_, column).tolist()
        wanted = [None if one is None else to_key(type_, one) for one in drawn]
    assert [
        key if one is not None else None for key, one in zip(keys, drawn, strict=True)
    ] == wanted


def test_keys_of_doubles():
    given = np.array(pools.DOUBLES)
    assert double_keys(given).tolist() == [to_key(DOUBLE, value) for value in pools.DOUBLES]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=2, max_size=10))
def test_wide_keys_order_as_numbers(numbers):
    assert sorted(numbers) == sorted(numbers, key=wide_key)
