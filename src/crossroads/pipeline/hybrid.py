"""Codes in Parquet's hybrid of runs and bit packing, and texts in its plain encoding.

A stream of codes is a sequence of pieces. A piece is either a run, one code and how often it
follows, or packed: groups of eight codes side by side, `width` bits each, lowest bit first. Readers
know the width beforehand. What these loops write is small and in the cache when it is compressed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.model.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]

RUN_HEAD_BYTES_MAX = 5  # a run is shorter than 2^31
LENGTH_BYTES = 4  # before each text
_WORD_BITS = 32


def width_of(size: int) -> int:
    """Bits of a code for one of `size` values. One value would need none, but the readers that
    stumble over a width of zero are many, and a bit per code is little."""
    return max(1, (size - 1).bit_length())


def packed_bytes(count: int, width: int) -> int:
    """Of codes packed in groups of eight, the last one filled up."""
    return (count + 7) // 8 * width


@compiled
def pack(codes: Int32Array, width: int, out: Words) -> None:
    """`out` has room for the bits and one word more. Codes fit the width."""
    waiting = np.uint64(0)
    bits = np.uint64(0)
    size = np.uint64(width)
    full = np.uint64(_WORD_BITS)
    n = 0
    for at in range(codes.size):
        waiting |= np.uint64(codes[at]) << bits
        bits += size
        if bits >= full:
            out[n] = np.uint32(waiting & np.uint64(0xFFFFFFFF))
            n += 1
            waiting >>= full
            bits -= full
    # What is left, and the filling of the last group, which is seven codes at most.
    while n < out.size:
        out[n] = np.uint32(waiting)
        waiting = np.uint64(0)
        n += 1


@compiled
def write_runs(counts: Int64Array, first: int, width: int, out: Bytes) -> Any:
    """Run i is the code `first + i`, counts[i] times; returns the bytes written."""
    n = 0
    code_bytes = (width + 7) // 8
    for at in range(counts.size):
        head = counts[at] << 1  # the lowest bit says: a run
        while head > 0x7F:
            out[n] = head & 0x7F | 0x80
            head >>= 7
            n += 1
        out[n] = head
        n += 1
        code = first + at
        for _ in range(code_bytes):
            out[n] = code & 0xFF
            code >>= 8
            n += 1
    return n


# -- dictionaries --------------------------------------------------------------------------------


@compiled
def texts_bytes(offsets: Int64Array, chosen: Int32Array) -> Any:
    """That `write_texts` will write."""
    total = LENGTH_BYTES * chosen.size
    for place in chosen:
        total += offsets[place + 1] - offsets[place]
    return total


@compiled
def write_texts(offsets: Int64Array, data: Bytes, chosen: Int32Array, out: Bytes) -> None:
    """Each text with its length before it, the lowest byte first."""
    n = 0
    for place in chosen:
        begin, end = offsets[place], offsets[place + 1]
        size = end - begin
        for _ in range(LENGTH_BYTES):
            out[n] = size & 0xFF
            size >>= 8
            n += 1
        for at in range(begin, end):
            out[n] = data[at]
            n += 1


@compiled
def gather(table: Int32Array, places: Int32Array) -> Any:
    """table[places], without the detour through 64-bit places that numpy takes."""
    found = np.empty(places.size, np.int32)
    for at in range(places.size):
        found[at] = table[places[at]]
    return found


@compiled
def gather_distinct(codes: Int32Array, place: Int32Array) -> Any:
    """Each code once, in the order of appearance. `place` has a cell for every possible code, all
    negative; those of the codes that were found no longer are."""
    found = np.empty(min(codes.size, place.size), np.int32)
    n = 0
    for code in codes:
        if place[code] < 0:
            place[code] = n
            found[n] = code
            n += 1
    return found[:n]


@compiled
def renumber(codes: Int32Array, used: Int32Array, place: Int32Array) -> Any:
    """For each code its place in `used`. All cells of `place` are negative afterwards."""
    for at in range(used.size):
        place[used[at]] = at
    found = np.empty(codes.size, np.int32)
    for at in range(codes.size):
        found[at] = place[codes[at]]
    for code in used:
        place[code] = -1
    return found
