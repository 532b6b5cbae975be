"""Thrift's compact protocol: bytes worked out by hand from its description, and a plain reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.pipeline.thrift import Value, array, i32, i64, struct, text, varint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (i32(0), "00"),
        (i32(-1), "01"),
        (i32(1), "02"),
        (i64(150), "ac 02"),
        (text("é"), "02 c3 a9"),
        (array([]), "0c"),
        (array([i32(1), i32(2)]), "25 02 04"),
        (array([i32(0)] * 15), "f5 0f" + " 00" * 15),
        (struct({}), "00"),
        # field 1 as i32, field 4 (three further) as binary, stop
        (struct({4: text("a"), 1: i32(6)}), "15 0c 38 01 61 00"),
        (struct({3: struct({1: i64(1)})}), "3c 16 02 00 00"),
    ],
)
def test_the_bytes(value: Value, expected: str) -> None:
    assert value.data.hex(" ") == expected


def test_varints_end_with_a_byte_below_128() -> None:
    assert [varint(n).hex() for n in (0, 127, 128, 2**31)] == ["00", "7f", "8001", "8080808008"]


class Reader:
    """As the protocol says, one value after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def value(self, kind: int) -> Any:
        match kind:
            case 5 | 6:
                number = self.varint()
                return number // 2 if number % 2 == 0 else -(number + 1) // 2
            case 8:
                size = self.varint()
                self.at += size
                return self.data[self.at - size : self.at].decode()
            case 9:
                head = self.byte()
                size = head >> 4 if head < 0xF0 else self.varint()
                return [self.value(head & 15) for _ in range(size)]
            case 12:
                fields: dict[int, Any] = {}
                number = 0
                while head := self.byte():
                    number += head >> 4
                    fields[number] = self.value(head & 15)
                return fields
        raise AssertionError(kind)


def encoded(value: Any) -> Value:
    match value:
        case int():
            return i64(value) if abs(value) >= 2**31 else i32(value)
        case str():
            return text(value)
        case list():
            return array([encoded(each) for each in value])
    return struct({number: encoded(each) for number, each in value.items()})


SMALL = st.integers(-(2**31) + 1, 2**31 - 1)
VALUES = st.recursive(
    SMALL | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: (
        st.lists(SMALL, max_size=40)
        | st.lists(st.dictionaries(st.integers(1, 15), inner, max_size=3), max_size=20)
        | st.dictionaries(st.integers(1, 15), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    found = encoded(value)
    reader = Reader(found.data)
    assert reader.value(found.kind) == value
    assert reader.at == len(found.data)
