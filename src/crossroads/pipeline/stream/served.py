"""One version of the subscription table, as workers match with it.

    served = log.served(version, now_ms)       # in the driver; small, pickled with the task
    opened = served.open()                     # in a worker: mapped files, kept while they are used
    opened.index.match_batch(events)           # ordinals in opened.ids, opened.subscribers

Who is paused, and whose `valid_until` is not after the time that the batch recorded, is not
reported. So the same version and time give the same matches, whenever and wherever.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from crossroads.indexfile import OpenedIndex, cached_index
from crossroads.matching.boxes import Int64Array
from crossroads.matching.classes import TooDense
from crossroads.matching.index import Matches, MatchIndex
from crossroads.matching.live import Bools, joined
from crossroads.pipeline.stream.versionstore import UNTIL, load_version, rows_of

VERSIONS_OPEN_MAX = 2  # in a process: that of this batch and that of the one before


@dataclass(frozen=True, slots=True)
class Served:
    """Where a version is, and at which time it is asked."""

    file: str
    version: int
    now_ms: int

    def open(self) -> ServedIndex:
        """The same object for as long as nobody expires and few other versions are opened."""
        state = Path(self.file).stat()
        # Another checkpoint may have come to this place since.
        key = (self.file, state.st_ino, state.st_mtime_ns)
        with _opening:
            found = _opened.pop(key, None) or _Version.open(self.file)
            _opened[key] = found  # behind the others: the first was used longest ago
            while len(_opened) > VERSIONS_OPEN_MAX:
                del _opened[next(iter(_opened))]
            return found.at(self.version, self.now_ms)


@dataclass(frozen=True)
class _Part:
    """A level of the version: its index, and who is not reported; None if all are."""

    index: MatchIndex
    hidden: Bools | None

    def match(self, events: pa.Table | pa.RecordBatch, most: int | None) -> Matches:
        found = self.index.match_batch(events, most=most)
        if self.hidden is None:
            return found
        kept = ~self.hidden[found.ordinals]
        before = np.zeros(kept.size + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        return Matches(before[found.offsets], found.ordinals[kept])


@dataclass(frozen=True)
class LevelledIndex:
    """Several levels as one index: ordinals count through them, the oldest level first."""

    parts: tuple[_Part, ...]

    def match_batch(self, events: pa.Table | pa.RecordBatch, *, most: int | None = None) -> Matches:
        """As `MatchIndex.match_batch`; `TooDense` too."""
        found: list[Matches] = []
        first = total = 0
        for part in self.parts:
            one = part.match(events, most)
            total += one.ordinals.size
            if most is not None and total > most and events.num_rows > 1:
                raise TooDense
            shifted = one.ordinals + np.int32(first) if first else one.ordinals
            found.append(Matches(one.offsets, shifted))
            first += part.index.size
        return joined(found, events.num_rows)


@dataclass(frozen=True, eq=False)
class ServedIndex:
    """Ordinal i is `ids[i]` of `subscribers[i]`; those of the hidden are never reported."""

    version: int
    index: LevelledIndex
    ids: pa.Array
    subscribers: pa.Array
    levels: tuple[OpenedIndex, ...]

    def match_batch(self, events: pa.Table | pa.RecordBatch, *, most: int | None = None) -> Matches:
        return self.index.match_batch(events, most=most)

    def subscriptions(self) -> pa.Table:
        """Those that are reported: id, subscriber, filter."""
        tables = [_NAMED.empty_table()]
        for level, part in zip(self.levels, self.index.parts, strict=True):
            rows = rows_of(level).select(_NAMED.names)
            tables.append(rows if part.hidden is None else rows.filter(pa.array(~part.hidden)))
        return pa.concat_tables(tables).combine_chunks()


class _Version:
    """A version file and its levels, mapped; who is expired depends on the time asked for."""

    def __init__(self, levels: tuple[OpenedIndex, ...], hidden: tuple[Bools, ...]) -> None:
        self._levels = levels
        self._hidden = hidden
        self._served: tuple[int, ServedIndex] | None = None

    @classmethod
    def open(cls, file: str) -> _Version:
        stored = load_version(Path(file))
        # The driver has written or verified them.
        levels = tuple(cached_index(level.file, verify=False) for level in stored)
        return cls(levels, tuple(level.dead | level.paused for level in stored))

    @cached_property
    def _names(self) -> tuple[pa.Array, pa.Array]:
        columns = zip(*((level.ids, level.subscribers) for level in self._levels), strict=True)
        ids, subscribers = ([_text(part) for part in parts] for parts in columns)
        return pa.concat_arrays(ids), pa.concat_arrays(subscribers)

    @cached_property
    def _ends(self) -> Int64Array:
        """When subscriptions expire, ascending."""
        every = [level.extra[UNTIL] for level in self._levels]
        return np.sort(np.concatenate([np.empty(0, np.int64), *every]))

    def at(self, version: int, now_ms: int) -> ServedIndex:
        # As many expired are the same ones expired.
        expired = int(np.searchsorted(self._ends, now_ms, side="right"))
        if self._served is None or self._served[0] != expired:
            self._served = (expired, self._index(version, now_ms))
        return self._served[1]

    def _index(self, version: int, now_ms: int) -> ServedIndex:
        parts = []
        for level, hidden in zip(self._levels, self._hidden, strict=True):
            mask = hidden | (level.extra[UNTIL] <= now_ms)
            parts.append(_Part(level.index, mask if mask.any() else None))
        nobody = pa.array([], pa.string())
        ids, subscribers = self._names if self._levels else (nobody, nobody)
        return ServedIndex(version, LevelledIndex(tuple(parts)), ids, subscribers, self._levels)


_NAMED = pa.schema([("id", pa.string()), ("subscriber", pa.string()), ("filter", pa.string())])
_opened: dict[tuple[str, int, int], _Version] = {}
_opening = threading.Lock()


def _text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())
