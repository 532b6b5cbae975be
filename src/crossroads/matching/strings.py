"""Comparisons of many pairs of strings, on the buffers of Arrow string arrays.

A column of strings is `data` (the bytes of all of them) and `offsets`: string i is
data[offsets[i] : offsets[i + 1]]. A pair j is string left[j] of column a and string right[j] of
column b. All functions look at bytes: UTF-8 keeps the order of code points, and a valid UTF-8
string occurs in another one only at the beginning of a character. Nothing here knows NULL:
callers leave those pairs out.

Every function is a thin door (one dtype, read-only views, so that numba compiles each kernel once)
to a kernel in one piece: numba counts references whenever an array is passed to a helper, which
would cost more than a short comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crossroads.model.compiled import frozen
from crossroads.model.like import LikePattern, Wildcard

Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Int8s = NDArray[np.int8]
Int16s = NDArray[np.int16]
Int64s = NDArray[np.int64]
Integers = NDArray[np.signedinteger[Any]]  # int32 or int64, as Arrow has them

# A compiled LIKE: literal bytes as themselves, wildcards as these.
LIKE_ONE = 256
LIKE_MANY = 257


def contains_pairs(
    data_a: Bytes, offsets_a: Integers, left: Integers,
    data_b: Bytes, offsets_b: Integers, right: Integers,
) -> Bools:  # fmt: skip
    """Is string right[j] of b a part of string left[j] of a?"""
    return _contains(*_pairs(data_a, offsets_a, left, data_b, offsets_b, right))


def startswith_pairs(
    data_a: Bytes, offsets_a: Integers, left: Integers,
    data_b: Bytes, offsets_b: Integers, right: Integers,
) -> Bools:  # fmt: skip
    """Does string left[j] of a start with string right[j] of b?"""
    return _same_at(False, False, *_pairs(data_a, offsets_a, left, data_b, offsets_b, right))


def endswith_pairs(
    data_a: Bytes, offsets_a: Integers, left: Integers,
    data_b: Bytes, offsets_b: Integers, right: Integers,
) -> Bools:  # fmt: skip
    """Does string left[j] of a end with string right[j] of b?"""
    return _same_at(True, False, *_pairs(data_a, offsets_a, left, data_b, offsets_b, right))


def equal_pairs(
    data_a: Bytes, offsets_a: Integers, left: Integers,
    data_b: Bytes, offsets_b: Integers, right: Integers,
) -> Bools:  # fmt: skip
    """Are the two strings of each pair equal?"""
    return _same_at(False, True, *_pairs(data_a, offsets_a, left, data_b, offsets_b, right))


def compare_pairs(
    data_a: Bytes, offsets_a: Integers, left: Integers,
    data_b: Bytes, offsets_b: Integers, right: Integers,
) -> Int8s:  # fmt: skip
    """-1, 0 or 1: the order of the strings' bytes, a prefix before what it begins."""
    return _compare(*_pairs(data_a, offsets_a, left, data_b, offsets_b, right))


def like_pairs(
    data: Bytes, offsets: Integers, left: Integers,
    codes: Int16s, code_offsets: Integers, right: Integers,
) -> Bools:  # fmt: skip
    """Does string left[j] match pattern right[j] of `compile_likes`?"""
    return _like(*_pairs(data, offsets, left, codes, code_offsets, right))


def compile_likes(patterns: Sequence[LikePattern]) -> tuple[Int16s, Int64s]:
    """The patterns in the flat form that `like_pairs` takes: (codes, code_offsets)."""
    codes: list[int] = []
    offsets = [0]
    for pattern in patterns:
        for part in pattern.parts:
            if isinstance(part, str):
                codes.extend(part.encode())
            else:
                codes.append(LIKE_MANY if part is Wildcard.MANY else LIKE_ONE)
        offsets.append(len(codes))
    return np.array(codes, dtype=np.int16), np.array(offsets, dtype=np.int64)


def _pairs(
    data_a: NDArray[Any], offsets_a: Integers, left: Integers,
    data_b: NDArray[Any], offsets_b: Integers, right: Integers,
) -> tuple[Any, ...]:  # fmt: skip
    if left.size != right.size:
        raise ValueError(f"{left.size} left and {right.size} right strings are not pairs")
    wide = (frozen(a.astype(np.int64, copy=False)) for a in (offsets_a, left, offsets_b, right))
    offsets_a, left, offsets_b, right = wide
    return frozen(data_a), offsets_a, left, frozen(data_b), offsets_b, right


@njit(cache=True)
def _same_at(
    at_end: bool, whole: bool,
    data_a: Bytes, offsets_a: Int64s, left: Int64s,
    data_b: Bytes, offsets_b: Int64s, right: Int64s,
) -> Bools:  # fmt: skip
    same = np.empty(left.size, np.bool_)
    for j in range(left.size):
        start_a, end_a = offsets_a[left[j]], offsets_a[left[j] + 1]
        start_b, end_b = offsets_b[right[j]], offsets_b[right[j] + 1]
        length = end_b - start_b
        fits = length == end_a - start_a if whole else length <= end_a - start_a
        if fits:
            shift = (end_a - length if at_end else start_a) - start_b
            position = start_b
            while position < end_b and data_b[position] == data_a[position + shift]:
                position += 1
            fits = position == end_b
        same[j] = fits
    return same


@njit(cache=True)
def _compare(
    data_a: Bytes, offsets_a: Int64s, left: Int64s,
    data_b: Bytes, offsets_b: Int64s, right: Int64s,
) -> Int8s:  # fmt: skip
    order = np.zeros(left.size, np.int8)
    for j in range(left.size):
        start_a, end_a = offsets_a[left[j]], offsets_a[left[j] + 1]
        start_b, end_b = offsets_b[right[j]], offsets_b[right[j] + 1]
        shared = min(end_a - start_a, end_b - start_b)
        i = 0
        while i < shared and data_a[start_a + i] == data_b[start_b + i]:
            i += 1
        if i < shared:
            order[j] = -1 if data_a[start_a + i] < data_b[start_b + i] else 1
        elif end_a - start_a != end_b - start_b:
            order[j] = -1 if end_a - start_a < end_b - start_b else 1
    return order


@njit(cache=True)
def _contains(
    data_a: Bytes, offsets_a: Int64s, left: Int64s,
    data_b: Bytes, offsets_b: Int64s, right: Int64s,
) -> Bools:  # fmt: skip
    """Tries every place, which is quick on real text; hands over to KMP where it is not."""
    inside = np.empty(left.size, np.bool_)
    for j in range(left.size):
        start_a, end_a = offsets_a[left[j]], offsets_a[left[j] + 1]
        start_b, end_b = offsets_b[right[j]], offsets_b[right[j] + 1]
        length = end_b - start_b
        found = length == 0
        patience = 4 * (end_a - start_a)  # comparisons; KMP needs about half of that
        if length > 0:
            first, final = data_b[start_b], data_b[end_b - 1]
            for place in range(start_a, end_a - length + 1):
                if data_a[place] != first or data_a[place + length - 1] != final:
                    continue
                i = 1
                while i < length and data_a[place + i] == data_b[start_b + i]:
                    i += 1
                if i >= length:
                    found = True
                    break
                patience -= i
                if patience < 0:
                    found = _contains_linear(data_a[place:end_a], data_b[start_b:end_b])
                    break
        inside[j] = found
    return inside


@njit(cache=True)
def _contains_linear(text: Bytes, needle: Bytes) -> bool:
    """Knuth, Morris and Pratt: linear whatever the strings, for the pairs that would be slow."""
    border = np.zeros(needle.size, np.int64)  # of each prefix: longest proper suffix-and-prefix
    matched = 0
    for i in range(1, needle.size):
        while matched > 0 and needle[i] != needle[matched]:
            matched = border[matched - 1]
        if needle[i] == needle[matched]:
            matched += 1
        border[i] = matched
    matched = 0
    for i in range(text.size):
        while matched > 0 and text[i] != needle[matched]:
            matched = border[matched - 1]
        if text[i] == needle[matched]:
            matched += 1
        if matched == needle.size:
            return True
    return False


@njit(cache=True)
def _like(
    data: Bytes, offsets: Int64s, left: Int64s,
    codes: Int16s, code_offsets: Int64s, right: Int64s,
) -> Bools:  # fmt: skip
    """Only the latest MANY is ever tried longer: what stood before it is settled at its leftmost.

    So a pair costs at most (bytes of the text) x (codes of the pattern), never more.
    """
    matches = np.empty(left.size, np.bool_)
    for j in range(left.size):
        at, end = offsets[left[j]], offsets[left[j] + 1]
        code, code_end = code_offsets[right[j]], code_offsets[right[j] + 1]
        after_many, retry_at = np.int64(-1), np.int64(0)
        while True:
            if code < code_end and codes[code] == LIKE_MANY:
                code += 1
                after_many, retry_at = code, at
                if code == code_end:
                    at = end
            elif at < end and code < code_end and codes[code] == LIKE_ONE:
                code += 1
                at += 1
                while at < end and data[at] & 0xC0 == 0x80:  # the rest of the character
                    at += 1
            elif at < end and code < code_end and codes[code] == data[at]:
                code += 1
                at += 1
            elif at == end and code == code_end:
                matches[j] = True
                break
            elif after_many < 0 or retry_at >= end:
                matches[j] = False
                break
            else:
                # This may stop inside a character, but never match there: in the normal form a
                # literal follows the MANY, and its first byte begins a character.
                retry_at += 1
                at, code = retry_at, after_many
    return matches
