"""What each task of plan `keyed` has done: how many events it was given, and which had a match.

An event may be matched in several cells and at the root, by different tasks, and counts once. So a
task leaves the ordinals of its matched events beside its part, and the driver puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.pipeline.output import replacing

TALLIES = "_tallies"  # scratch: removed before the output is committed
_ROW_BITS = 32  # of an event's ordinal: its row within the split

Int64Array = npt.NDArray[np.int64]


class Tally:
    """Of one task, while it works."""

    def __init__(self) -> None:
        self.events = 0
        self._matched: list[Int64Array] = []

    def add(self, ordinals: Int64Array, offsets: Int64Array) -> None:
        """Some events by ordinal; their matches begin and end at the offsets."""
        self.events += ordinals.size
        self._matched.append(ordinals[np.diff(offsets) > 0])

    def write(self, folder: Path, number: int) -> None:
        first = np.array([self.events], np.int64)
        with replacing(folder / TALLIES / f"part-{number:05d}.npy") as file:
            np.save(file, np.concatenate([first, *self._matched]))


def matched_events(staging: Path) -> int:
    """How many events have a match anywhere."""
    seen: dict[int, npt.NDArray[np.bool_]] = {}
    for _, tally in _tallies(staging):
        splits, rows = tally[1:] >> _ROW_BITS, tally[1:] & ((1 << _ROW_BITS) - 1)
        for split in np.unique(splits).tolist():
            here = rows[splits == split]
            known = seen.get(split, np.zeros(0, np.bool_))
            if known.size <= here.max():
                known = np.concatenate([known, np.zeros(here.max() + 1 - known.size, np.bool_)])
            known[here] = True
            seen[split] = known
    return sum(int(known.sum()) for known in seen.values())


def task_load(staging: Path, tasks: int) -> dict[str, Any]:
    """How evenly the events were spread over the tasks: the most of one, and the mean."""
    events = np.zeros(tasks, np.int64)
    for number, tally in _tallies(staging):
        if number < tasks:
            events[number] = tally[0]
    mean = float(events.mean())
    return {
        "tasks": tasks,
        "events_max": int(events.max()),
        "events_mean": round(mean, 1),
        "max_over_mean": round(float(events.max()) / mean, 2) if mean else 1.0,
    }


def _tallies(staging: Path) -> Iterator[tuple[int, Int64Array]]:
    for path in sorted((staging / TALLIES).glob("part-*.npy")):
        yield int(path.stem.removeprefix("part-")), np.load(path)
