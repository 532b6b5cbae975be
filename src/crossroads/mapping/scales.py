"""Scales: how keys of values (see `model.types`) become positions 0 … size - 1.

All but `Hashed` are monotone: a greater key never has a lesser position, and what lies outside the
domain is at its nearer end. That is all a mapping needs: an interval of keys lies between the
positions of its ends. Each scale places one key, and a column of keys, with the same result to the
last bit: whole numbers are divided as whole numbers, doubles by the same few operations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.mapping.mixing import mix, mix_64
from crossroads.model.columnkeys import Bytes, Int64Array, binary_buffers, head_of
from crossroads.model.compiled import compiled, frozen
from crossroads.model.identity import bytes_hash, bytes_hashes
from crossroads.model.types import BIGINT_MAX, BIGINT_MIN, Key, double_key, key_double

HEAD_BYTES = 8  # of a text that count
_PRODUCT_BITS = 64  # offset * size // reach is computed with unsigned 64-bit integers
_WORD = 2**64 - 1
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class Even:
    """Whole numbers low … high (both belong) in `size` parts of equal width.

    Where the product would not fit 64 bits, the last bits of the numbers are not looked at.
    """

    low: int
    high: int
    size: int

    def __post_init__(self) -> None:
        assert BIGINT_MIN <= self.low <= self.high <= BIGINT_MAX, self
        assert 1 <= self.size <= self.reach, self

    @cached_property
    def shift(self) -> int:
        bits = (self.high - self.low).bit_length()
        return max(0, bits + max(1, (self.size - 1).bit_length()) - _PRODUCT_BITS)

    @cached_property
    def reach(self) -> int:
        return ((self.high - self.low) >> self.shift) + 1

    def first(self, key: Key) -> int:
        """The position of the key."""
        assert isinstance(key, int)
        offset = min(max(key, self.low), self.high) - self.low
        return (offset >> self.shift) * self.size // self.reach

    def last(self, end: Key) -> int:
        """The greatest position of a key below `end`."""
        assert isinstance(end, int)
        return self.first(end - 1)

    def places(self, keys: Int64Array) -> Int64Array:
        return _even_places(
            frozen(keys),
            self.low,
            self.high,
            np.uint64(self.shift),
            np.uint64(self.reach),
            self.size,
        )


@dataclass(frozen=True)
class EvenDoubles:
    """Doubles low … high (both belong) in `size` parts of equal width; NaN is beyond all others."""

    low: float
    high: float
    size: int

    def __post_init__(self) -> None:
        assert np.isfinite(self.low) and np.isfinite(self.high) and self.low <= self.high, self
        assert 1 <= self.size <= double_key(self.high) - double_key(self.low) + 1, self

    def first(self, key: Key) -> int:
        assert isinstance(key, int)
        value = key_double(key)
        if value <= self.low:
            return 0
        if not value < self.high:
            return self.size - 1
        # Halved, because the difference of two doubles may be too large for a double. Every step
        # rounds, and no rounding exchanges two numbers.
        reach = self.high * 0.5 - self.low * 0.5
        if reach == 0.0:  # the halves of the least doubles round to one and the same
            return 0
        part = (value * 0.5 - self.low * 0.5) / reach
        return min(int(part * self.size), self.size - 1)

    def last(self, end: Key) -> int:
        assert isinstance(end, int)
        return self.first(end - 1)

    def places(self, keys: Int64Array) -> Int64Array:
        bits = np.where(keys >= 0, keys, -keys | np.int64(BIGINT_MIN))
        return self.places_of_values(bits.view(np.float64))

    def places_of_values(self, values: npt.NDArray[np.float64]) -> Int64Array:
        return _double_places(frozen(values), self.low, self.high, self.size)


@dataclass(frozen=True)
class Ranks:
    """By the place among known values, in their order; what lies between two has the lower one's
    place. Keys are all whole numbers or all bytes."""

    values: tuple[Key, ...]  # ascending
    size: int

    def __post_init__(self) -> None:
        assert 1 <= self.size <= len(self.values), self

    def first(self, key: Key) -> int:
        return self._position(bisect_right(self.values, key))

    def last(self, end: Key) -> int:
        return self._position(bisect_left(self.values, end))

    def _position(self, not_above: int) -> int:
        return max(not_above - 1, 0) * self.size // len(self.values)

    def places(self, keys: Int64Array) -> Int64Array:
        known = np.array(self.values, np.int64)
        ranks = np.maximum(np.searchsorted(known, keys, side="right") - 1, 0)
        return ranks * self.size // len(self.values)

    def places_of_texts(self, texts: pa.Array) -> Int64Array:
        return _one_by_one(texts, self.first)

    def last_places_of_texts(self, ends: pa.Array) -> Int64Array:
        return _one_by_one(ends, self.last)


@dataclass(frozen=True)
class Leading:
    """Texts by the eight bytes behind a common prefix, taken as one number between two such
    numbers. Texts without the prefix are before or behind all that have it."""

    low: int
    high: int
    size: int
    prefix: bytes = b""

    def __post_init__(self) -> None:
        assert 0 <= self.low <= self.high <= _WORD, self
        assert self.size <= self.even.reach, self

    @cached_property
    def even(self) -> Even:
        """Signed, as columns of numbers are."""
        return Even(self.low + BIGINT_MIN, self.high + BIGINT_MIN, self.size)

    def first(self, key: Key) -> int:
        assert isinstance(key, bytes)
        if not key.startswith(self.prefix):
            return 0 if key < self.prefix else self.size - 1
        return self.even.first(head_of_text(key[len(self.prefix) :]) + BIGINT_MIN)

    def last(self, end: Key) -> int:
        assert isinstance(end, bytes)
        if not end.startswith(self.prefix):
            return 0 if end < self.prefix else self.size - 1
        rest = end[len(self.prefix) :]
        return self.even.first(head_of_text(rest) - _steps_back(rest) + BIGINT_MIN)

    def places_of_texts(self, texts: pa.Array) -> Int64Array:
        return self._places(texts, False)

    def last_places_of_texts(self, ends: pa.Array) -> Int64Array:
        return self._places(ends, True)

    def _places(self, texts: pa.Array, before: bool) -> Int64Array:
        data, offsets = binary_buffers(texts)
        prefix = np.frombuffer(self.prefix, np.uint8)
        heads = _heads_behind(
            frozen(data), frozen(offsets), frozen(prefix), self.even.low, self.even.high, before
        )
        return self.even.places(heads)


@dataclass(frozen=True)
class Hashed:
    """Spread evenly and without order: good for equality only."""

    size: int

    def first(self, key: Key) -> int:
        spread = bytes_hash(key) if isinstance(key, bytes) else mix(key & _WORD)
        return (spread >> 32) * self.size >> 32

    def places(self, keys: Int64Array) -> Int64Array:
        return self._positions(_all_mixed(frozen(keys)))

    def places_of_texts(self, texts: pa.Array) -> Int64Array:
        return self._positions(bytes_hashes(texts))

    def _positions(self, spread: npt.NDArray[np.uint64]) -> Int64Array:
        places = (spread >> np.uint64(32)) * np.uint64(self.size) >> np.uint64(32)
        return places.astype(np.int64)


Scale = Even | EvenDoubles | Ranks | Leading | Hashed


def head_of_text(key: bytes) -> int:
    """The first eight bytes as one ordered number; what is missing counts as zero."""
    return int.from_bytes(key[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0"), "big")


def _steps_back(end: bytes) -> int:
    """0 where a text below `end` may have the same head: it differs later, or by a final zero."""
    return int(len(end) <= HEAD_BYTES and not end.endswith(b"\0") and end != b"")


def _one_by_one(texts: pa.Array, place: Callable[[bytes], int]) -> Int64Array:
    return np.array([place(text) for text in texts.to_pylist()], np.int64)


@compiled
def _all_mixed(keys: Int64Array) -> npt.NDArray[np.uint64]:
    mixed = np.empty(keys.size, np.uint64)
    for i in range(keys.size):
        mixed[i] = mix_64(np.uint64(keys[i]))
    return mixed


@compiled
def _even_places(
    keys: Int64Array, low: int, high: int, shift: np.uint64, reach: np.uint64, size: int
) -> Int64Array:
    places = np.empty(keys.size, np.int64)
    count = np.uint64(size)
    for i in range(keys.size):
        key = keys[i]
        if key <= low:
            places[i] = 0
        elif key >= high:
            places[i] = size - 1
        else:
            # Unsigned: the signed difference of far numbers wraps around.
            offset = (np.uint64(key) - np.uint64(low)) >> shift
            places[i] = np.int64(offset * count // reach)
    return places


@compiled
def _double_places(
    values: npt.NDArray[np.float64], low: float, high: float, size: int
) -> Int64Array:
    places = np.empty(values.size, np.int64)
    reach = high * 0.5 - low * 0.5
    for i in range(values.size):
        value = values[i]
        if value <= low:
            places[i] = 0
        elif not value < high:
            places[i] = size - 1
        elif reach == 0.0:
            places[i] = 0
        else:
            part = (value * 0.5 - low * 0.5) / reach
            place = np.int64(part * size)
            places[i] = place if place < size else size - 1
    return places


@compiled
def _heads_behind(
    data: Bytes, offsets: Int64Array, prefix: Bytes, low: int, high: int, before: bool
) -> Int64Array:
    """Signed heads of what follows the prefix; `before`: of the greatest text before each one.

    Texts without the prefix count as the lowest or the highest.
    """
    found = np.empty(offsets.size - 1, np.int64)
    for i in range(found.size):
        start, end = offsets[i], offsets[i + 1]
        shared = min(end - start, prefix.size)
        at = 0
        while at < shared and data[start + at] == prefix[at]:
            at += 1
        if at < prefix.size:
            found[i] = low if at == end - start or data[start + at] < prefix[at] else high
            continue
        start += at
        head = head_of(data, start, end)
        if before and start < end <= start + HEAD_BYTES and data[end - 1] != 0:
            head -= np.uint64(1)
        found[i] = np.int64(head ^ _SIGN)
    return found
