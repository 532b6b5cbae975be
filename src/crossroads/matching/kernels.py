"""The layout of signature classes, and the compiled loops that match events against them.

Coordinates. Everything here works on code + 1, so that NULL is 0 and nothing is negative.

Lanes. The bounds that an entry must still verify are packed side by side into 64-bit words,
one lane per dimension, each lane topped by a guard bit. With the guard set in the minuend,
`(x | guard) - lo` keeps its guard bit exactly when x >= lo, and never borrows from the next
lane; so one subtraction compares all lanes of a word. An entry has, per word, the packed lower
bounds and the packed upper bounds (guards already set). In a grid cell of width 2^shift a lane
needs only `shift` bits: bounds are cut to the cell and stored relative to it.

Blocks. Events are taken in small blocks. Per class, all list positions of a block are computed
first and the heads of the lists prefetched, so that cache misses overlap; then each event
collects its ids class by class, which gives the output in event order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from crossroads.model.compiled import compiled

Array = np.ndarray[Any, Any]
Integer = int | np.int64 | np.uint64


# Columns of the class table (int64, one row per class).
TABLE_KIND = 0  # one of the TABLE_ constants below
KEY_BEGIN, KEY_END = 1, 2  # rows of the key table
TABLE_BASE = 3  # first of this class's list offsets
HASH_BASE, HASH_MASK = 4, 5  # its slots among all hash slots; their number - 1
ENTRY_BASE = 6  # number of its first entry
WORD_BASE, WORDS = 7, 8  # first bound word; words per entry and bound (0: nothing to verify)
LANE_BEGIN, LANE_END = 9, 10  # rows of the lane table
GUARD_BASE = 11  # first of its WORDS guard words
NARROW, NARROW_DIM, NARROW_BASE, NARROW_REACH = 12, 13, 14, 15
CLASS_COLUMNS = 16

SINGLE_LIST, DENSE_TABLE, HASH_TABLE = 0, 1, 2
# How a list is narrowed before it is scanned: not at all; sorted by lower bound and cut to
# bounds in [x - reach, x]; sorted by upper bound (of non-NULL ranges) and cut to bounds >= x.
NARROW_NONE, NARROW_LOWER, NARROW_UPPER = 0, 1, 2

# Columns of the key table: cell number = sum of (coordinate >> shift) * stride.
KEY_DIM, KEY_SHIFT, KEY_STRIDE = 0, 1, 2
KEY_COLUMNS = 3
# Columns of the lane table: word |= (coordinate & mask) << position.
LANE_DIM, LANE_WORD, LANE_POSITION, LANE_BITS = 0, 1, 2, 3
LANE_COLUMNS = 4

EMPTY_SLOT = -1  # no cell number is negative
BLOCK = 128  # events located at once: enough to overlap misses, small enough for the L1 cache
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio spreads sequential keys
_HASH_DROP = np.uint64(32)


def _prefetch_instruction(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index]; a hint, so any index is harmless."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), cgutils.voidptr_t)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, i32(0), i32(3), i32(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


_prefetch = cast(Callable[[Array, Integer], None], intrinsic(_prefetch_instruction))


@compiled
def slot_of(key: Integer, mask: Integer) -> Integer:
    return np.int64((np.uint64(key) * _HASH_MULTIPLIER) >> _HASH_DROP) & mask


@compiled
def _first_at_least(bounds: Array, begin: Integer, end: Integer, value: Integer) -> Integer:
    """Branch-free binary search: the first place in [begin, end) whose bound is >= value."""
    size = end - begin
    while size > 0:
        half = size >> 1
        below = bounds[begin + half] < value
        begin = begin + half + 1 if below else begin
        size = size - half - 1 if below else half
    return begin


@compiled
def _locate_lists(
    row: Array, keys: Array, offsets: Array, slot_keys: Array, slot_lists: Array,
    codes: Array, event: Integer, count: Integer, cell: Array, begins: Array, ends: Array,
) -> None:  # fmt: skip
    """The list of entries [begin, end) that each event of the block must look at."""
    base, kind = row[TABLE_BASE], row[TABLE_KIND]
    if kind == SINGLE_LIST:
        for b in range(count):
            begins[b] = offsets[base]
            ends[b] = offsets[base + 1]
        return
    for b in range(count):
        cell[b] = 0
    for k in range(row[KEY_BEGIN], row[KEY_END]):
        values = codes[keys[k, KEY_DIM]]
        shift, stride = keys[k, KEY_SHIFT], keys[k, KEY_STRIDE]
        for b in range(count):
            cell[b] += ((np.int64(values[event + b]) + 1) >> shift) * stride
    if kind == HASH_TABLE:
        first_slot, mask = row[HASH_BASE], row[HASH_MASK]
        for b in range(count):
            slot = slot_of(cell[b], mask)
            while slot_keys[first_slot + slot] != cell[b]:
                if slot_keys[first_slot + slot] == EMPTY_SLOT:
                    break
                slot = (slot + 1) & mask
            # Empty slots name the list after the last, which is always empty.
            cell[b] = slot_lists[first_slot + slot]
    for b in range(count):
        begins[b] = offsets[base + cell[b]]
        ends[b] = offsets[base + cell[b] + 1]


@compiled
def _narrow_lists(
    row: Array,
    bounds: Array,
    values: Array,
    event: Integer,
    count: Integer,
    begins: Array,
    ends: Array,
) -> None:
    """Cut each list to the run of entries whose sorted bound admits the event."""
    mode, reach = row[NARROW], row[NARROW_REACH]
    to_bounds = row[NARROW_BASE] - row[ENTRY_BASE]
    for b in range(count):
        begin, end = begins[b] + to_bounds, ends[b] + to_bounds
        if begin == end:
            continue
        x = np.int64(values[event + b]) + 1
        if mode == NARROW_LOWER:
            end = _first_at_least(bounds, begin, end, x + 1)
            if x > reach:  # a box that starts further left cannot reach x
                begin = _first_at_least(bounds, begin, end, x - reach)
        elif x == 0:
            begin = end
        else:
            begin = _first_at_least(bounds, begin, end, x)
        begins[b] = begin - to_bounds
        ends[b] = end - to_bounds


@compiled
def _pack_events(
    row: Array,
    lanes: Array,
    guards: Array,
    codes: Array,
    event: Integer,
    count: Integer,
    packed: Array,
) -> None:
    """The events of the block in the lane layout of the class, without guards."""
    for w in range(row[WORDS]):
        for b in range(count):
            packed[w, b] = np.uint64(0)
    for lane in range(row[LANE_BEGIN], row[LANE_END]):
        values = codes[lanes[lane, LANE_DIM]]
        word = packed[lanes[lane, LANE_WORD]]
        position = np.uint64(lanes[lane, LANE_POSITION])
        mask = (np.int64(1) << lanes[lane, LANE_BITS]) - 1
        for b in range(count):
            word[b] |= np.uint64((np.int64(values[event + b]) + 1) & mask) << position


@compiled
def _copy_run(ids: Array, begin: Integer, end: Integer, out: Array, size: Integer) -> Integer:
    """Append the ids of a run of entries that need no verification; returns the new size."""
    # Unsigned, here and below: numba then need not provide for negative indexes.
    source, target = np.uint64(begin), np.uint64(size)
    for i in range(np.uint64(end - begin)):
        out[target + i] = ids[source + i]
    return size + end - begin


@compiled
def _scan_one_word(
    ids: Array, words: Array, word: Integer, guard: Integer, x: Integer,
    begin: Integer, end: Integer, out: Array, size: Integer,
) -> Integer:  # fmt: skip
    """Append the ids of the entries whose bounds, one word each, hold x; returns the new size."""
    one, at, target = np.uint64(1), np.uint64(word), np.uint64(size)
    guarded = x | guard
    for entry in range(np.uint64(begin), np.uint64(end)):
        inside = (guarded - words[at]) & (words[at + one] - x) & guard
        out[target] = ids[entry]
        target += np.uint64(inside == guard)
        at += np.uint64(2)
    return np.int64(target)


@compiled
def _scan_words(
    ids: Array, words: Array, word: Integer, guards: Array, guard_base: Integer, count: Integer,
    packed: Array, b: Integer, begin: Integer, end: Integer, out: Array, size: Integer,
) -> Integer:  # fmt: skip
    """The same for several words per entry."""
    at, target, width = np.uint64(word), np.uint64(size), np.uint64(count)
    base = np.uint64(guard_base)
    for entry in range(np.uint64(begin), np.uint64(end)):
        outside = np.uint64(0)
        for w in range(width):
            guard, x = guards[base + w], packed[base + w, b]
            inside = ((x | guard) - words[at + w]) & (words[at + width + w] - x) & guard
            outside |= inside ^ guard
        out[target] = ids[entry]
        target += np.uint64(outside == np.uint64(0))
        at += width + width
    return np.int64(target)


@compiled
def match_events(
    classes: Array, keys: Array, lanes: Array, guards: Array, offsets: Array, ids: Array,
    words: Array, bounds: Array, slot_keys: Array, slot_lists: Array,
    codes: Array, event: Integer, out: Array, out_offsets: Array,
) -> tuple[Integer, Integer]:  # fmt: skip
    """Match events from `event` on, appending after out_offsets[event].

    Returns (next event, room): done when next event is their number; otherwise the buffer must
    grow to at least `room` ids before going on from there.
    """
    events, n_classes = codes.shape[1], classes.shape[0]
    begins = np.empty((n_classes, BLOCK), np.int64)
    ends = np.empty((n_classes, BLOCK), np.int64)
    packed = np.empty((guards.size, BLOCK), np.uint64)
    cell = np.empty(BLOCK, np.int64)
    size = out_offsets[event]
    while event < events:
        block = min(BLOCK, events - event)
        for c in range(n_classes):
            row = classes[c]
            _locate_lists(
                row, keys, offsets, slot_keys, slot_lists, codes, event, block, cell,
                begins[c], ends[c],
            )  # fmt: skip
            if row[NARROW] != NARROW_NONE:
                values = codes[row[NARROW_DIM]]
                _narrow_lists(row, bounds, values, event, block, begins[c], ends[c])
            if row[WORDS] > 0:
                _pack_events(row, lanes, guards, codes, event, block, packed[row[GUARD_BASE] :])
                base, width = row[WORD_BASE], 2 * row[WORDS]
                for b in range(block):
                    _prefetch(words, base + (begins[c, b] - row[ENTRY_BASE]) * width)
        for b in range(block):
            room = size
            for c in range(n_classes):
                room += ends[c, b] - begins[c, b]
            if room > out.size:
                return event + b, room
            for c in range(n_classes):
                begin, end = begins[c, b], ends[c, b]
                if begin == end:
                    continue
                count, guard = classes[c, WORDS], classes[c, GUARD_BASE]
                if count == 0:
                    size = _copy_run(ids, begin, end, out, size)
                    continue
                word = classes[c, WORD_BASE] + (begin - classes[c, ENTRY_BASE]) * 2 * count
                if count == 1:
                    size = _scan_one_word(
                        ids, words, word, guards[guard], packed[guard, b], begin, end, out, size
                    )
                else:
                    size = _scan_words(
                        ids, words, word, guards, guard, count, packed, b, begin, end, out, size
                    )
            out_offsets[event + b + 1] = size
        event += block
    return event, size
