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
