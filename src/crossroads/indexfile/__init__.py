"""Compiled indexes on disk: memory-mapped, checksummed, replaced whole."""

from crossroads.indexfile.manifest import current, prune, publish
from crossroads.indexfile.memory import IndexInMemory
from crossroads.indexfile.store import (
    IndexFileInfo,
    OpenedIndex,
    cached_index,
    open_index,
    save_index,
)

__all__ = [
    "IndexFileInfo",
    "IndexInMemory",
    "OpenedIndex",
    "cached_index",
    "current",
    "open_index",
    "prune",
    "publish",
    "save_index",
]
