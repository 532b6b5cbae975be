"""A filter over many events at once: the definition's three values as two columns.

It serves what residual checks need (`checks`): predicates on one attribute by searching their value
sets, text tests by distinct value, comparisons of numbers as arrays. Whatever is left, such as sums
of decimals, is asked of the definition, event by event.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from crossroads.matching import strings
from crossroads.matching.arrays import compare_arrays
from crossroads.matching.batch import Batch
from crossroads.matching.boxes import Int64Array
from crossroads.matching.definition import truth
from crossroads.model.atoms import Dimension, atom
from crossroads.model.filter import (
    And,
    Attr,
    Compare,
    Constant,
    Filter,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    RLike,
    TextTest,
)
from crossroads.model.intervals import ValueSet
from crossroads.model.like import parse_like
from crossroads.model.regex import compile_regex

Bools = npt.NDArray[np.bool_]
Truths = tuple[Bools, Bools]  # true, unknown; false is neither

TESTS_CACHED = 4096  # value sets kept between batches: an IN of thousands takes a while to sort


def truths(filter_: Filter, batch: Batch, events: Int64Array) -> Truths:
    """Of the filter for each of these events."""
    match filter_:
        case Not(part):
            true, unknown = truths(part, batch, events)
            return ~true & ~unknown, unknown
        case And(parts):
            true = np.ones(events.size, np.bool_)
            possible = true.copy()  # no part is false so far
            for part in parts:
                one, unknown = truths(part, batch, events)
                true &= one
                possible &= one | unknown
            return true, possible & ~true
        case Or(parts):
            true = np.zeros(events.size, np.bool_)
            possible = true.copy()  # some part is true or unknown
            for part in parts:
                one, unknown = truths(part, batch, events)
                true |= one
                possible |= one | unknown
            return true, possible & ~true
        case Constant(value):
            return (
                np.full(events.size, value is True),
                np.full(events.size, value is None),
            )
    return _leaf(filter_, batch, events)


def _leaf(predicate: Predicate, batch: Batch, events: Int64Array) -> Truths:
    test = _value_test(predicate)
    if test is not None:
        true, false = (
            side.holds(test.dimension, batch, events) for side in (test.true, test.false)
        )
        return true, ~(true | false)
    match predicate:
        case Compare():
            known = compare_arrays(predicate, batch, events)
            if known is not None:
                return known
        case TextTest(op, Attr(name, _), Literal(str(text))):
            needle = np.frombuffer(text.encode(), np.uint8)
            return _by_value(name, batch, events, _TEXT_TESTS[op], needle)
        case Like(Attr(name, _), pattern, escape):
            codes, _ = strings.compile_likes([parse_like(str(pattern.value), escape)])
            return _by_value(name, batch, events, strings.like_pairs, codes)
        case RLike(Attr(name, _), pattern):
            return _by_regex(name, str(pattern.value), batch, events)
    return _defined(predicate, batch, events)


_TEXT_TESTS: dict[str, Callable[..., Bools]] = {
    "contains": strings.contains_pairs,
    "startswith": strings.startswith_pairs,
    "endswith": strings.endswith_pairs,
}


def _defined(predicate: Predicate, batch: Batch, events: Int64Array) -> Truths:
    distinct, back = np.unique(events, return_inverse=True)
    found = [truth(predicate, batch.event(row)) for row in distinct.tolist()]
    true = np.array([one is True for one in found], np.bool_)
    unknown = np.array([one is None for one in found], np.bool_)
    return true[back], unknown[back]


# -- text by distinct value ------------------------------------------------------------------------


def _by_value(
    name: str,
    batch: Batch,
    events: Int64Array,
    pairs: Callable[..., Bools],
    operand: npt.NDArray[np.uint8] | npt.NDArray[np.int16],
) -> Truths:
    """One of the kernels of `strings`, with the same other side for all events."""
    text = batch.text(name)
    index = text.index[events]
    values, back = np.unique(index, return_inverse=True)
    held = np.zeros(values.size, np.bool_)
    known = np.flatnonzero(values >= 0)
    offsets = np.array([0, operand.size], np.int64)
    held[known] = pairs(
        *text.buffers, values[known], operand, offsets, np.zeros(known.size, np.int64)
    )
    return held[back], index < 0


def _by_regex(name: str, pattern: str, batch: Batch, events: Int64Array) -> Truths:
    text = batch.text(name)
    index = text.index[events]
    values, back = np.unique(index, return_inverse=True)
    regex = compile_regex(pattern)
    held = np.array(
        [at >= 0 and regex.search(text.values[at].as_py()) is not None for at in values.tolist()],
        np.bool_,
    )
    return held[back], index < 0


# -- value sets ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Members:
    """A value set made ready for searching; `lows` of text are bytes, of the rest an array."""

    lows: Int64Array | list[bytes]
    lasts: Int64Array | list[bytes | None]  # ints: the last key inside; bytes: the first outside
    null: bool

    def holds(self, dimension: Dimension, batch: Batch, events: Int64Array) -> Bools:
        if isinstance(self.lows, list):
            return self._holds_text(dimension, batch, events)
        assert isinstance(self.lasts, np.ndarray)
        keys = batch.keys(dimension.attribute)[events]
        valid = batch.valid(dimension.attribute)[events]
        if not self.lows.size:
            return ~valid & self.null
        place = np.searchsorted(self.lows, keys, side="right") - 1
        inside = (place >= 0) & (keys <= self.lasts[place])
        return np.where(valid, inside, self.null)

    def _holds_text(self, dimension: Dimension, batch: Batch, events: Int64Array) -> Bools:
        text = batch.text(dimension.attribute)
        values, back = np.unique(text.index[events], return_inverse=True)
        held = [self._holds_one(text.values[at].as_py(), dimension) if at >= 0 else self.null
                for at in values.tolist()]  # fmt: skip
        return np.array(held, np.bool_)[back]

    def _holds_one(self, value: bytes, dimension: Dimension) -> bool:
        assert isinstance(self.lows, list)
        key = value[::-1] if dimension.backwards else value
        place = bisect_right(self.lows, key) - 1
        if place < 0:
            return False
        end = self.lasts[place]
        return end is None or key < end


@dataclass(frozen=True)
class _ValueTest:
    dimension: Dimension
    true: _Members
    false: _Members


@lru_cache(maxsize=TESTS_CACHED)
def _value_test(predicate: Predicate) -> _ValueTest | None:
    """None: the predicate is no set of values, or its keys fit neither 64 bits nor text."""
    found = atom(predicate)
    if found is None or found.true.type.wide:
        return None
    return _ValueTest(found.dimension, _members(found.true), _members(found.false))


def _members(values: ValueSet) -> _Members:
    if values.type.is_text:
        lows = [low for low, _ in values.intervals]
        highs = [high for _, high in values.intervals]
        return _Members(lows, highs, values.null)  # type: ignore[arg-type]
    first = np.array([low for low, _ in values.intervals], np.int64)
    last = np.array([high - 1 for _, high in values.intervals], np.int64)  # type: ignore[operator]
    return _Members(first, last, values.null)
