"""Subscriptions that change while a stream runs: every committed change is the next version.

    log = SubscriptionLog.open(path, schema, checkpoint / "subscriptions", version=recorded)
    log.poll(now_ms)                        # takes up what is new; a thread beside the events
    log.served(log.current, started_ms)     # what workers match a batch with
    log.release(below=version)              # versions that no batch will ask for again

A change is applied to the index by delta (`matching.live`) and is on the disk before anybody uses
it; its line in the journal commits it. Killed before that line, the file is simply taken up again;
killed after it, the version is there. Folding small levels into large ones, which takes longer,
comes after the commit, and is seen with the next version.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from crossroads.errors import CrossroadsError, InputError
from crossroads.matching.live import Bools, Level, LiveIndex, Snapshot
from crossroads.model.schema import Schema
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.stream.changefiles import (
    LOG,
    SNAPSHOT,
    ChangeFolder,
    NewFile,
    SnapshotFile,
)
from crossroads.pipeline.stream.changes import read_changes, read_snapshot
from crossroads.pipeline.stream.effect import Effect, effect_of_changes, effect_of_snapshot
from crossroads.pipeline.stream.served import Served
from crossroads.pipeline.stream.versionjournal import Counts, Entry, Journal
from crossroads.pipeline.stream.versionstore import ROW, UNTIL, StoredLevel, VersionStore

NOTHING_YET = 0  # the version before the first: no subscriptions
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Committed:
    """A file that was taken up. `entry.number` names it for ever: whoever writes the rejects
    elsewhere does so under this number, and once."""

    entry: Entry
    rejects: list[Reject]

    @property
    def version(self) -> int:
        return self.entry.version

    @property
    def counts(self) -> Counts:
        return self.entry.counts


class SubscriptionLog:
    """`poll` is for one thread; everything else may be called beside it, and does not wait."""

    def __init__(
        self, path: Path, schema: Schema, store: VersionStore, journal: Journal, version: int
    ) -> None:
        self.path = path
        self.schema = schema
        self.current = version  # assigned by `poll` only
        self._store = store
        self._journal = journal
        # Entries up to the first number were told; up to the second one, all but their rejects.
        oldest = store.versions()[0]
        self._told = sum(one.version < oldest for one in journal.entries)
        self._known = _entry_of(journal, version)
        self._kept_from = self._deleted_below = NOTHING_YET
        self._snapshot_file = SnapshotFile(path)
        self._folder = ChangeFolder(path, journal.entries)
        self._warned: set[str] = set()
        self._warnings: list[str] = []
        self._polling = threading.Lock()
        stored = store.load_version(journal.newest, schema)
        levels = tuple(store.open_level(one, schema) for one in stored)
        self._live = LiveIndex(schema, version=journal.newest, levels=levels)
        # By the index, which stays the same object when the mask of its level changes.
        self._files = {level.index: one.file for level, one in zip(levels, stored, strict=True)}
        self._paused = frozenset(_names(levels, [one.paused & ~one.dead for one in stored]))

    @classmethod
    def open(
        cls, path: str | Path, schema: Schema, folder: Path, *, version: int | None = None
    ) -> SubscriptionLog:
        """The version that was recorded with a batch, or the newest one that was committed.

        What a take-up that was never committed left behind is removed. No input is read yet.
        """
        store, journal = VersionStore(Path(folder)), Journal.open(Path(folder))
        kept = [number for number in store.versions() if number <= journal.newest]
        if not kept and journal.newest == NOTHING_YET:
            store.save_version(NOTHING_YET, schema, [])
            kept = [NOTHING_YET]
        wanted = journal.newest if version is None else version
        for needed in (wanted, journal.newest):
            if needed not in kept:
                raise _not_there(needed, store)
        store.keep_only(kept, (), range(1, journal.last + 1))
        return cls(Path(path), schema, store, journal, wanted)

    @property
    def living(self) -> int:
        """Neither paused nor expired, when the last change was taken up."""
        entries = self._journal.entries
        return entries[-1].living if entries else 0

    # -- for batches -------------------------------------------------------------------------

    def served(self, version: int, now_ms: int) -> Served:
        """`now_ms` is the start that the batch recorded: who had expired then is not reported."""
        file = self._store.version_file(version)
        if version > self._journal.newest or not file.exists():
            raise _not_there(version, self._store)
        return Served(str(file.absolute()), version, now_ms)

    def table_at(self, version: int, now_ms: int) -> pa.Table:
        """The same subscriptions as a table: id, subscriber, filter."""
        return self.served(version, now_ms).open().subscriptions()

    def release(self, below: int) -> None:
        """No batch will ask for these versions; their files go with the next `poll`."""
        self._kept_from = max(self._kept_from, below)

    def history(self, after: int = 0) -> Iterator[Committed]:
        """Everything taken up after that entry, in order, with what was rejected as far as it is
        still kept."""
        for entry in self._journal.entries[after:]:
            rejects = self._store.load_rejects(entry.number) if entry.counts.rejected else []
            yield Committed(entry, rejects)

    def drain_warnings(self) -> list[str]:
        """What was noticed since the last time; it was logged too."""
        found, self._warnings = self._warnings, []
        return found

    # -- taking up ---------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Committed]:
        """Take up everything new. A file that cannot be used is an entry with one reject, and
        changes nothing.

        The first poll also tells what came after the version that was opened, and again what was
        rejected before it, as far as it is kept: nobody knows what was told before the restart.
        """
        with self._polling:
            news = self._folder.new(self._warn) if self.path.is_dir() else self._snapshots()
            for file in news:
                if not self._take_up(file, now_ms):
                    break  # it is being written: it and those after it with the next poll
            self.current = self._journal.newest
            committed = [
                one
                for one in self.history(self._told)
                if one.entry.number > self._known or one.rejects
            ]
            self._settle()
            self._told = self._known = self._journal.last
            return committed

    def _snapshots(self) -> Iterator[NewFile]:
        return self._snapshot_file.new(self._journal.entries, self._warn)

    def _take_up(self, file: NewFile, now_ms: int) -> bool:
        table = self._live.snapshot()
        try:
            effect = self._effect(file, table, now_ms)
        except CrossroadsError as error:
            if isinstance(error.__cause__, OSError):
                self._warn(f"{error}; tried again")
                return False
            self._warn(f"{error}: the subscriptions stay as they are")
            rejects = [Reject(str(file.path), 0, "", str(error))]
            effect = Effect(ROW.empty_table(), [], self._paused, Counts(rejected=1), rejects)
        if not file.unchanged():
            return False
        self._commit(file, effect, now_ms)
        return True

    def _effect(self, file: NewFile, table: Snapshot, now_ms: int) -> Effect:
        if file.kind == SNAPSHOT:
            rows = read_snapshot(file.path)
            return effect_of_snapshot(rows, self.schema, table, self._paused, now_ms)
        changes = read_changes(file.path, self.schema)
        return effect_of_changes(changes, table, self._paused, now_ms)

    def _commit(self, file: NewFile, effect: Effect, now_ms: int) -> None:
        """Everything first, the line in the journal last; a failure leaves all as it was."""
        before, number = self._live.snapshot(), self._journal.last + 1
        changed = effect.counts.applied > 0
        version = self._journal.newest + changed
        try:
            if changed:
                self._live.apply_rows(effect.rows, effect.removes)
                self._save_version(version, effect.paused)
            self._store.save_rejects(number, effect.rejects)
            paused = effect.paused if changed else self._paused
            entry = Entry(
                number=number,
                version=version,
                changed=changed,
                committed_ms=now_ms,
                kind=file.kind,
                file=file.name,
                stamp=file.stamp,
                content_hash=file.content_hash,
                counts=effect.counts,
                living=_living(self._live.snapshot().levels, paused, now_ms),
            )
            self._journal.append(entry)
        except BaseException:
            self._live = LiveIndex(self.schema, version=before.version, levels=before.levels)
            raise
        self._paused = paused
        if file.kind == LOG:
            self._folder.taken(entry)

    def _save_version(self, version: int, paused: frozenset[str]) -> None:
        levels = self._live.snapshot().levels
        self._save_levels(levels, version)
        masks = _masks(levels, paused)
        stored = [
            StoredLevel(self._files[level.index], level.dead, mask)
            for level, mask in zip(levels, masks, strict=True)
        ]
        self._store.save_version(version, self.schema, stored)

    def _save_levels(self, levels: tuple[Level, ...], version: int) -> None:
        files = {}
        for level in levels:
            known = self._files.get(level.index)
            files[level.index] = known or self._store.save_level(level, version)
        self._files = files

    def _settle(self) -> None:
        """Fold for the next version, and delete what nobody needs."""
        if self._live.settle():
            self._save_levels(self._live.snapshot().levels, self._journal.newest)
        kept_from = min(self._kept_from, self._journal.newest)
        if kept_from > self._deleted_below:
            entries = [one.number for one in self._journal.entries if one.version >= kept_from]
            kept = [number for number in self._store.versions() if number >= kept_from]
            self._store.keep_only(kept, self._files.values(), entries)
            self._deleted_below = kept_from

    def _warn(self, text: str) -> None:
        """Once: polls are many."""
        if text not in self._warned:
            self._warned.add(text)
            self._warnings.append(text)
            _logger.warning(text)


def _not_there(version: int, store: VersionStore) -> InputError:
    kept = store.versions()
    there = f"it has {kept[0]} to {kept[-1]}" if kept else "it has none"
    return InputError(
        f"version {version} of the subscriptions is not in {store.folder}",
        hint=f"{there}; use the checkpoint it was recorded with, or a new one",
    )


def _entry_of(journal: Journal, version: int) -> int:
    """The last entry that a batch with this version could know of: the one that made it."""
    made = (entry.number for entry in journal.entries if entry.changed and entry.version == version)
    return next(made, 0)


def _masks(levels: tuple[Level, ...], names: frozenset[str]) -> list[Bools]:
    masks = [np.zeros(level.rows.num_rows, np.bool_) for level in levels]
    for level, mask in zip(levels, masks, strict=True):
        mask[[at for name in names if (at := level.find(name)) is not None]] = True
    return masks


def _names(levels: tuple[Level, ...], masks: list[Bools]) -> Iterator[str]:
    for level, mask in zip(levels, masks, strict=True):
        yield from level.rows["id"].filter(pa.array(mask)).to_pylist()


def _living(levels: tuple[Level, ...], paused: frozenset[str], now_ms: int) -> int:
    hidden = _masks(levels, paused)
    return sum(
        int(np.count_nonzero(~(mask | level.dead | (level.rows[UNTIL].to_numpy() <= now_ms))))
        for level, mask in zip(levels, hidden, strict=True)
    )
