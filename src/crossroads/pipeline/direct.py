"""Plan `direct`: workers read, match and write by themselves; Spark only says who does what.

Each split of the input is one task. It writes its parts under the split's number, whole or not at
all, so a task that is retried or run twice replaces its own parts by equal ones. Only for paths
that every executor sees under the same name.

Repeated event ids are found afterwards: every task leaves the hashes of its ids, the driver looks
for equal ones, and only splits with true repetitions are done again without them. So the usual
input, which has none, is read once and never shuffled.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pyspark import SparkContext

from crossroads.matching.boxes import Int64Array
from crossroads.model.identity import identity_fingerprints, identity_hashes
from crossroads.pipeline.indexed import Opened, Place
from crossroads.pipeline.notify import (
    MatchedEvents,
    Notify,
    Part,
    Receivers,
    event_ordinals,
)
from crossroads.pipeline.output import replacing, write_rejects
from crossroads.pipeline.reading import EventBatch, read_split
from crossroads.pipeline.sharing import Sharing
from crossroads.pipeline.source import Split
from crossroads.pipeline.steps import match_in_steps
from crossroads.pipeline.terms import Terms

REJECTED_EVENTS = "rejected_events"
HASHES = "_hashes"  # scratch: removed before the output is committed
FEW_SPLITS_PER_CORE = 8  # a task costs 0.1 s to start, as much as matching 100,000 events


Identified = Literal["no", "hashes", "fingerprints"]


@dataclass(frozen=True)
class Task:
    """What every worker needs to know; small and picklable."""

    notify: Notify
    place: Place  # of the index
    staging: str
    identified: Identified  # what is left of the ids, for whoever looks for repeated ones
    sharing: Sharing = field(default_factory=Sharing)


@dataclass(frozen=True)
class Done:
    """What a task reports; `part` is the number of the part it wrote, -1: none."""

    part: int
    events: int
    rejected: int
    repeated: int
    notifications: int
    matched_events: int
    outside: int = 0  # events that are not in the window
    latest: int | None = None  # the time of the latest event, where somebody asked for lateness


@lru_cache(maxsize=1)  # one index at a time is in use
def _receivers_of(opened: Opened) -> Receivers:
    """Kept per worker process: building it takes longer than matching a small split."""
    return Receivers(opened.ids, opened.subscribers)


def match_split(split: Split, task: Task) -> Done:
    """Read, match and write one split."""
    notify = task.notify
    opened = task.place.open()
    index, receivers = opened.index, _receivers_of(opened)
    staging = Path(task.staging)
    rejects = []
    identities: list[npt.NDArray[np.uint64]] = []
    events = matched = outside = 0
    latest: int | None = None
    with Part(staging, split.number, notify, receivers) as part:
        for batch in read_split(split, notify.schema):
            rejects += batch.rejects
            outside += batch.outside
            if not len(batch.ids):
                continue
            ordinals = event_ordinals(split.number, batch.rows)
            for start, rows, found in match_in_steps(index, batch.table):
                here = slice(start, start + rows.num_rows)
                ids = batch.ids.slice(start, rows.num_rows)
                part.write(MatchedEvents(rows, ids, ordinals[here], found))
                matched += int(np.count_nonzero(np.diff(found.offsets)))
            events += len(batch.ids)
            latest = later(latest, latest_time(split, batch))
            if task.identified != "no":
                identities.append(identities_of(batch, task.identified))
    if rejects:
        write_rejects(staging / REJECTED_EVENTS, rejects, notify.format, split.number)
    if identities:
        with replacing(identity_file(staging, split.number)) as file:
            np.save(file, np.concatenate(identities))
    repeated = len(split.terms.repeated) if split.terms is not None else 0
    done = Done(split.number, events, len(rejects), repeated, part.told, matched, outside)
    return replace(done, latest=latest)


def identities_of(batch: EventBatch, kind: Identified) -> npt.NDArray[np.uint64]:
    """Hashes, to be looked up in the input again; or fingerprints, each with its row."""
    if kind == "hashes":
        return identity_hashes(batch.ids)
    return np.column_stack([identity_fingerprints(batch.ids), batch.rows.astype(np.uint64)])


def latest_time(split: Split, batch: EventBatch) -> int | None:
    """In the units of the attribute that lateness is judged by, if it is."""
    if split.terms is None or split.terms.time is None:
        return None
    found = pc.max(batch.table[split.terms.time])
    return found.value if found.is_valid else None


def later(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def identity_file(staging: Path, split: int) -> Path:
    return staging / HASHES / f"part-{split:05d}.npy"


# -- the driver ----------------------------------------------------------------------------------


def run_direct(context: SparkContext, splits: Sequence[Split], task: Task) -> list[Done]:
    """All splits, in parallel; repeated event ids taken out."""
    done = run_splits(context, splits, task)
    if task.identified == "no":
        return done
    return without_repeated(context, splits, task, done, repeated_rows(context, splits, task))


def without_repeated(
    context: SparkContext | None,
    splits: Sequence[Split],
    task: Task,
    done: Sequence[Done],
    repeated: Mapping[int, Int64Array],
) -> list[Done]:
    """Splits that have repeated ids are done once more, without those rows."""
    again = [
        replace(
            split,
            terms=replace(split.terms or Terms(), repeated=tuple(repeated[split.number].tolist())),
        )
        for split in splits
        if split.number in repeated
    ]
    redone = run_splits(context, again, replace(task, identified="no"))
    by_part = {one.part: one for one in (*done, *redone)}
    return [by_part[number] for number in sorted(by_part)]


def run_splits(context: SparkContext | None, splits: Sequence[Split], task: Task) -> list[Done]:
    """By Spark's workers; without a context in this process, one after the other."""
    if not splits:
        return []
    if context is None:
        return [match_split(split, task) for split in splits]
    count = task_count(len(splits), context.defaultParallelism)
    tasks = context.parallelize(task.sharing.placed(splits), count)
    return tasks.map(lambda one: _in_worker(one.here(), task)).collect()


def _in_worker(split: Split, task: Task) -> Done:
    done = match_split(split, task)
    keep_for_good()
    return done


@lru_cache(maxsize=1)  # once per process
def keep_for_good() -> None:
    """Modules and compiled kernels stay as long as the worker. PySpark collects garbage after every
    task, and looking through them each time takes ten times as long as matching a small split."""
    gc.collect()
    gc.freeze()


def task_count(pieces: int, cores: int) -> int:
    """One task per split, unless they are so few that starting tasks would take longer: a small
    input is cut into small splits, of which each core then does its share in one task."""
    return pieces if pieces > cores * FEW_SPLITS_PER_CORE else min(pieces, cores)


def repeated_rows(
    context: SparkContext, splits: Sequence[Split], task: Task
) -> Mapping[int, Int64Array]:
    """By split the rows whose event id occurred before, in the order of the input."""
    suspects = _suspects(splits, Path(task.staging))
    if not suspects:
        return {}
    chosen = [split for split in splits if split.number in suspects]
    schema = task.notify.schema

    def identify(split: Split) -> list[tuple[str, int, int]]:
        wanted = suspects[split.number]
        found = []
        for batch in read_split(split, schema):
            for at in np.flatnonzero(np.isin(identity_hashes(batch.ids), wanted)).tolist():
                found.append((batch.ids[at].as_py(), split.number, int(batch.rows[at])))
        return found

    listed = context.parallelize(chosen, len(chosen)).flatMap(identify).collect()
    seen: set[str] = set()
    repeated: dict[int, list[int]] = defaultdict(list)
    for text, split, row in sorted(listed, key=lambda one: one[1:]):
        if text in seen:
            repeated[split].append(row)
        seen.add(text)
    return {split: np.array(rows, np.int64) for split, rows in repeated.items()}


def _suspects(splits: Sequence[Split], staging: Path) -> dict[int, npt.NDArray[np.uint64]]:
    """By split the hashes that occur more than once anywhere. Hashes may collide; ids decide."""
    files = {split.number: identity_file(staging, split.number) for split in splits}
    arrays = {number: np.load(path) for number, path in files.items() if path.exists()}
    if not arrays:
        return {}
    everything = np.sort(np.concatenate(list(arrays.values())))
    twice = np.unique(everything[1:][everything[1:] == everything[:-1]])
    if not twice.size:
        return {}
    found = {number: array[np.isin(array, twice)] for number, array in arrays.items()}
    return {number: array for number, array in found.items() if array.size}


def merged(done: Sequence[Done]) -> Done:
    """The sums over all splits."""
    total = Done(-1, 0, 0, 0, 0, 0)
    for one in done:
        total = replace(
            total,
            events=total.events + one.events,
            rejected=total.rejected + one.rejected,
            repeated=total.repeated + one.repeated,
            notifications=total.notifications + one.notifications,
            matched_events=total.matched_events + one.matched_events,
            outside=total.outside + one.outside,
            latest=later(total.latest, one.latest),
        )
    return total
