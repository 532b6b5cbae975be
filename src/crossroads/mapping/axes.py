"""Axes: the positions of values, whole numbers that keep their order and lose their detail.

An axis is one dimension (an attribute, or a text read backwards) with positions 0 … size - 1. NULL
shares position 0 with the smallest values: a mapping needs a superset only, and no position is
spent on it. A **hashed** axis has no order: a point has its position, a wider interval all of
them.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.mapping.scales import Even, EvenDoubles, Hashed, Leading, Ranks, Scale
from crossroads.model.atoms import Dimension
from crossroads.model.columnkeys import (
    Int64Array,
    backwards,
    int_keys,
    saturated_keys,
)
from crossroads.model.intervals import Interval, ValueSet
from crossroads.model.types import (
    BIGINT_MAX,
    BIGINT_MIN,
    Key,
    Kind,
    Type,
    Value,
    parse_type,
    successor,
    to_key,
)

AXIS_BITS_MAX = 31  # positions fit 32-bit columns; finer ones would tell nothing apart
Span = tuple[int, int]  # positions low … high, both belong

_SCALES: dict[str, type[Scale]] = {
    "even": Even,
    "doubles": EvenDoubles,
    "ranks": Ranks,
    "leading": Leading,
    "hashed": Hashed,
}
_NAMES = {kind: name for name, kind in _SCALES.items()}


@dataclass(frozen=True)
class Axis:
    dimension: Dimension
    type: Type
    bits: int  # positions are below 2**bits
    scale: Scale

    def __post_init__(self) -> None:
        assert 0 <= self.bits <= AXIS_BITS_MAX and self.size <= 1 << self.bits, self

    @property
    def size(self) -> int:
        return self.scale.size

    @property
    def whole(self) -> Span:
        return 0, self.size - 1

    # -- one value -------------------------------------------------------------------------------

    def position(self, value: Value) -> int:
        """Of a value of the attribute (None: NULL)."""
        return 0 if value is None else self.scale.first(self._key(to_key(self.type, value)))

    def span(self, values: ValueSet | None) -> Span:
        """The hull of the positions of these values; None: not constrained."""
        if values is None:
            return self.whole
        parts = [self.span_of(part) for part in values.intervals]
        if values.null:
            parts.append(self.span_of(None))
        assert parts, "no value at all"
        return min(low for low, _ in parts), max(high for _, high in parts)

    def span_of(self, interval: Interval | None) -> Span:
        """Of one interval of keys (None: NULL)."""
        if interval is None:
            return 0, 0
        low, end = interval
        if isinstance(self.scale, Hashed):
            if end != successor(low):
                return self.whole
            place = self.scale.first(self._saturated(low))
            return place, place
        first = self.scale.first(self._saturated(low))
        last = self.size - 1 if end is None else self.scale.last(self._saturated(end, beyond=1))
        return first, last

    def _key(self, key: Key) -> Key:
        """The key of a value, as this dimension reads it."""
        if isinstance(key, bytes):
            return key[::-1] if self.dimension.backwards else key
        return self._saturated(key)

    def _saturated(self, key: Key, beyond: int = 0) -> Key:
        """Columns of wide decimals keep no more than 64 bits either."""
        if not self.type.wide:
            return key
        assert isinstance(key, int)
        return _nearest(key, BIGINT_MAX + beyond)

    # -- columns ---------------------------------------------------------------------------------

    def positions(self, column: pa.Array | pa.ChunkedArray) -> Int64Array:
        """`position` of every value of a column of this type."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if self.type.is_text:
            return self._text_positions(column)
        if column.type != self.type.arrow:
            column = column.cast(self.type.arrow)
        if isinstance(self.scale, EvenDoubles):
            values = column.fill_null(self.scale.low).to_numpy(zero_copy_only=False)
            return self.scale.places_of_values(values)
        places = self.places(
            saturated_keys(column) if self.type.wide else int_keys(self.type, column)
        )
        if column.null_count:
            places[np.asarray(column.is_null())] = 0
        return places

    def places(self, keys: Int64Array) -> Int64Array:
        """Positions of 64-bit keys."""
        assert not isinstance(self.scale, Leading)
        return self.scale.places(keys)

    def _text_positions(self, column: pa.Array) -> Int64Array:
        """Once per distinct text."""
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.cast(pa.large_string()).cast(pa.large_binary())
        of_texts = self.places_of_texts(backwards(texts) if self.dimension.backwards else texts)
        index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        places: Int64Array = np.append(of_texts, 0)[index]  # NULL is index -1, the last one
        return places

    def places_of_texts(self, texts: pa.Array) -> Int64Array:
        """Positions of keys that are bytes, already in this dimension's direction."""
        assert not isinstance(self.scale, Even | EvenDoubles)
        return self.scale.places_of_texts(texts)

    def last_places_of_texts(self, ends: pa.Array) -> Int64Array:
        """The greatest position of a text below each end."""
        assert isinstance(self.scale, Ranks | Leading)
        return self.scale.last_places_of_texts(ends)

    # -- as JSON ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        scale: dict[str, Any] = {"kind": _NAMES[type(self.scale)], "size": self.size}
        if isinstance(self.scale, Even | EvenDoubles | Leading):
            scale |= {"low": self.scale.low, "high": self.scale.high}
        if isinstance(self.scale, Leading):
            scale["prefix"] = self.scale.prefix.hex()
        if isinstance(self.scale, Ranks):
            scale["values"] = [
                value.hex() if isinstance(value, bytes) else value for value in self.scale.values
            ]
        return {
            "attribute": self.dimension.attribute,
            "backwards": self.dimension.backwards,
            "type": str(self.type),
            "bits": self.bits,
            "scale": scale,
        }

    @staticmethod
    def from_json(read: Dict[str, Any]) -> Axis:
        type_ = parse_type(read["type"])
        scale = dict(read["scale"])
        kind = _SCALES[scale.pop("kind")]
        if kind is Leading:
            scale["prefix"] = bytes.fromhex(scale["prefix"])
        if kind is Ranks:
            known = scale["values"]
            scale["values"] = tuple(map(bytes.fromhex, known) if type_.is_text else known)
        dimension = Dimension(read["attribute"], read["backwards"])
        return Axis(dimension, type_, read["bits"], kind(**scale))


# -- making axes -----------------------------------------------------------------------------------


def linear_axis(
    attribute: str, type_: Type, low: Value, high: Value, bits: int, intervals: int | None = None
) -> Axis:
    """Values low … high in 2**bits parts (or `intervals` of them), at most one per value."""
    first, last = to_key(type_, low), to_key(type_, high)
    assert isinstance(first, int) and isinstance(last, int)
    dimension = Dimension(attribute)
    if type_.kind is Kind.DOUBLE:
        assert isinstance(low, float) and isinstance(high, float)
        size = _size(attribute, bits, intervals, last - first + 1)
        return Axis(dimension, type_, bits_for(size), EvenDoubles(low, high, size))
    first, last = _nearest(first), _nearest(last)
    size = _size(attribute, bits, intervals, last - first + 1)
    return Axis(dimension, type_, bits_for(size), Even(first, last, size))


def listed_axis(
    attribute: str, type_: Type, keys: list[Key], bits: int, intervals: int | None = None
) -> Axis:
    """By the place among these values; neighbours share a position where there are fewer."""
    if type_.wide:
        keys = [_nearest(int(key)) for key in keys]
    values = tuple(sorted(set(keys)))
    size = _size(attribute, bits, intervals, len(values))
    return Axis(Dimension(attribute), type_, bits_for(size), Ranks(values, size))


def text_axis(
    dimension: Dimension,
    type_: Type,
    low: int,
    high: int,
    bits: int,
    prefix: bytes = b"",
    intervals: int | None = None,
) -> Axis:
    """By the bytes behind the prefix, as numbers low … high (see `scales.head_of_text`)."""
    size = _size(dimension.attribute, bits, intervals, high - low + 1)
    return Axis(dimension, type_, bits_for(size), Leading(low, high, size, prefix))


def hashed_axis(attribute: str, type_: Type, bits: int, intervals: int | None = None) -> Axis:
    size = _size(attribute, bits, intervals, 1 << AXIS_BITS_MAX)
    return Axis(Dimension(attribute), type_, bits_for(size), Hashed(size))


def bits_for(positions: int) -> int:
    """Bits that tell so many positions apart."""
    return (positions - 1).bit_length()


def _size(attribute: str, bits: int, intervals: int | None, distinct: int) -> int:
    """Positions: as many as asked for, or as there is room for; never more than values."""
    room = 1 << bits
    if intervals is None:
        return min(room, distinct)
    if min(intervals, distinct) > room:
        raise UsageError(
            f"{intervals:,} intervals of {attribute} are more than the {room:,} positions "
            f"of {bits} bits",
            hint="take fewer intervals",
        )
    return min(intervals, distinct)


def _nearest(key: int, most: int = BIGINT_MAX) -> int:
    return min(max(key, BIGINT_MIN), most)
