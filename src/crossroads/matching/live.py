"""An index that changes: subscriptions come, are replaced and go, and readers never wait.

    live = LiveIndex.load(schema, table)[0]
    change = live.apply(upserts=[("s1", "ann", "price > 10")], removes=["s7"])
    live.snapshot().match(event)               # ids, as of one whole version

Rows may carry more columns than these three; they stay with their subscription.

A subscription set is a few **levels**, each a compiled index that never changes, the oldest and
largest first (the base), and per level the rows that are dead: removed, or replaced in a later
level. A change adds one small level with its new filters and marks what it made obsolete. Every
level costs each batch of events another pass, so a level is folded into the one before it as soon
as the rebuild is cheap against what it saves (`GROWTH`), and a level is rebuilt when most of it is
dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.errors import FilterError
from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.index import Matches, MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.model.types import Value

Bools = npt.NDArray[np.bool_]
Upsert = tuple[str, str, str]  # id, subscriber, text of the filter

# A level is folded into the one before it once it has more than 1/GROWTH of its rows. So sizes grow
# by this factor from level to level: a million subscriptions have at most seven levels, usually two
# or three, and each subscription is compiled again about GROWTH times on its way into the base.
GROWTH = 8
# A level is compiled anew once this share of it is dead: the dead are still found, only not shown.
DEAD_SHARE_MAX = 0.5
_COLUMNS = pa.schema([("id", pa.string()), ("subscriber", pa.string()), ("filter", pa.string())])


@dataclass(frozen=True)
class Change:
    """What one `apply` did. Rejected subscriptions leave the set as if they had not been sent."""

    version: int
    added: int
    replaced: int
    removed: int
    rejected: list[tuple[str, FilterError]]


@dataclass(frozen=True)
class Level:
    index: MatchIndex
    rows: pa.Table  # id, subscriber, filter, …; row i is ordinal i of the index
    places: Mapping[str, int]  # id → row
    dead: Bools

    @classmethod
    def of(cls, schema: Schema, rows: pa.Table) -> Level:
        """All filters are known to be good."""
        table = read_filters(rows["filter"], schema)
        assert not table.errors, table.errors
        return cls.compiled(MatchIndex.build(table), rows)

    @classmethod
    def compiled(cls, index: MatchIndex, rows: pa.Table, dead: Bools | None = None) -> Level:
        """Of an index that is there already, from a file."""
        places = {name: at for at, name in enumerate(rows["id"].to_pylist())}
        return cls(index, rows, places, np.zeros(rows.num_rows, np.bool_) if dead is None else dead)

    @property
    def alive(self) -> int:
        return int(np.count_nonzero(~self.dead))

    def alive_rows(self) -> pa.Table:
        return self.rows.filter(pa.array(~self.dead)) if self.dead.any() else self.rows

    def find(self, name: str) -> int | None:
        at = self.places.get(name)
        return None if at is None or self.dead[at] else at

    def match(self, events: pa.Table | pa.RecordBatch) -> Matches:
        found = self.index.match_batch(events)
        if not self.dead.any():
            return found
        kept = ~self.dead[found.ordinals]
        before = np.zeros(kept.size + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        return Matches(before[found.offsets], found.ordinals[kept])


@dataclass(frozen=True)
class Snapshot:
    """One whole version of the subscription set. Immutable; any number of threads may read it.

    Ordinals are places in `ids` and `subscribers`. Places of the dead stay empty-handed: their
    ordinals are never reported.
    """

    version: int
    schema: Schema
    levels: tuple[Level, ...]

    @property
    def size(self) -> int:
        """Subscriptions alive in this version."""
        return sum(level.alive for level in self.levels)

    @cached_property
    def ids(self) -> pa.Array:
        return self._column("id")

    @cached_property
    def subscribers(self) -> pa.Array:
        return self._column("subscriber")

    def match(self, event: Mapping[str, Value]) -> list[str]:
        """Ids of the subscriptions that the event matches, sorted."""
        found: list[str] = []
        for level in self.levels:
            names = level.rows["id"]
            found += [names[at].as_py() for at in level.index.match(event) if not level.dead[at]]
        return sorted(found)

    def match_batch(self, events: pa.Table | pa.RecordBatch) -> Matches:
        """Of a table whose columns are those of `Schema.arrow`; each pair once."""
        parts: list[Matches] = []
        first = 0
        for level in self.levels:
            found = level.match(events)
            parts.append(Matches(found.offsets, found.ordinals + np.int32(first)))
            first += level.rows.num_rows
        return joined(parts, events.num_rows)

    def subscriptions(self) -> pa.Table:
        """The living: id, subscriber, filter and what else their rows have."""
        if not self.levels:
            return _COLUMNS.empty_table()
        return _concat([level.alive_rows() for level in self.levels])

    def find(self, name: str) -> tuple[Level, int] | None:
        """Where a subscription is alive: its level, and its row there."""
        for level in self.levels:
            if (at := level.find(name)) is not None:
                return level, at
        return None

    def _column(self, name: str) -> pa.Array:
        whole = pa.chunked_array([c for level in self.levels for c in level.rows[name].chunks],
                                 pa.string())  # fmt: skip
        joined = whole.combine_chunks()
        return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


class LiveIndex:
    """One writer at a time (others wait), many readers that take no lock.

    A reader takes a `snapshot()` and sees all of one version for as long as it keeps it.
    """

    def __init__(self, schema: Schema, *, version: int = 0, levels: tuple[Level, ...] = ()) -> None:
        self.schema = schema
        self._writing = threading.Lock()
        self._snapshot = Snapshot(version, schema, levels)  # assigned whole, by the writer only

    @classmethod
    def load(
        cls, schema: Schema, subscriptions: pa.Table, *, version: int = 1
    ) -> tuple[LiveIndex, Change]:
        """From a table with the columns id, subscriber and filter; as one change."""
        live = cls(schema, version=version - 1)
        change = live._commit(subscriptions.select(_COLUMNS.names).cast(_COLUMNS), ())
        return live, change

    @property
    def version(self) -> int:
        return self._snapshot.version

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def apply(self, upserts: Sequence[Upsert] = (), removes: Iterable[str] = ()) -> Change:
        """One whole change, which becomes the next version: removes first, then upserts.

        An upsert adds the id or replaces what it had; sent twice in one change, the last good one
        counts. A filter that is refused changes nothing: the id keeps the filter it had.
        """
        columns = zip(*upserts, strict=True) if upserts else ((), (), ())
        arrays = [pa.array(column, pa.string()) for column in columns]
        return self._commit(pa.Table.from_arrays(arrays, schema=_COLUMNS), removes)

    def apply_rows(self, rows: pa.Table, removes: Iterable[str] = ()) -> Change:
        """`apply` for rows whose ids are distinct and whose filters are known to be good.

        Nothing is folded, so it takes no longer than the change is large; `settle` folds later.
        """
        return self._commit(rows, removes, known=True)

    def settle(self) -> bool:
        """Fold what has become cheap to fold; says whether there was anything. The version stays,
        as with `merge`, but places of subscriptions do not."""
        with self._writing:
            levels = self._snapshot.levels
            if not levels:
                return False
            *before, last = levels
            sound = not any(not level.alive or _mostly_dead(level) for level in levels)
            if sound and _kept(before, last.alive) == len(before):
                return False
            folded = self._folded(before, last.alive_rows())
            self._snapshot = replace(self._snapshot, levels=folded)
            return True

    def merge(self) -> None:
        """Fold everything into one level. The version stays: nobody's answer changes."""
        with self._writing:
            rows = self._snapshot.subscriptions()
            levels = (Level.of(self.schema, rows),) if rows.num_rows else ()
            self._snapshot = replace(self._snapshot, levels=levels)

    def _commit(self, upserts: pa.Table, removes: Iterable[str], *, known: bool = False) -> Change:
        with self._writing:
            before = self._snapshot
            accepted, rejected = (upserts, []) if known else self._accepted(upserts)
            names = accepted["id"].to_pylist()
            removed = _found(before.levels, removes)
            obsolete = removed | _found(before.levels, names)
            replaced = len(obsolete) - len(removed.keys() - set(names))
            levels = _without(before.levels, obsolete.values())
            version = before.version + 1
            after = self._stacked if known else self._folded
            self._snapshot = Snapshot(version, self.schema, after(levels, accepted))
            return Change(
                version=version,
                added=len(names) - replaced,
                replaced=replaced,
                removed=len(obsolete) - replaced,
                rejected=rejected,
            )

    def _accepted(self, upserts: pa.Table) -> tuple[pa.Table, list[tuple[str, FilterError]]]:
        """(good rows, the last of each id; rejected ones)."""
        table = read_filters(upserts["filter"], self.schema)
        names = upserts["id"].to_pylist()
        rejected = [
            (names[row], error.of(names[row])) for row, error in sorted(table.errors.items())
        ]
        good = {name: row for row, name in enumerate(names) if row not in table.errors}
        if len(good) == len(names):
            return upserts, []
        return upserts.take(pa.array(sorted(good.values()), pa.int64())), rejected

    def _folded(self, levels: list[Level], added: pa.Table) -> tuple[Level, ...]:
        """With the added rows: in a level of their own, or with levels folded into it."""
        kept = _kept(levels, added.num_rows)
        rows = _concat([*(level.alive_rows() for level in levels[kept:]), added])
        found = [self._fresh(level) for level in levels[:kept] if level.alive]
        return (*found, Level.of(self.schema, rows)) if rows.num_rows else tuple(found)

    def _stacked(self, levels: list[Level], added: pa.Table) -> tuple[Level, ...]:
        """With the added rows in a level of their own, whatever the others are."""
        return (*levels, Level.of(self.schema, added)) if added.num_rows else tuple(levels)

    def _fresh(self, level: Level) -> Level:
        return Level.of(self.schema, level.alive_rows()) if _mostly_dead(level) else level


def _mostly_dead(level: Level) -> bool:
    size: int = level.rows.num_rows
    return level.alive < size * (1 - DEAD_SHARE_MAX)


def _kept(levels: Sequence[Level], size: int) -> int:
    """How many of the levels stay when so many rows come; the others are folded with them."""
    kept = len(levels)
    while size and kept and size * GROWTH > levels[kept - 1].alive:
        kept -= 1
        size += levels[kept].alive
    return kept


_Place = tuple[int, int]  # level, row


def _found(levels: Sequence[Level], names: Iterable[str]) -> dict[str, _Place]:
    """Where the ids are alive; in one level at most. Unknown ids are left out."""
    return {
        name: (number, at)
        for name in names
        for number, level in enumerate(levels)
        if (at := level.find(name)) is not None
    }


def _without(levels: Sequence[Level], places: Iterable[_Place]) -> list[Level]:
    """Levels with those rows dead; others may be reading the old masks, so they are copied."""
    rows: dict[int, list[int]] = {}
    for number, at in places:
        rows.setdefault(number, []).append(at)
    found = list(levels)
    for number, dead in rows.items():
        mask = found[number].dead.copy()
        mask[dead] = True
        found[number] = replace(found[number], dead=mask)
    return found


def _concat(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


def joined(parts: list[Matches], events: int) -> Matches:
    """The lists of every event, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Matches(np.zeros(events + 1, np.int64), np.empty(0, np.int32))
    offsets: Int64Array = np.sum([part.offsets for part in parts], axis=0)
    ordinals: Int32Array = np.empty(int(offsets[-1]), np.int32)
    begin = offsets[:-1].copy()
    for part in parts:
        counts = np.diff(part.offsets)
        shift = np.repeat(begin - part.offsets[:-1], counts)
        ordinals[shift + np.arange(shift.size)] = part.ordinals
        begin += counts
    return Matches(offsets, ordinals)
