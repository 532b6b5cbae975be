"""The duplicate window: ids of events that were taken a while ago, so that a second copy is not.

    CHECKPOINT/seen/000000012-1731751200000.npy      fingerprints of batch 12, and when it started

An id counts as seen while the batch that took it started no longer than the window before the one
that is asked about; a copy that is refused does not prolong that. Only recorded times are compared,
so a replay decides as the first run did. In memory it is one hash table; memory follows the number
of events in the window, 48 bytes or less for each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit

from crossroads.errors import CheckpointError
from crossroads.indexfile.layout import sync_folder

UNLIMITED = 1 << 60  # ms: longer than any stream lives
_SLOTS_FIRST = 1 << 12
_EMPTY = np.int64(-1)

Fingerprints = npt.NDArray[np.uint64]  # two columns, and the row as a third where it matters
Ints = npt.NDArray[np.int64]


class SeenWindow:
    """One thread. `claim` is called once per batch, in the order of the batches."""

    def __init__(self, folder: Path, window_ms: int) -> None:
        self.folder = folder
        self.window_ms = window_ms
        self._keys = np.zeros((_SLOTS_FIRST, 2), np.uint64)
        self._times = np.full(_SLOTS_FIRST, _EMPTY, np.int64)
        self._used = 0
        self._loaded = False
        folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return self._used

    def claim(
        self, batch: int, started_ms: int, splits: Mapping[int, Fingerprints]
    ) -> dict[int, Ints]:
        """By split the rows whose id was seen; all others are from now on. Made durable first."""
        if not self._loaded:
            self._load(batch, started_ms)
        everything = [splits[number] for number in sorted(splits)]
        fresh = sum(len(one) for one in everything)
        self._make_room(fresh, started_ms)
        repeated: dict[int, Ints] = {}
        taken: list[Fingerprints] = []
        for number in sorted(splits):
            given = splits[number]
            before = np.zeros(len(given), np.bool_)
            self._used += _claim(
                self._keys, self._times, given[:, :2], started_ms, self.window_ms, before
            )
            taken.append(given[~before, :2])
            if before.any():
                repeated[number] = given[before, 2].astype(np.int64)
        self._save(batch, started_ms, taken)
        self._forget(started_ms)
        return repeated

    # -- files -------------------------------------------------------------------------------------

    def _load(self, batch: int, started_ms: int) -> None:
        """Everything before this batch: what a replayed batch left behind is its own."""
        self._loaded = True
        for path, number, when in self._files():
            if number >= batch:
                path.unlink(missing_ok=True)
            elif started_ms - when <= self.window_ms:
                found = _read(path)
                self._make_room(len(found), started_ms)
                before = np.zeros(len(found), np.bool_)
                self._used += _claim(self._keys, self._times, found, when, self.window_ms, before)

    def _files(self) -> list[tuple[Path, int, int]]:
        found = []
        for path in sorted(self.folder.glob("*-*.npy")):
            batch, _, when = path.stem.partition("-")
            found.append((path, int(batch), int(when)))
        return found

    def _save(self, batch: int, started_ms: int, taken: list[Fingerprints]) -> None:
        path = self.folder / f"{batch:09d}-{started_ms}.npy"
        temporary = self.folder / f".{path.name}.{os.getpid()}"
        try:
            with temporary.open("wb") as file:
                np.save(file, np.concatenate([np.zeros((0, 2), np.uint64), *taken]))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_folder(self.folder)
        except OSError as error:
            raise CheckpointError(
                f"cannot write {path}: {error.strerror or error}",
                hint="check the permissions and the free space of the checkpoint",
            ) from error

    def _forget(self, started_ms: int) -> None:
        """A file more than is needed stays: the batch at hand may still be replayed."""
        for path, _, when in self._files():
            if started_ms - when <= self.window_ms:
                return  # files are in the order of time
            if started_ms - when > 2 * self.window_ms:
                path.unlink(missing_ok=True)

    # -- the table ---------------------------------------------------------------------------------

    def _make_room(self, fresh: int, started_ms: int) -> None:
        """At most half full, so that looking up takes a step or two."""
        if 2 * (self._used + fresh) <= len(self._times):
            return
        alive = (self._times != _EMPTY) & (started_ms - self._times <= self.window_ms)
        keys, times = self._keys[alive], self._times[alive]
        slots = len(self._times)
        while 3 * (len(times) + fresh) > slots:  # with room to spare: this is not for every batch
            slots *= 2
        self._keys = np.zeros((slots, 2), np.uint64)
        self._times = np.full(slots, _EMPTY, np.int64)
        _refill(self._keys, self._times, keys, times)
        self._used = len(times)


def _read(path: Path) -> Fingerprints:
    try:
        found: Fingerprints = np.load(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {error}", hint="restore the checkpoint"
        ) from error
    return found


@njit(cache=True)
def _claim(
    keys: Fingerprints,
    times: Ints,
    given: Fingerprints,
    started: int,
    window: int,
    before: npt.NDArray[np.bool_],
) -> int:
    """Marks those seen before, takes in the others; how many slots were newly used."""
    mask = np.uint64(times.size - 1)
    used = 0
    for i in range(given.shape[0]):
        low, high = given[i, 0], given[i, 1]
        slot = np.int64(high & mask)
        while times[slot] != -1 and not (keys[slot, 0] == low and keys[slot, 1] == high):
            slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)
        if times[slot] == -1:
            used += 1
            keys[slot, 0], keys[slot, 1] = low, high
            times[slot] = started
        elif started - times[slot] <= window:
            before[i] = True
        else:
            times[slot] = started
    return used


@njit(cache=True)
def _refill(keys: Fingerprints, times: Ints, old_keys: Fingerprints, old_times: Ints) -> None:
    mask = np.uint64(times.size - 1)
    for i in range(old_times.size):
        slot = np.int64(old_keys[i, 1] & mask)
        while times[slot] != -1:
            slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)
        keys[slot, 0], keys[slot, 1] = old_keys[i, 0], old_keys[i, 1]
        times[slot] = old_times[i]
