"""Arrays in one file: the bytes, their checksums, and nothing about what they mean.

    0   magic            8 bytes
    8   format version   uint32     files of another version are refused, never guessed at
    12  header checksum  uint32     CRC-32 of everything from here to the end of the header
    16  header length    uint64
    24  header           JSON: {"content": …, "size": bytes of the file,
                                "arrays": {name: [dtype, shape, offset, checksum]}}
    …   arrays, each at a multiple of 64 bytes

All numbers are little-endian. The checksum of an array covers the padding behind it, so that every
byte of the file is covered by something: the magic and the version by being compared, the rest by a
checksum. Offsets count from the end of the padded header.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.errors import DamagedIndex, ForeignIndex, IndexFileError

Array = npt.NDArray[Any]

MAGIC = b"xroads\r\n"  # a transfer that "repairs" line ends spoils it at once
FORMAT_VERSION = 1
ALIGNMENT = 64  # a cache line; more than any array element needs
_START = struct.Struct("<8sIIQ")
_CHECKED_FROM = 16  # the header checksum begins with the header length
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
    table: dict[str, list[Any]] = {}
    pieces: list[tuple[Array, bytes]] = []
    offset = 0
    for name, array in arrays.items():
        # `reshape` because a contiguous copy of a scalar would not be one.
        flat = np.ascontiguousarray(array).reshape(array.shape)
        padding = bytes(-flat.nbytes % ALIGNMENT)
        checksum = zlib.crc32(padding, zlib.crc32(_bytes(flat)))
        assert flat.dtype.str in _DTYPES, (name, flat.dtype)
        table[name] = [flat.dtype.str, list(flat.shape), offset, checksum]
        pieces.append((flat, padding))
        offset += flat.nbytes + len(padding)
    start = _start(table, content, offset)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(start)
            for flat, padding in pieces:
                file.write(_bytes(flat))
                file.write(padding)
            file.flush()
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
    return len(start) + offset


def _start(table: Mapping[str, Any], content: Mapping[str, Any], data_size: int) -> bytes:
    """Everything before the arrays, padded. The header states the size of the file, itself
    included: blanks behind the JSON make its length independent of that number."""
    header = json.dumps({"content": content, "size": 0, "arrays": table}).encode()
    length = len(header) + 20  # the most digits that the size can have
    length += -(_START.size + length) % ALIGNMENT
    size = _START.size + length + data_size
    header = json.dumps({"content": content, "size": size, "arrays": table}).encode()
    header = header.ljust(length)
    checksum = zlib.crc32(header, zlib.crc32(struct.pack("<Q", length)))
    return _START.pack(MAGIC, FORMAT_VERSION, checksum, length) + header


def sync_folder(folder: Path) -> None:
    """A rename is only durable once the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_arrays(path: Path, *, verify: bool) -> Stored:
    """Map the file. `verify` reads all of it once and compares checksums."""
    try:
        with path.open("rb") as file:
            start = file.read(_START.size)
            size = os.fstat(file.fileno()).st_size
            length = _header_length(path, start, size)
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise IndexFileError(f"cannot read {path}: {error.strerror or error}") from error
    whole = np.frombuffer(view, np.uint8)
    header = _header(path, whole, length, size)
    data = whole[_START.size + length :]
    arrays = {
        name: _array(path, name, data, *parts, verify=verify)
        for name, parts in header["arrays"].items()
    }
    return Stored(arrays, header["content"], size)


def _header_length(path: Path, start: bytes, size: int) -> int:
    if len(start) < _START.size and MAGIC.startswith(start[: len(MAGIC)]):
        raise DamagedIndex(f"{path} is cut off after {size} bytes", hint=_REBUILD)
    if not start.startswith(MAGIC):
        raise ForeignIndex(f"{path} is not an index file of ours")
    _, version, _, length = _START.unpack(start)
    if version != FORMAT_VERSION:
        raise ForeignIndex(
            f"{path} has format version {version}, this release reads {FORMAT_VERSION}",
            hint="build the index again",
        )
    if _START.size + length > size:
        raise DamagedIndex(f"{path} is cut off or changed in its header", hint=_REBUILD)
    return int(length)


def _header(path: Path, whole: Array, length: int, size: int) -> dict[str, Any]:
    end = _START.size + length
    stored = int.from_bytes(whole[_CHECKED_FROM - 4 : _CHECKED_FROM].tobytes(), "little")
    if zlib.crc32(_bytes(whole[_CHECKED_FROM:end])) != stored:
        raise DamagedIndex(f"{path}: the header is damaged", hint=_REBUILD)
    header: dict[str, Any] = json.loads(whole[_START.size : end].tobytes())
    if header["size"] != size:
        raise DamagedIndex(
            f"{path} has {size} bytes where its header says {header['size']}", hint=_REBUILD
        )
    return header


def _array(
    path: Path,
    name: str,
    data: Array,
    dtype: str,
    shape: list[int],
    offset: int,
    checksum: int,
    *,
    verify: bool,
) -> Array:
    if dtype not in _DTYPES:
        raise DamagedIndex(f"{path}: array {name} has an unknown type", hint=_REBUILD)
    length = math.prod(shape) * np.dtype(dtype).itemsize
    padded = length + -length % ALIGNMENT
    if offset < 0 or length < 0 or offset + padded > data.size:
        raise DamagedIndex(f"{path}: array {name} lies outside of the file", hint=_REBUILD)
    if verify and zlib.crc32(_bytes(data[offset : offset + padded])) != checksum:
        raise DamagedIndex(f"{path}: array {name} is damaged", hint=_REBUILD)
    return data[offset : offset + length].view(dtype).reshape(shape)


def _bytes(array: Array) -> memoryview:
    # An empty array has no buffer that could be cast.
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
