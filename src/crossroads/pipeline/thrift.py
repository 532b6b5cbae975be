"""Values in Thrift's compact protocol, as bytes: what Parquet writes its headers and footer in.

A value is its type's number and its bytes; a struct takes values by field number:

    struct({1: i32(0), 4: text("event_id")})

Only writing, and only the types that we need. A field that is absent is left out of the dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_STOP = b"\0"
_DELTA_MAX = 15  # how far a field number can be from the one before it, in four bits
_SHORT_LIST = 15  # a list of as many, or more, has its length in bytes of its own


class Value(NamedTuple):
    kind: int
    data: bytes


def varint(number: int) -> bytes:
    """Seven bits per byte, the lowest first; the eighth says that more follow."""
    assert number >= 0, number
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def i32(number: int) -> Value:
    assert -(2**31) <= number < 2**31, number
    return Value(_I32, _zigzag(number))


def i64(number: int) -> Value:
    assert -(2**63) <= number < 2**63, number
    return Value(_I64, _zigzag(number))


def text(value: str) -> Value:
    data = value.encode()
    return Value(_BINARY, varint(len(data)) + data)


def array(items: Sequence[Value]) -> Value:
    """All of one type; an empty list is one of structs, the only kind that we have empty."""
    head = items[0].kind if items else _STRUCT
    assert all(item.kind == head for item in items), items
    if len(items) < _SHORT_LIST:
        size = bytes([len(items) << 4 | head])
    else:
        size = bytes([0xF0 | head]) + varint(len(items))
    return Value(_LIST, size + b"".join(item.data for item in items))


def struct(fields: Mapping[int, Value]) -> Value:
    parts = []
    before = 0
    for number, value in sorted(fields.items()):
        delta = number - before
        assert 0 < delta <= _DELTA_MAX, fields.keys()
        parts.append(bytes([delta << 4 | value.kind]) + value.data)
        before = number
    return Value(_STRUCT, b"".join(parts) + _STOP)


def _zigzag(number: int) -> bytes:
    """The sign goes to the lowest bit, so that small numbers of either sign stay short."""
    return varint(2 * number if number >= 0 else -2 * number - 1)
