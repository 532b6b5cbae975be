"""Codes keep order and are exact with respect to the constants, for keys of every kind."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.matching.batch import Batch
from crossroads.matching.coders import (
    NULL_CODE,
    BytesCoder,
    OffsetCoder,
    RankCoder,
    bytes_coder,
    coder_from_arrays,
    int_coder,
)
from crossroads.model.atoms import Dimension
from crossroads.model.schema import Attribute, Schema
from crossroads.model.types import (
    BIGINT,
    BIGINT_MAX,
    BIGINT_MIN,
    STRING,
    decimal_type,
)

int64s = st.one_of(
    st.integers(-20, 20),
    st.integers(BIGINT_MIN, BIGINT_MAX),
    st.sampled_from((BIGINT_MIN, BIGINT_MIN + 1, BIGINT_MAX - 1, BIGINT_MAX)),
)
byte_strings = st.one_of(
    st.text(alphabet="ab\0é日", max_size=12).map(str.encode), st.binary(max_size=12)
)


def check_exact(coder, constants, keys, encode):
    """Comparing codes with the code of a constant is comparing keys with the constant."""
    codes, bounds = encode(keys), encode(constants)
    assert codes.dtype == np.int32
    assert all(0 <= code < coder.size for code in [*codes.tolist(), *bounds.tolist()])
    for key, code in zip(keys, codes.tolist(), strict=True):
        for constant, bound in zip(constants, bounds.tolist(), strict=True):
            assert (code < bound, code == bound) == (key < constant, key == constant)


@given(st.lists(int64s, min_size=1, max_size=30), st.lists(int64s, min_size=1, max_size=30))
def test_ranks_of_ints_are_exact(constants, keys):
    coder = RankCoder.of(np.unique(np.array(constants, np.int64)))
    check_exact(coder, constants, keys, lambda given: coder.encode(np.array(given, np.int64)))


@given(int64s, st.integers(0, 1000), st.data())
def test_offsets_are_exact(base, span, data):
    base = min(base, BIGINT_MAX - span)
    constants = data.draw(st.lists(st.integers(base, base + span), min_size=1, max_size=10))
    coder = int_coder(BIGINT, [np.array(constants, np.int64)])
    assert isinstance(coder, OffsetCoder)
    near = st.integers(max(BIGINT_MIN, base - 3), min(BIGINT_MAX, base + span + 3))
    keys = data.draw(st.lists(st.one_of(int64s, near), min_size=1, max_size=20))
    check_exact(coder, constants, keys, lambda given: coder.encode(np.array(given, np.int64)))


@given(st.lists(byte_strings, max_size=20), st.lists(byte_strings, min_size=1, max_size=20))
def test_ranks_of_bytes_are_exact(constants, keys):
    coder = bytes_coder([pa.array(constants, pa.large_binary())])

    def encode(given):
        return coder.encode_bytes(pa.array(given, pa.large_binary()))

    check_exact(coder, constants, keys, encode)
    ordered = sorted(set(constants))
    for key, code in zip(keys, encode(keys).tolist(), strict=True):
        place = bisect_left(ordered, key)
        assert code == 2 * place + (place < len(ordered) and ordered[place] == key)


@given(st.lists(byte_strings, min_size=3, max_size=9))
def test_slices_of_columns_are_read_in_their_place(texts):
    coder = bytes_coder([pa.array(texts, pa.large_binary()).slice(1, 2)])
    whole = pa.array(texts, pa.large_binary())
    assert coder.encode_bytes(whole.slice(1)).tolist() == coder.encode_bytes(whole).tolist()[1:]


@pytest.mark.parametrize(
    "coder",
    [
        OffsetCoder(-5, 10),
        RankCoder.of(np.array([-(2**62), 0, 2**62])),
        BytesCoder.of(pa.array([b"", b"abcdefghi"], pa.large_binary())),
    ],
)
def test_coders_come_back_from_their_arrays(coder):
    again = coder_from_arrays(coder.arrays())
    assert type(again) is type(coder) and again.size == coder.size
    if isinstance(coder, BytesCoder):
        sample = pa.array([b"a", b"abcdefghi", b"abcdefghij"], pa.large_binary())
        assert again.encode_bytes(sample).tolist() == coder.encode_bytes(sample).tolist()
    else:
        sample = np.array([-(2**63), -6, -5, 0, 5, 6, 2**63 - 1])
        assert again.encode(sample).tolist() == coder.encode(sample).tolist()


def test_null_has_its_own_code():
    wide = decimal_type(30, 2)
    schema = Schema(
        "s",
        ("a",),
        (
            Attribute(name="a", type=BIGINT),
            Attribute(name="t", type=STRING),
            Attribute(name="w", type=wide),
        ),
    )
    batch = Batch(
        schema, pa.table({"a": [1, None], "t": ["x", None], "w": [None, None]}, schema=schema.arrow)
    )
    texts = bytes_coder([pa.array([b"x"], pa.large_binary())])
    assert batch.codes(Dimension("a"), BIGINT, OffsetCoder(1, 0)).tolist() == [1, NULL_CODE]
    assert batch.codes(Dimension("t"), STRING, texts).tolist() == [1, NULL_CODE]
    assert batch.codes(Dimension("t", True), STRING, texts).tolist() == [1, NULL_CODE]
    assert batch.codes(Dimension("w"), wide, texts).tolist() == [NULL_CODE, NULL_CODE]
