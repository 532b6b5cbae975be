"""Parquet files of text columns, written page by page from dictionaries and codes.

    file = TextColumnFile(stream, ("event_id", "subscriber"))
    file.write_group(rows, [(dictionary, pages), (dictionary, pages)])
    file.close()

A row group has, per column, one page with the distinct texts and pages of codes that point into it
(see `hybrid`). Every column is optional text, as pyarrow writes it, though no cell is ever NULL; so
the definition levels of a page are one run of ones. No statistics: see docs/decisions/0009.
Names and numbers are those of the format's parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from crossroads import __version__
from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.pipeline.hybrid import (
    RUN_HEAD_BYTES_MAX,
    Bytes,
    pack,
    packed_bytes,
    write_runs,
)
from crossroads.pipeline.thrift import Value, array, i32, i64, struct, text, varint

MAGIC = b"PAR1"
FORMAT_VERSION = 2
CREATED_BY = f"crossroads version {__version__}"  # "NAME version NUMBER": Java readers parse it

_BYTE_ARRAY = 6  # Type
_UTF8 = 0  # ConvertedType, for readers that do not know logical types
_STRING = struct({1: struct({})})  # LogicalType
_OPTIONAL = 1  # FieldRepetitionType
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8  # Encoding
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2  # PageType
_SNAPPY = 1  # CompressionCodec
_CODEC = pa.Codec("snappy")

_PRESENT = b"\1"  # the definition level of a cell that is not NULL
_HEAD_ROOM = 32  # bytes before the codes of a page; its levels, width and first head take 16


@dataclass(frozen=True, slots=True)
class Page:
    """Ready to be written; `plain_size` is what it would take without compression."""

    header: bytes
    body: pa.Buffer
    plain_size: int

    @property
    def size(self) -> int:
        return len(self.header) + len(self.body)


Column = tuple[Page, Iterable[Page]]  # the dictionary, then the codes


# -- pages ---------------------------------------------------------------------------------------


def dictionary_page(count: int, texts: Bytes) -> Page:
    """Of texts in plain encoding (`hybrid.write_texts`)."""
    kind = struct({1: i32(count), 2: i32(_PLAIN)})
    return _page(_DICTIONARY_PAGE, texts, {7: kind})


def packed_page(codes: Int32Array, width: int) -> Page:
    """All codes side by side."""
    size = packed_bytes(codes.size, width)
    room = np.empty(_HEAD_ROOM + (size // 4 + 2) * 4, np.uint8)
    pack(codes, width, room[_HEAD_ROOM:].view(np.uint32))
    groups = (codes.size + 7) // 8
    return _codes_page(codes.size, width, varint(groups << 1 | 1), room, size)


def runs_page(counts: Int64Array, first: int, width: int) -> Page:
    """Run i is the code `first + i`, counts[i] times."""
    most = counts.size * (RUN_HEAD_BYTES_MAX + (width + 7) // 8)
    room = np.empty(_HEAD_ROOM + most, np.uint8)
    size = write_runs(counts, first, width, room[_HEAD_ROOM:])
    return _codes_page(int(counts.sum()), width, b"", room, size)


def _codes_page(count: int, width: int, head: bytes, room: Bytes, size: int) -> Page:
    """`room` has `size` bytes of codes after _HEAD_ROOM; what comes before them is put there."""
    levels = varint(count << 1) + _PRESENT
    before = len(levels).to_bytes(4, "little") + levels + bytes([width]) + head
    start = _HEAD_ROOM - len(before)
    room[start:_HEAD_ROOM] = np.frombuffer(before, np.uint8)
    kind = struct({1: i32(count), 2: i32(_RLE_DICTIONARY), 3: i32(_RLE), 4: i32(_RLE)})
    return _page(_DATA_PAGE, room[start : _HEAD_ROOM + size], {5: kind})


def _page(kind: int, body: Bytes, details: dict[int, Value]) -> Page:
    compressed = _CODEC.compress(body)
    sizes = {2: i32(body.size), 3: i32(len(compressed))}
    header = struct({1: i32(kind), **sizes, **details}).data
    return Page(header, compressed, len(header) + body.size)


# -- files ---------------------------------------------------------------------------------------


class TextColumnFile:
    """One writer. Nothing of the file can be read before it is closed."""

    def __init__(self, stream: BinaryIO, names: Sequence[str]) -> None:
        self.rows = 0
        self._stream = stream
        self._names = names
        self._groups: list[Value] = []
        self._position = 0
        self._put(MAGIC)

    def write_group(self, rows: int, columns: Sequence[Column]) -> None:
        """A row group; the pages of every column have `rows` codes together."""
        start = self._position
        chunks = [
            self._write_chunk(name, rows, *column)
            for name, column in zip(self._names, columns, strict=True)
        ]
        self._groups.append(
            struct(
                {
                    1: array([chunk for chunk, _ in chunks]),
                    2: i64(sum(plain_size for _, plain_size in chunks)),
                    3: i64(rows),
                    5: i64(start),
                    6: i64(self._position - start),
                }
            )
        )
        self.rows += rows

    def close(self) -> None:
        """The footer: what there is, and where."""
        root = struct({4: text("schema"), 5: i32(len(self._names))})
        footer = struct(
            {
                1: i32(FORMAT_VERSION),
                2: array([root, *map(_schema_element, self._names)]),
                3: i64(self.rows),
                4: array(self._groups),
                6: text(CREATED_BY),
            }
        ).data
        self._put(footer)
        self._put(len(footer).to_bytes(4, "little"))
        self._put(MAGIC)

    def _write_chunk(
        self, name: str, rows: int, dictionary: Page, pages: Iterable[Page]
    ) -> tuple[Value, int]:
        start = self._position
        self._put_page(dictionary)
        first = self._position
        plain_size, count = dictionary.plain_size, 0
        for page in pages:
            self._put_page(page)
            plain_size += page.plain_size
            count += 1
        written = [  # by which readers know that the dictionary has all there is
            struct({1: i32(_DICTIONARY_PAGE), 2: i32(_PLAIN), 3: i32(1)}),
            struct({1: i32(_DATA_PAGE), 2: i32(_RLE_DICTIONARY), 3: i32(count)}),
        ]
        about = struct(
            {
                1: i32(_BYTE_ARRAY),
                2: array([i32(_PLAIN), i32(_RLE), i32(_RLE_DICTIONARY)]),
                3: array([text(name)]),
                4: i32(_SNAPPY),
                5: i64(rows),
                6: i64(plain_size),
                7: i64(self._position - start),
                9: i64(first),
                11: i64(start),
                13: array(written),
            }
        )
        return struct({2: i64(0), 3: about}), plain_size

    def _put_page(self, page: Page) -> None:
        self._put(page.header)
        self._put(page.body)

    def _put(self, data: bytes | pa.Buffer) -> None:
        self._stream.write(data)
        self._position += len(data)


def _schema_element(name: str) -> Value:
    return struct(
        {1: i32(_BYTE_ARRAY), 3: i32(_OPTIONAL), 4: text(name), 6: i32(_UTF8), 10: _STRING}
    )
