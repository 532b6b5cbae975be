"""The scanner of `scan`, for a million texts at once: shapes are hashed, literals located.

It reads only what is plain: numbers of at most 15 digits without exponent or suffix, and strings
without escapes. Everything else is marked, and read one by one by `parse`; so this code may be
simple-minded but never wrong. A shape is compared byte by byte with its representative before it is
believed, because a hash alone could be made to collide on purpose.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crossroads.model.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


NUMBER, TEXT = 1, 2
DIGITS_MAX = 15  # a whole number of 15 digits is exact as a double, so m / 10**s rounds correctly

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@compiled
def _is_name(char: int) -> bool:
    return (97 <= char <= 122) or (65 <= char <= 90) or char == 95 or (48 <= char <= 57)


@compiled
def _name_end(data: Bytes, at: int, end: int) -> int:
    """Behind the name, plain or in backticks, that begins at `at`; -1 if it is never closed."""
    stop = at + 1
    if data[at] != 96:
        while stop < end and _is_name(data[stop]):
            stop += 1
        return stop
    while stop < end and data[stop] != 96:
        stop += 1
    return stop + 1 if stop < end else -1


@compiled
def _text_end(data: Bytes, at: int, end: int) -> int:
    """Behind the closing quote of the string that opens at `at`; -1 if it is not plain."""
    at += 1
    while at < end and data[at] != 39:
        if data[at] == 92:
            return -1
        at += 1
    if at >= end or (at + 1 < end and data[at + 1] == 39):
        return -1
    return at + 1


@compiled
def _number_end(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """(behind the number, its digits as one number, how many behind the point); -1: not plain."""
    mantissa, scale, digits, point = 0, 0, 0, False
    while at < end:
        char = data[at]
        if 48 <= char <= 57:
            mantissa = mantissa * 10 + (char - 48)
            digits += 1
            if point:
                scale += 1
            if digits > DIGITS_MAX:
                return -1, 0, 0
        elif char == 46 and not point:
            point = True
        else:
            break
        at += 1
    if digits == 0 or (at < end and (_is_name(data[at]) or data[at] == 46 or data[at] >= 128)):
        return -1, 0, 0
    if point and scale == 0:  # `3.` is a decimal, which a scale of zero would not tell from `3`
        return -1, 0, 0
    return at, mantissa, scale


@compiled
def _is_odd(data: Bytes, at: int, end: int) -> bool:
    """Other quotes, characters beyond ASCII, control characters, comments."""
    char = data[at]
    follower = data[at + 1] if at + 1 < end else 0
    return (
        char == 34
        or char >= 128
        or (char < 32 and char not in (9, 10, 13))
        or (char == 45 and follower == 45)
        or (char == 47 and follower == 42)
    )


@compiled
def _scan_one(
    data: Bytes,
    start: int,
    end: int,
    kinds: Bytes,
    spans: Ints,
    mantissas: Ints,
    scales: Bytes,
    at_literal: int,
    keep: bool,
) -> tuple[np.uint64, int]:
    """Hash of the shape and number of literals of one text; -1 literals: read it one by one."""
    shape = _FNV_OFFSET
    literals = 0
    at = start
    while at < end:
        char = data[at]
        kind = 0
        stop = at + 1
        if char == 39:
            if at > start and _is_name(data[at - 1]):
                return shape, -1
            stop = _text_end(data, at, end)
            kind = TEXT
        elif 48 <= char <= 57 or (char == 46 and at + 1 < end and 48 <= data[at + 1] <= 57):
            if char == 46 and at > start and (_is_name(data[at - 1]) or data[at - 1] == 96):
                return shape, -1
            stop, mantissa, scale = _number_end(data, at, end)
            kind = NUMBER
            if keep and stop > 0:
                mantissas[at_literal + literals] = mantissa
                scales[at_literal + literals] = scale
        elif _is_name(char) or char == 96:
            stop = _name_end(data, at, end)
        elif _is_odd(data, at, end):
            stop = -1
        if stop < 0:
            return shape, -1
        if kind:
            if keep:
                kinds[at_literal + literals] = kind
                spans[at_literal + literals, 0] = at
                spans[at_literal + literals, 1] = stop
            literals += 1
            shape = (shape ^ np.uint64(kind)) * _FNV_PRIME
        else:
            for i in range(at, stop):
                shape = (shape ^ np.uint64(data[i])) * _FNV_PRIME
        at = stop
    return shape, literals


@compiled
def scan_texts(
    data: Bytes, offsets: Ints
) -> tuple[npt.NDArray[np.uint64], Ints, Ints, Bytes, Ints, Ints, Bytes]:
    """For all texts: shape hashes, first literal of each (n + 1), and what the literals are."""
    n = offsets.size - 1
    shapes = np.empty(n, np.uint64)
    counts = np.empty(n, np.int64)
    first = np.zeros(n + 1, np.int64)
    none = np.empty(0, np.uint8)
    no_spans = np.empty((0, 2), np.int64)
    no_mantissas = np.empty(0, np.int64)
    for i in range(n):
        shapes[i], counts[i] = _scan_one(
            data, offsets[i], offsets[i + 1], none, no_spans, no_mantissas, none, 0, False
        )
        first[i + 1] = first[i] + max(counts[i], 0)
    total = first[n]
    kinds = np.empty(total, np.uint8)
    spans = np.empty((total, 2), np.int64)
    mantissas = np.zeros(total, np.int64)
    scales = np.zeros(total, np.uint8)
    for i in range(n):
        if counts[i] > 0:
            _scan_one(
                data, offsets[i], offsets[i + 1], kinds, spans, mantissas, scales, first[i], True
            )
    return shapes, counts, first, kinds, spans, mantissas, scales


@compiled
def same_shape(
    data: Bytes, offsets: Ints, first: Ints, kinds: Bytes, spans: Ints, rows: Ints, example: int
) -> npt.NDArray[np.bool_]:
    """Which of these rows have, byte for byte, the shape of the example row."""
    same = np.empty(rows.size, np.bool_)
    literals = first[example + 1] - first[example]
    for i in range(rows.size):
        row = rows[i]
        same[i] = first[row + 1] - first[row] == literals
        at, other = offsets[row], offsets[example]
        for k in range(literals + 1):
            if not same[i]:
                break
            last = k == literals
            mine = offsets[row + 1] if last else spans[first[row] + k, 0]
            theirs = offsets[example + 1] if last else spans[first[example] + k, 0]
            if mine - at != theirs - other:
                same[i] = False
                break
            for j in range(mine - at):
                if data[at + j] != data[other + j]:
                    same[i] = False
                    break
            if not last:
                if kinds[first[row] + k] != kinds[first[example] + k]:
                    same[i] = False
                at = spans[first[row] + k, 1]
                other = spans[first[example] + k, 1]
    return same


@compiled
def cut_texts(data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Bytes]:
    """Offsets and bytes of the given slices, side by side."""
    offsets = np.zeros(starts.size + 1, np.int64)
    for i in range(starts.size):
        offsets[i + 1] = offsets[i] + ends[i] - starts[i]
    cut = np.empty(offsets[starts.size], np.uint8)
    for i in range(starts.size):
        for j in range(ends[i] - starts[i]):
            cut[offsets[i] + j] = data[starts[i] + j]
    return offsets, cut
