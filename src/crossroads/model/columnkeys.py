"""Columns → keys: the order-preserving stand-ins of `types`, for whole Arrow columns at once.

Keys are 64-bit integers, or bytes for text and for decimals that need more than 64 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.model.compiled import compiled, frozen
from crossroads.model.types import BIGINT_MAX, BIGINT_MIN, Kind, Type

Bytes = npt.NDArray[np.uint8]
Int64Array = npt.NDArray[np.int64]

_EXPONENT_ALL_ONES = 0x7FF0_0000_0000_0000


def int_keys(type_: Type, column: pa.Array) -> Int64Array:
    """Order-preserving 64-bit keys (see `model.types`) of a column; anything where it is NULL."""
    match type_.kind:
        case Kind.DOUBLE:
            return double_keys(column.fill_null(0.0).to_numpy(zero_copy_only=False))
        case Kind.BOOLEAN:
            return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.int64)
        case Kind.DECIMAL:
            words = _fixed_words(column, 16)
            return np.ascontiguousarray(words[:, 0]).view(np.int64)
        case Kind.DATE:
            column = column.cast(pa.int32())
        case Kind.TIMESTAMP:
            column = column.cast(pa.int64())
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def saturated_keys(column: pa.Array) -> Int64Array:
    """Of decimals of any width: the key, or the nearest 64-bit integer to it."""
    words = _fixed_words(column, 16).view(np.int64)
    keys, above = words[:, 0], words[:, 1]
    fits = above == keys >> np.int64(63)  # the upper word only repeats the sign
    return np.where(fits, keys, np.where(above < 0, BIGINT_MIN, BIGINT_MAX))


def double_keys(values: npt.NDArray[np.float64]) -> Int64Array:
    """`model.types.double_key`, for a whole array."""
    bits = (values + 0.0).view(np.int64)
    keys = np.where(bits >= 0, bits, -(bits & np.int64(2**63 - 1)))
    keys[np.isnan(values)] = _EXPONENT_ALL_ONES | (1 << 51)
    return keys


def _fixed_words(column: pa.Array, width: int) -> npt.NDArray[np.uint64]:
    data = column.buffers()[1]
    words = np.frombuffer(data, np.uint64).reshape(-1, width // 8)
    return words[column.offset : column.offset + len(column)]


def byte_keys(type_: Type, column: pa.Array) -> pa.Array:
    """Keys that are bytes: text as UTF-8; decimals too wide for 64 bits as 16 ordered bytes."""
    if type_.kind is not Kind.DECIMAL:
        return column.cast(pa.string()).cast(pa.large_string()).cast(pa.large_binary())
    words = _fixed_words(column, 16)
    ordered = np.empty((len(column), 2), ">u8")
    ordered[:, 0] = words[:, 1] ^ np.uint64(1 << 63)  # two's complement orders once biased
    ordered[:, 1] = words[:, 0]
    offsets = np.arange(len(column) + 1, dtype=np.int64) * 16
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(ordered.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def wide_key(key: int) -> bytes:
    """The bytes of one wide decimal's key; equal to what `byte_keys` gives."""
    return (key + (1 << 127)).to_bytes(16, "big")


def binary_buffers(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    if not len(column):  # which may have no buffers at all
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return (np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)), ends


def backwards(column: pa.Array) -> pa.Array:
    """Each value's bytes read from the end, so that suffixes become prefixes.

    Bytes, not characters: the result is no text, but texts share a suffix exactly when their
    reversals share a prefix, and that is all it is for.
    """
    data, offsets = binary_buffers(column)
    start = int(offsets[0])
    shifted = np.ascontiguousarray(offsets - start)
    turned = _reversed(frozen(data[start : int(offsets[-1])]), frozen(shifted))
    buffers = [None, pa.py_buffer(shifted), pa.py_buffer(turned)]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


@compiled
def head_of(data: Bytes, start: int, end: int) -> np.uint64:
    """The first eight bytes as one ordered number; what is missing counts as zero."""
    head = np.uint64(0)
    for i in range(8):
        head <<= np.uint64(8)
        if start + i < end:
            head |= np.uint64(data[start + i])
    return head


@compiled
def heads_of(data: Bytes, offsets: Int64Array) -> npt.NDArray[np.uint64]:
    heads = np.empty(offsets.size - 1, np.uint64)
    for i in range(heads.size):
        heads[i] = head_of(data, offsets[i], offsets[i + 1])
    return heads


@compiled
def _reversed(data: Bytes, offsets: Int64Array) -> Bytes:
    turned = np.empty(data.size, np.uint8)
    for i in range(offsets.size - 1):
        start, end = offsets[i], offsets[i + 1]
        for k in range(end - start):
            turned[start + k] = data[end - 1 - k]
    return turned
