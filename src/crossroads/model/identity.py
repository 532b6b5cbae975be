r"""The identity of an event: its id attributes in canonical text, joined by `|`.

Inside a part, `\` and `|` are escaped by `\`, so that ("a|b", "c") and ("a", "b|c") stay apart.
`event_id` is the definition; `event_ids` gives the same for whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from crossroads.model.columnkeys import binary_buffers
from crossroads.model.compiled import frozen
from crossroads.model.convert import text_buffers
from crossroads.model.schema import Schema
from crossroads.model.types import Kind, Type, Value
from crossroads.model.values import text_of

_MULTIPLIER = 0x9E37_79B9_7F4A_7C15  # the golden ratio's: odd, bits well spread
_FINISH_1, _FINISH_2 = 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB  # of splitmix64
_WORD = 2**64 - 1
# Where a hash begins and how far it folds. The second one folds differently: ids that are mixed up
# by one of them because their bits cancel out do not cancel out in the other.
_FIRST = np.uint64(0), np.uint64(32)
_SECOND = np.uint64(0x6A09_E667_F3BC_C909), np.uint64(29)


def event_id(schema: Schema, values: Mapping[str, Value]) -> str:
    """Of one event, by the schema's names."""
    return "|".join(escape(text_of(values[name])) for name in schema.id)


def event_ids(schema: Schema, table: pa.Table) -> pa.StringArray:
    """Of every event of a conformed table."""
    parts = []
    for name in schema.id:
        column = table.column(name)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        type_ = schema.attribute(name).type
        part = pc.fill_null(_text_column(type_, column), "NULL")
        parts.append(_escape_column(part) if type_.is_text else part)
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "|")


def escape(part: str) -> str:
    return part.replace("\\", "\\\\").replace("|", "\\|")


def _escape_column(part: pa.StringArray) -> pa.StringArray:
    for special in ("\\", "|"):
        if pc.any(pc.match_substring(part, special)).as_py():
            part = pc.replace_substring(part, special, "\\" + special)
    return part


def _text_column(type_: Type, column: pa.Array) -> pa.StringArray:
    match type_.kind:
        case Kind.BOOLEAN | Kind.INT | Kind.BIGINT | Kind.DATE:
            return column.cast(pa.string())
        case Kind.TIMESTAMP:
            return _timestamp_texts(column)
        case Kind.DOUBLE | Kind.DECIMAL:
            # Arrow writes these in its own way: ask the definition, once per distinct value.
            # (-0.0 and 0.0 are two values here, so doubles are told apart by their bits.)
            bits = column.view(pa.int64()) if type_.kind is Kind.DOUBLE else column
            encoded = bits.dictionary_encode()
            distinct = encoded.dictionary.view(column.type).to_pylist()
            texts = pa.array([text_of(value) for value in distinct], type=pa.string())
            return texts.take(encoded.indices)
    return column


def _timestamp_texts(column: pa.Array) -> pa.StringArray:
    """Microseconds are shown only where there are any."""
    bare = column.view(pa.timestamp("us"))
    seconds = bare.cast(pa.timestamp("s"), safe=False)
    fractional = pc.not_equal(seconds.cast(pa.timestamp("us")), bare)
    short = seconds.cast(pa.string())
    if not pc.any(fractional).as_py():
        return short
    return pc.if_else(fractional, bare.cast(pa.string()), short)


# -- hashes: to find repeated ids without comparing all texts ----------------------------------


def identity_hash(text: str) -> int:
    return bytes_hash(text.encode())


def bytes_hash(data: bytes) -> int:
    """The definition: words of eight bytes (the last one padded with zeros), then the length."""
    state = 0
    for start in range(0, len(data), 8):
        state ^= int.from_bytes(data[start : start + 8], "little")
        state = (state * _MULTIPLIER) & _WORD
        state ^= state >> 32
    state ^= len(data)
    state = ((state ^ (state >> 30)) * _FINISH_1) & _WORD
    state = ((state ^ (state >> 27)) * _FINISH_2) & _WORD
    return state ^ (state >> 31)


def identity_hashes(ids: pa.StringArray) -> npt.NDArray[np.uint64]:
    """`identity_hash` of every id. Different ids may share one: compare the texts as well."""
    hashes: npt.NDArray[np.uint64] = _hash_all(*text_buffers(ids), *_FIRST)
    return hashes


def identity_fingerprints(ids: pa.StringArray) -> npt.NDArray[np.uint64]:
    """128 bits of every id, as two columns, the first of them `identity_hashes`. Of a billion ids
    two share them with a probability of 10^-21: where texts cannot be kept, these stand for them.
    """
    buffers = text_buffers(ids)
    return np.column_stack([_hash_all(*buffers, *_FIRST), _hash_all(*buffers, *_SECOND)])


def bytes_hashes(values: pa.LargeBinaryArray) -> npt.NDArray[np.uint64]:
    """`bytes_hash` of every value."""
    data, offsets = binary_buffers(values)
    hashes: npt.NDArray[np.uint64] = _hash_all(frozen(offsets), frozen(data), *_FIRST)
    return hashes


@njit(cache=True)
def _hash_all(
    offsets: npt.NDArray[np.signedinteger[Any]],
    data: npt.NDArray[np.uint8],
    begin: np.uint64,
    shift: np.uint64,
) -> npt.NDArray[np.uint64]:
    # numba turns uint64 mixed with plain integers into floats: every operand is made uint64
    hashes = np.empty(offsets.size - 1, dtype=np.uint64)
    for i in range(hashes.size):
        start, end = offsets[i], offsets[i + 1]
        state = begin
        for at in range(start, end, 8):
            word = np.uint64(0)
            for k in range(min(8, end - at)):
                word |= np.uint64(data[at + k]) << np.uint64(8 * k)
            state = (state ^ word) * np.uint64(_MULTIPLIER)
            state ^= state >> shift
        state ^= np.uint64(end - start)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(_FINISH_1)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(_FINISH_2)
        hashes[i] = state ^ (state >> np.uint64(31))
    return hashes
