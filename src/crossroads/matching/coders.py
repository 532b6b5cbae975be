"""Values → int32 codes, exact with respect to the constants that the subscriptions mention.

Code -1 is NULL. For the rest, values below all constants have code 0, and codes keep the order. Two
ways: an `OffsetCoder` counts up from the least constant (dense whole numbers: no search at all), a
`RankCoder` gives 2r+1 to constant r and 2r to what lies just below it (anything with order).
Bounds use the same codes: "at least constant r" is [2r+1, …], "less than constant r" is […, 2r].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.matching.boxes import NO_UPPER_BOUND, Int32Array, Int64Array
from crossroads.model.columnkeys import Bytes, binary_buffers, head_of, heads_of
from crossroads.model.compiled import compiled, frozen
from crossroads.model.types import Kind, Type

NULL_CODE = -1
OFFSET_SPAN_MAX = 2**30  # codes must fit int32 with room to spare
_RADIX_BITS_MAX = 20  # the search table of a rank coder: at most 4 MiB


# -- coders ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OffsetCoder:
    base: int
    span: int  # greatest constant - least constant

    @property
    def size(self) -> int:
        return self.span + 3

    def encode(self, keys: Int64Array) -> Int32Array:
        return _offset_codes(frozen(keys), np.int64(self.base), np.int64(self.span))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"offset": np.array([self.base, self.span], np.int64)}


@dataclass(frozen=True)
class RankCoder:
    """`table[bucket]` says where among the sorted constants the bucket's values begin."""

    constants: Int64Array
    table: Int32Array
    shift: int

    def __post_init__(self) -> None:
        _freeze(self, "constants", "table")

    @classmethod
    def of(cls, constants: Int64Array) -> RankCoder:
        bits = min(_RADIX_BITS_MAX, max(4, int(constants.size - 1).bit_length() + 1))
        spread = int(constants[-1]) - int(constants[0])
        shift = max(0, spread.bit_length() - bits)
        edges = np.arange((spread >> shift) + 1, dtype=np.uint64) << np.uint64(shift)
        above = constants.view(np.uint64) - np.uint64(int(constants[0]) & (2**64 - 1))
        # The end of the last bucket is behind everything, and may not fit 64 bits.
        table = np.append(np.searchsorted(above, edges), constants.size).astype(np.int32)
        return cls(constants, table, shift)

    @property
    def size(self) -> int:
        return 2 * self.constants.size + 1

    def encode(self, keys: Int64Array) -> Int32Array:
        return _rank_codes(frozen(keys), self.constants, self.table, np.uint64(self.shift))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        shift = np.array([self.shift], np.int64)
        return {"constants": self.constants, "table": self.table, "shift": shift}


@dataclass(frozen=True)
class BytesCoder:
    """Constants are byte strings, side by side in order; `heads` are their first eight bytes."""

    data: npt.NDArray[np.uint8]
    offsets: Int64Array
    heads: npt.NDArray[np.uint64]

    def __post_init__(self) -> None:
        _freeze(self, "data", "offsets", "heads")

    @classmethod
    def of(cls, constants: pa.Array) -> BytesCoder:
        data, offsets = binary_buffers(constants)
        start = int(offsets[0])
        data = np.ascontiguousarray(data[start : int(offsets[-1])])
        offsets = np.ascontiguousarray(offsets - start)
        return cls(data, offsets, heads_of(frozen(data), frozen(offsets)))

    @property
    def size(self) -> int:
        return 2 * self.heads.size + 1

    def encode_bytes(self, values: pa.Array) -> Int32Array:
        data, offsets = binary_buffers(values)
        return _bytes_codes(frozen(data), frozen(offsets), self.data, self.offsets, self.heads)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"data": self.data, "offsets": self.offsets, "heads": self.heads}


Coder = OffsetCoder | RankCoder | BytesCoder


def _freeze(coder: RankCoder | BytesCoder, *names: str) -> None:
    """Read-only views, so that kernels are compiled once for fresh and for memory-mapped arrays."""
    for name in names:
        object.__setattr__(coder, name, frozen(getattr(coder, name)))


def coder_from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> Coder:
    if "offset" in arrays:
        return OffsetCoder(int(arrays["offset"][0]), int(arrays["offset"][1]))
    if "table" in arrays:
        return RankCoder(arrays["constants"], arrays["table"], int(arrays["shift"][0]))
    return BytesCoder(arrays["data"], arrays["offsets"], arrays["heads"])


def int_coder(type_: Type, constants: list[Int64Array]) -> Coder:
    """The coder for these constants: by offset where the numbers are whole and lie close."""
    given = [part for part in constants if part.size]
    if not given:
        return OffsetCoder(0, 0)
    low, high = min(int(part.min()) for part in given), max(int(part.max()) for part in given)
    if type_.kind is not Kind.DOUBLE and high - low < OFFSET_SPAN_MAX:
        return OffsetCoder(low, high - low)
    return RankCoder.of(np.unique(np.concatenate(given)))


def bytes_coder(constants: list[pa.Array]) -> BytesCoder:
    merged = pa.chunked_array(constants, pa.large_binary()).unique()
    if isinstance(merged, pa.ChunkedArray):
        merged = merged.combine_chunks()
    return BytesCoder.of(merged.sort())


@compiled
def _offset_codes(keys: Int64Array, base: np.int64, span: np.int64) -> Int32Array:
    codes = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        key = keys[i]
        if key < base:
            codes[i] = 0
            continue
        # Unsigned: the signed difference of far numbers wraps around, and the compiler may then
        # conclude anything.
        above = np.uint64(key) - np.uint64(base)
        codes[i] = span + 2 if above > np.uint64(span) else np.int64(above) + 1
    return codes


@compiled
def _rank_codes(
    keys: Int64Array, constants: Int64Array, table: Int32Array, shift: np.uint64
) -> Int32Array:
    codes = np.empty(keys.size, np.int32)
    first, last = constants[0], constants[constants.size - 1]
    for i in range(keys.size):
        key = keys[i]
        if key < first:
            codes[i] = 0
            continue
        if key > last:
            codes[i] = 2 * constants.size
            continue
        bucket = (np.uint64(key) - np.uint64(first)) >> shift
        low, high = table[bucket], table[bucket + 1]
        while low < high:
            middle = (low + high) >> 1
            if constants[middle] < key:
                low = middle + 1
            else:
                high = middle
        codes[i] = 2 * low + (1 if low < constants.size and constants[low] == key else 0)
    return codes


@compiled
def _order(a: Bytes, a_start: int, a_end: int, b: Bytes, b_start: int, b_end: int) -> int:
    """-1, 0, 1: how the two byte strings compare."""
    for i in range(min(a_end - a_start, b_end - b_start)):
        if a[a_start + i] != b[b_start + i]:
            return -1 if a[a_start + i] < b[b_start + i] else 1
    return (a_end - a_start > b_end - b_start) - (a_end - a_start < b_end - b_start)


@compiled
def _bytes_codes(
    data: Bytes,
    offsets: Int64Array,
    const_data: Bytes,
    const_offsets: Int64Array,
    heads: npt.NDArray[np.uint64],
) -> Int32Array:
    codes = np.empty(offsets.size - 1, np.int32)
    for i in range(codes.size):
        start, end = offsets[i], offsets[i + 1]
        head = head_of(data, start, end)
        low, high = 0, heads.size
        equal = 0
        while low < high:
            middle = (low + high) >> 1
            if heads[middle] != head:
                below = heads[middle] < head
            else:
                order = _order(
                    const_data, const_offsets[middle], const_offsets[middle + 1], data, start, end
                )
                below = order < 0
                if order == 0:
                    equal = 1
            if below:
                low = middle + 1
            else:
                high = middle
        codes[i] = 2 * low + equal
    return codes


UNBOUNDED = (0, NO_UPPER_BOUND)  # every value, but not NULL
