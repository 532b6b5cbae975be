"""Arrays in one file: the bytes, their checksums, and nothing about what they mean.

    0   magic            8 bytes
    8   format version   uint32     files of another version are refused, never guessed at
    12  header checksum  uint32     CRC-32 of the 16 bytes behind it and of the header
    16  header offset    uint64
    24  header length    uint64
    32  zeros
    64  arrays, each at a multiple of 64 bytes
    …   header           JSON: {"content": …, "arrays": {name: [dtype, shape, offset, checksums]}}

All numbers are little-endian. The header comes last, so that arrays can be written, or even be made
in their place (`memory`), before anything is known of the others. An array has a CRC-32 for each
`BLOCK` of its bytes, in hexadecimal, so that blocks are written and verified by several threads.
The last one covers the padding behind the array: every byte that is read is covered by something,
the magic and the version by being compared, the rest by a checksum. Only arrays that never leave
the memory (`memory`) have none, as nothing in memory has: an empty text, which the header covers.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.errors import DamagedIndex, ForeignIndex, IndexFileError

Array = npt.NDArray[Any]

MAGIC = b"xroads\r\n"  # a transfer that "repairs" line ends spoils it at once
FORMAT_VERSION = 2
ALIGNMENT = 64  # a cache line; more than any array element needs
BLOCK = 1 << 23  # large enough for a disk, small enough to share out among the cores
THREADS = 4  # more would wait for memory
_START = struct.Struct("<8sIIQQ32x")  # as long as the alignment
_PADDING_FROM = 32
_WHERE = struct.Struct("<QQ")  # the header's offset and length, as its checksum covers them
_DIGITS = 8  # of a checksum
_REBUILD = "delete it and build the index again"
# What an array may be: a header that was made up cannot ask numpy for anything else.
_DTYPES = frozenset({"|b1", "|u1", "<u8", "<i4", "<i8", "<f8"})


@dataclass(frozen=True)
class Stored:
    """The arrays of a file, as read-only views of the memory map, and what the header says."""

    arrays: dict[str, Array]
    content: dict[str, Any]
    size: int


def write_arrays(
    path: Path, arrays: Mapping[str, Array], content: Mapping[str, Any], *, durable: bool = True
) -> int:
    """Write the file whole or not at all; returns its size. A durable one survives a crash of the
    machine right after."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            size = write_into(file.fileno(), arrays, content)
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise IndexFileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # after the rename there is nothing left to remove
            temporary.unlink()
    return size


def write_into(
    file: int,
    arrays: Mapping[str, Array],
    content: Mapping[str, Any],
    placed: Callable[[Array], int | None] = lambda array: None,
    end: int = ALIGNMENT,
    *,
    checksums: bool = True,
) -> int:
    """Fill an open file; returns its size. `placed` says where an array lies in the file already;
    the others are written from `end` on."""
    table: dict[str, list[Any]] = {}
    blocks: list[_Block] = []
    for name, array in arrays.items():
        # `reshape` because a contiguous copy of a scalar would not be one.
        flat = np.ascontiguousarray(array).reshape(array.shape)
        assert flat.dtype.str in _DTYPES, (name, flat.dtype)
        there = placed(flat)
        cut = _cut(_bytes(flat), end if there is None else there, written=there is not None)
        table[name] = [flat.dtype.str, list(flat.shape), cut[0].offset, len(cut)]
        blocks += cut
        if there is None:
            end += flat.nbytes + -flat.nbytes % ALIGNMENT
    with ThreadPoolExecutor(THREADS) as pool:
        found = iter(list(pool.map(lambda block: block.write(file, checksum=checksums), blocks)))
    for row in table.values():
        row[-1] = "".join(islice(found, row[-1]))
    header = json.dumps({"content": content, "arrays": table}).encode()
    where = _WHERE.pack(end, len(header))
    start = _START.pack(
        MAGIC, FORMAT_VERSION, zlib.crc32(header, zlib.crc32(where)), *_WHERE.unpack(where)
    )
    _write_all(file, memoryview(header), end)
    _write_all(file, memoryview(start.ljust(ALIGNMENT, b"\0")), 0)
    os.ftruncate(file, end + len(header))
    return end + len(header)


@dataclass(frozen=True)
class _Block:
    """A piece of an array, and where it belongs."""

    data: memoryview
    offset: int
    padding: bytes
    written: bool  # it lies there already

    def write(self, file: int, *, checksum: bool) -> str:
        """Write it if need be; returns its checksum if there is to be one."""
        if not self.written:
            _write_all(file, self.data, self.offset)
            _write_all(file, memoryview(self.padding), self.offset + len(self.data))
        return _checksum(self.data, self.padding) if checksum else ""


def _write_all(file: int, data: memoryview, offset: int) -> None:
    while data:  # the system may take less than it was given
        taken = os.pwrite(file, data, offset)
        data, offset = data[taken:], offset + taken


def _cut(data: memoryview, offset: int, *, written: bool = False) -> list[_Block]:
    """At least one block, so that an empty array has a checksum too."""
    padding = bytes(-len(data) % ALIGNMENT)
    ends = [*range(BLOCK, len(data), BLOCK), len(data)]
    return [
        _Block(data[begin:end], offset + begin, padding if end == len(data) else b"", written)
        for begin, end in pairwise([0, *ends])
    ]


def _checksum(data: memoryview, padding: bytes = b"") -> str:
    return f"{zlib.crc32(padding, zlib.crc32(data)):0{_DIGITS}x}"


def sync_folder(folder: Path) -> None:
    """A rename is only durable once the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_arrays(path: Path, *, verify: bool, resident: bool = False) -> Stored:
    """Map the file. `verify` reads all of it once and compares checksums. Of a `resident` file all
    pages are in memory and may be mapped at once, which is far cheaper than one by one."""
    try:
        with path.open("rb") as file:
            start = file.read(_START.size)
            size = os.fstat(file.fileno()).st_size
            checksum, offset = _header_place(path, start, size)
            view = _mapped(file.fileno(), resident)
    except OSError as error:
        raise IndexFileError(f"cannot read {path}: {error.strerror or error}") from error
    whole = np.frombuffer(view, np.uint8)
    text = _bytes(whole[offset:])
    if _header_checksum(text, offset) != checksum:
        raise DamagedIndex(f"{path}: the header is damaged", hint=_REBUILD)
    header: dict[str, Any] = json.loads(bytes(text))
    arrays = {
        name: _array(path, name, whole[:offset], *parts, verify=verify)
        for name, parts in header["arrays"].items()
    }
    return Stored(arrays, header["content"], size)


def _mapped(file: int, resident: bool) -> mmap.mmap:
    if resident and hasattr(mmap, "MAP_POPULATE"):
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return mmap.mmap(file, 0, flags=flags, prot=mmap.PROT_READ)
    return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def _header_checksum(header: memoryview, offset: int) -> int:
    return zlib.crc32(header, zlib.crc32(_WHERE.pack(offset, len(header))))


def _header_place(path: Path, start: bytes, size: int) -> tuple[int, int]:
    """Its checksum and where it begins; it ends with the file."""
    if len(start) < _START.size and MAGIC.startswith(start[: len(MAGIC)]):
        raise DamagedIndex(f"{path} is cut off after {size} bytes", hint=_REBUILD)
    if not start.startswith(MAGIC):
        raise ForeignIndex(f"{path} is not an index file of ours")
    _, version, checksum, offset, length = _START.unpack(start)
    if version != FORMAT_VERSION:
        raise ForeignIndex(
            f"{path} has format version {version}, this release reads {FORMAT_VERSION}",
            hint="build the index again",
        )
    if any(start[_PADDING_FROM:]):
        raise DamagedIndex(f"{path}: the beginning is damaged", hint=_REBUILD)
    if offset + length != size:
        raise DamagedIndex(
            f"{path} has {size} bytes where its beginning says {offset + length}", hint=_REBUILD
        )
    return int(checksum), int(offset)


def _array(
    path: Path,
    name: str,
    data: Array,
    dtype: str,
    shape: list[int],
    offset: int,
    checksums: str,
    *,
    verify: bool,
) -> Array:
    if dtype not in _DTYPES:
        raise DamagedIndex(f"{path}: array {name} has an unknown type", hint=_REBUILD)
    length = math.prod(shape) * np.dtype(dtype).itemsize
    padded = length + -length % ALIGNMENT
    if offset < 0 or length < 0 or offset + padded > data.size:
        raise DamagedIndex(f"{path}: array {name} lies outside of the file", hint=_REBUILD)
    checked = verify and checksums
    if checked and _checksums(_bytes(data[offset : offset + padded]), length) != checksums:
        raise DamagedIndex(f"{path}: array {name} is damaged", hint=_REBUILD)
    return data[offset : offset + length].view(dtype).reshape(shape)


def _checksums(padded: memoryview, length: int) -> str:
    """Of an array of so many bytes and the padding behind it."""
    with ThreadPoolExecutor(THREADS) as pool:
        blocks = _cut(padded[:length], 0)
        *whole, last = (block.data for block in blocks)
        return "".join(pool.map(_checksum, [*whole, padded[length - len(last) :]]))


def _bytes(array: Array) -> memoryview:
    # An empty array has no buffer that could be cast.
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
