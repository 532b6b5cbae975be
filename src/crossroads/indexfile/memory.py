"""An index file in memory, in which arrays are made instead of being copied to it.

    memory = IndexInMemory()
    index = MatchIndex.build(table, empty=memory.empty)
    memory.save(index, subscriptions=…, …)
    memory.path                                   # for workers, like any index file

For an index that serves only the run that makes it, on one machine: no disk is written to and the
largest arrays exist once. `path` names the file for every process of this user, until it is closed
or this process ends, however it ends: nothing is left behind to clean up.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.indexfile.layout import write_into
from crossroads.indexfile.store import contents
from crossroads.matching.index import MatchIndex

Array = npt.NDArray[Any]

_PLACED_MIN = 1 << 20  # smaller arrays are copied sooner than mapped


class IndexInMemory:
    """One writer, which saves once."""

    def __init__(self) -> None:
        self._file = os.memfd_create("crossroads-index")
        self._end = mmap.ALLOCATIONGRANULARITY  # the beginning of the file is not an array's
        self._places: dict[int, int] = {}  # address → offset in the file
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._file}")
        self.bytes = 0

    @staticmethod
    def possible() -> bool:
        """Linux has such files, and a /proc to name them by."""
        return hasattr(os, "memfd_create") and Path(f"/proc/{os.getpid()}/fd").is_dir()

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """Like `numpy.empty`; what is large lies in the file from the start."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size < _PLACED_MIN:
            return np.empty(shape, dtype)
        room = size + -size % mmap.ALLOCATIONGRANULARITY
        os.ftruncate(self._file, self._end + room)
        view = mmap.mmap(self._file, size, offset=self._end)
        array = np.frombuffer(view, dtype).reshape(shape)
        self._places[_address(array)] = self._end
        self._end += room
        return array

    def save(
        self,
        index: MatchIndex,
        *,
        subscriptions: pa.Table,
        subscription_version: int,
        content_hash: str,
    ) -> None:
        """As in `save_index`."""
        arrays, content = contents(index, subscriptions, subscription_version, content_hash)
        # Checksums would take 30 ms per million subscriptions, and nobody would compare them.
        self.bytes = write_into(
            self._file, arrays, content, self._place, self._end, checksums=False
        )

    def close(self) -> None:
        """Whoever has it open keeps it; the memory is free when the last one is done."""
        os.close(self._file)

    def _place(self, array: Array) -> int | None:
        return self._places.get(_address(array)) if array.nbytes >= _PLACED_MIN else None


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
