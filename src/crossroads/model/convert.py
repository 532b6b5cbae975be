"""A whole Arrow column to one attribute type: what plainly fits is converted here, column-wise.

`convert` never judges. It gives the values it is sure of and a mask of the rows it is not sure of;
those go through the scalar `canonical`, which alone decides what is bad and why. So the fast path
may be as narrow as it likes, but must agree with `canonical` wherever it answers.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from crossroads.model.moments import (
    DATE_LAYOUTS,
    TIMESTAMP_LAYOUTS,
    compile_layouts,
    read_moments,
)
from crossroads.model.types import DATE, Kind, Type, to_key

Mask = npt.NDArray[np.bool_]
Converted = tuple[pa.Array, Mask]  # values (NULL where unsure), and the rows that are unsure

_BISECT_UNTIL = 64  # rows; below this asking the scalar is cheaper than more casts
_MICROSECONDS_PER_DAY = 86_400_000_000
_DAY_FIRST, _DAY_LAST = int(to_key(DATE, date.min)), int(to_key(DATE, date.max))
_MICROSECOND_FIRST = _DAY_FIRST * _MICROSECONDS_PER_DAY
_MICROSECOND_LAST = (_DAY_LAST + 1) * _MICROSECONDS_PER_DAY - 1
_EXACT_DIGITS = 15  # every decimal number of 15 digits has a double of its own
_URL_PLAIN = r"^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$"  # printable ASCII: where RE2 and Python agree


def convert(type_: Type, written: str | None, array: pa.Array) -> Converted:
    array = plain(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_.arrow), np.zeros(len(array), dtype=np.bool_)
    if pa.types.is_string(array.type):
        return _from_text(type_, written, array)
    match type_.kind:
        case Kind.BOOLEAN if pa.types.is_boolean(array.type):
            return array, np.zeros(len(array), dtype=np.bool_)
        case Kind.INT | Kind.BIGINT:
            return _to_integer(type_, array)
        case Kind.DOUBLE:
            return _to_double(array)
        case Kind.DECIMAL:
            return _to_decimal(type_, array)
        case Kind.DATE if pa.types.is_date(array.type):
            return _within(*_cast(array, pa.date32()), pa.int32(), _DAY_FIRST, _DAY_LAST)
        case Kind.TIMESTAMP if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
            return _to_timestamp(array)
    return _unsure(type_, array)


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One chunk, without dictionary or one of the other encodings of text."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # too much text for 32-bit offsets
            array = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in array.chunks])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array


def text_buffers(array: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets and bytes of a column of text, without copying."""
    if not len(array):
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    _, offsets, data = array.buffers()
    first = array.offset
    found = np.frombuffer(offsets, dtype=np.int32)[first : first + len(array) + 1]
    return found, np.frombuffer(data or b"", dtype=np.uint8)


def booleans(array: pa.Array) -> Mask:
    """A boolean column as numpy; NULL counts as false."""
    filled = pc.fill_null(array, False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


# -- text --------------------------------------------------------------------------------------


def _from_text(type_: Type, written: str | None, array: pa.StringArray) -> Converted:
    match type_.kind:
        case Kind.BOOLEAN:
            true, false = pc.equal(array, "true"), pc.equal(array, "false")
            sure = pc.or_(true, false)
            return pc.if_else(sure, true, None), booleans(pc.invert(sure))
        case Kind.INT | Kind.BIGINT:
            return _cast(array, type_.arrow, letters=_letters("0123456789-"))
        case Kind.DOUBLE:
            return _cast(array, type_.arrow, letters=_letters("0123456789-+.eE"))
        case Kind.DECIMAL:
            return _cast(array, type_.arrow, letters=_letters("0123456789-."))
        case Kind.DATE | Kind.TIMESTAMP:
            return _moments(type_, written, array)
        case Kind.URL:
            sure = pc.match_substring_regex(array, _URL_PLAIN)
            return pc.if_else(sure, array, None), booleans(pc.invert(sure))
    return array, np.zeros(len(array), dtype=np.bool_)


def _letters(allowed: str) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, dtype=np.bool_)
    table[np.frombuffer(allowed.encode(), dtype=np.uint8)] = True
    return table


@njit(cache=True)
def _made_of(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], allowed: Mask) -> Mask:
    """Which texts are not empty and hold only allowed bytes."""
    found = np.zeros(offsets.size - 1, dtype=np.bool_)
    for i in range(offsets.size - 1):
        fine = offsets[i] < offsets[i + 1]
        for k in range(offsets[i], offsets[i + 1]):
            fine &= allowed[data[k]]
        found[i] = fine
    return found


def _moments(type_: Type, written: str | None, array: pa.StringArray) -> Converted:
    is_date = type_.kind is Kind.DATE
    ours = DATE_LAYOUTS if is_date else TIMESTAMP_LAYOUTS
    layouts = compile_layouts((written,) if written is not None else ours)
    if layouts is None:
        return _unsure(type_, array)
    moments, readable = read_moments(*text_buffers(array), layouts)
    present = booleans(array.is_valid())
    if is_date:
        moments = (moments // _MICROSECONDS_PER_DAY).astype(np.int32)
    values = pa.array(moments, mask=~(readable & present))
    return values.view(type_.arrow), present & ~readable


# -- numbers -----------------------------------------------------------------------------------


def _to_integer(type_: Type, array: pa.Array) -> Converted:
    if pa.types.is_floating(array.type):
        present = booleans(array.is_valid())
        numbers = _numpy(array.cast(pa.float64()), 0.0)
        with np.errstate(invalid="ignore"):
            sure = present & (np.abs(numbers) < 2.0**63) & (np.trunc(numbers) == numbers)
        whole = np.where(sure, numbers, 0.0).astype(np.int64)
        values, beyond = _cast(pa.array(whole, mask=~sure), type_.arrow)
        return values, beyond | (present & ~sure)
    if pa.types.is_integer(array.type) or pa.types.is_decimal(array.type):
        return _cast(array, type_.arrow)
    return _unsure(type_, array)


def _to_double(array: pa.Array) -> Converted:
    if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):
        # not "safe": beyond 2^53 both Arrow and Python round to the nearest double
        return array.cast(pa.float64(), safe=False), np.zeros(len(array), dtype=np.bool_)
    if pa.types.is_decimal128(array.type) and array.type.precision <= _EXACT_DIGITS:
        # both parts are exact doubles, and division rounds correctly
        numbers = _unscaled(array) / 10.0**array.type.scale if array.type.scale >= 0 else None
        if numbers is not None:
            absent = ~booleans(array.is_valid())
            return pa.array(numbers, mask=absent), np.zeros(len(array), dtype=np.bool_)
    return _unsure(Type(Kind.DOUBLE), array)


def _unscaled(array: pa.Array) -> npt.NDArray[np.int64]:
    """The low words of 128-bit decimals: the whole number where the precision is 18 or less."""
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]


def _to_decimal(type_: Type, array: pa.Array) -> Converted:
    if pa.types.is_decimal(array.type):
        return _cast(array, type_.arrow)
    if pa.types.is_integer(array.type) and type_.scale <= 18:
        # Arrow wants room for every integer first (20 digits for unsigned ones)
        roomy, beyond = _cast(array, pa.decimal128(20 + type_.scale, type_.scale))
        values, too_large = _cast(roomy, type_.arrow)
        return values, beyond | too_large
    if pa.types.is_floating(array.type) and type_.scale <= _EXACT_DIGITS:
        return _float_to_decimal(type_, array)
    return _unsure(type_, array)


def _float_to_decimal(type_: Type, array: pa.Array) -> Converted:
    """The decimal that a double is written as, where that has at most 15 digits."""
    present = booleans(array.is_valid())
    numbers = _numpy(array.cast(pa.float64()), 0.0)
    power = 10.0**type_.scale
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.rint(numbers * power)
        # two decimals of 15 digits never share a double, so this one is what `repr` shows
        sure = present & (np.abs(scaled) < 10.0**_EXACT_DIGITS) & (scaled / power == numbers)
    words = np.zeros((len(array), 2), dtype=np.int64)
    words[:, 0] = np.where(sure, scaled, 0.0).astype(np.int64)
    words[:, 1] = words[:, 0] >> 63
    roomy = pa.decimal128(_EXACT_DIGITS + 18, type_.scale)
    validity = pa.array(sure).buffers()[1]
    exact = pa.Array.from_buffers(roomy, len(array), [validity, pa.py_buffer(words)])
    values, too_large = _cast(exact, type_.arrow)
    return values, too_large | (present & ~sure)


# -- times -------------------------------------------------------------------------------------


def _to_timestamp(array: pa.Array) -> Converted:
    """Without a zone means UTC; nanoseconds are cut to the microsecond before them."""
    target = pa.timestamp("us", tz="UTC")
    if pa.types.is_timestamp(array.type):
        zoned = pa.timestamp(array.type.unit, tz="UTC")
        array = array.cast(zoned) if array.type.tz else array.view(zoned)
        if array.type.unit == "ns":
            micros = _numpy(array.view(pa.int64()), 0) // 1000
            array = pa.array(micros, mask=booleans(array.is_null())).view(target)
    else:
        days, unsure = _cast(array, pa.date32())
        array = days.cast(pa.timestamp("s")).view(pa.timestamp("s", tz="UTC"))
        assert not unsure.any()
    return _within(*_cast(array, target), pa.int64(), _MICROSECOND_FIRST, _MICROSECOND_LAST)


def _within(values: pa.Array, unsure: Mask, words: pa.DataType, low: int, high: int) -> Converted:
    """Arrow's calendar is wider than Python's: what lies outside is for the scalar to refuse."""
    numbers = _numpy(values.view(words), 0)
    outside = (numbers < low) | (numbers > high)
    if not outside.any():
        return values, unsure
    return pc.if_else(pa.array(outside), None, values), unsure | outside


# -- the shared steps --------------------------------------------------------------------------


def _unsure(type_: Type, array: pa.Array) -> Converted:
    return pa.nulls(len(array), type_.arrow), booleans(array.is_valid())


def _numpy(array: pa.Array, fill: Any) -> npt.NDArray[Any]:
    filled = pc.fill_null(array, fill) if array.null_count else array
    numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _cast(array: pa.Array, target: pa.DataType, letters: Mask | None = None) -> Converted:
    """Arrow's checked cast for all rows that take it; `letters` are the bytes a text may hold."""
    present = booleans(array.is_valid())
    if letters is not None:
        clean = _made_of(*text_buffers(array), letters)
        if not np.array_equal(clean & present, present):
            array = pc.if_else(pa.array(clean), array, None)
    if array.type == target:
        return array, np.zeros(len(array), dtype=np.bool_)
    pieces = _cast_pieces(array, target)
    values = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    return values, present & booleans(values.is_null())


def _cast_pieces(array: pa.Array, target: pa.DataType) -> list[pa.Array]:
    """A cast fails as a whole; halving finds the few rows that made it fail."""
    try:
        return [array.cast(target)]
    except pa.ArrowInvalid:
        if len(array) <= _BISECT_UNTIL:
            return [pa.nulls(len(array), target)]
        half = len(array) // 2
        return _cast_pieces(array[:half], target) + _cast_pieces(array[half:], target)
