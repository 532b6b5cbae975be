"""Timing: a few runs, the median; and processes that keep to their cores."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

RUNS = 3
LONG_SECONDS = 30.0  # what takes longer is steady enough to be run once
# The JVM compiles what a driver does only after it has done it a dozen times. Of a job shorter than
# this that would be most of what is measured, so such a job is warmed up and then run more often;
# and so is the rival that it is compared with.
SHORT_SECONDS, WARM_RUNS, SHORT_RUNS = 2.0, 10, 9
FIRST_TIMES = 3.0  # a first run takes up to so many times as long as those after it


@dataclass(frozen=True)
class Times:
    """Figures are wall-clock; processor time tells how much of it was spent waiting for a core."""

    seconds: list[float]
    processor: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.median, 5),
            "seconds_least": round(min(self.seconds), 5),
            "processor_seconds": round(statistics.median(self.processor), 5),
            "runs": len(self.seconds),
        }


def timed(function: Callable[[], T], runs: int = RUNS) -> tuple[Times, T]:
    """Wall-clock seconds of each run, and what the last one returned."""
    seconds: list[float] = []
    processor: list[float] = []
    while True:
        started, used = time.perf_counter(), time.process_time()
        result = function()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
        if len(seconds) >= runs or seconds[0] > LONG_SECONDS:
            return Times(seconds, processor), result
        del result  # two large results at once would measure the allocator


def repeated(run: Callable[[], T], seconds_of: Callable[[T], float]) -> list[T]:
    """What the runs that count returned: a few of what takes long, more of what is short."""
    found = [run()]
    if seconds_of(found[0]) < FIRST_TIMES * SHORT_SECONDS:
        found = [run()]  # the first one says little of the others
    if seconds_of(found[0]) < SHORT_SECONDS:
        for _ in range(WARM_RUNS):
            run()
        return [run() for _ in range(SHORT_RUNS)]
    while len(found) < RUNS and seconds_of(found[0]) <= LONG_SECONDS:
        found.append(run())
    return found


def timed_warm(function: Callable[[], T]) -> tuple[Times, T]:
    """`timed`, of runs that are `repeated`."""
    found = repeated(lambda: timed(function, 1), lambda one: one[0].median)
    times = Times([one.median for one, _ in found], [one.processor[0] for one, _ in found])
    return times, found[-1][1]


def thread_limits(cores: int) -> dict[str, str]:
    """Environment of a process that may use `cores` cores; libraries read it when imported."""
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS")
    return {name: str(cores) for name in names}


def keep_to_cores(cores: int) -> int:
    """Pin this process; the number of cores it really has."""
    if not hasattr(os, "sched_setaffinity"):  # macOS: the limits on threads have to do
        return min(cores, os.cpu_count() or 1)
    usable = sorted(os.sched_getaffinity(0))[-cores:]
    os.sched_setaffinity(0, usable)
    return len(usable)
