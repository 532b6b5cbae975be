"""What a stream's processes use, looked at once a second; and how much of the cores others took."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import TICKS, family_of, processes

_IDLE = slice(3, 5)  # of the counters in /proc/stat: idle, and waiting for a disk


@dataclass(frozen=True)
class Sample:
    at: float
    resident: int  # bytes of the side and all its descendants; pages they share count for each
    java: int  # of these, in Java processes
    ours: float  # processor seconds of the benchmark and all its descendants, so far
    everybody: float  # of all processes of the machine


def look(side: int) -> Sample:
    running = processes()
    family, whole = family_of(side, running), family_of(os.getpid(), running)
    return Sample(
        time.time(),
        sum(one.resident for one in family),
        sum(one.resident for one in family if one.is_java),
        sum(one.seconds for one in whole),
        _everybody(),
    )


def _everybody() -> float:
    counters = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(counters) - sum(counters[_IDLE])) / TICKS


def disturbance(samples: list[Sample], since: float = 0.0) -> float:
    """The share of the cores that went to processes which are none of ours."""
    late = [one for one in samples if one.at >= since]
    if len(late) < 2:
        return 0.0
    first, last = late[0], late[-1]
    others = (last.everybody - first.everybody) - (last.ours - first.ours)
    return round(max(0.0, others) / ((last.at - first.at) * (os.cpu_count() or 1)), 3)


def thirds(samples: list[Sample], since: float) -> dict[str, Any]:
    """Mean resident memory in the first and the last third of what was measured.

    A JVM reserves its heap at once and touches it bit by bit, so Python's part stands apart.
    """
    late = [one for one in samples if one.at >= since]
    part = len(late) // 3
    if not part:
        return {}
    first, last = late[:part], late[-part:]
    return {
        "first_third": round(_mean(first)),
        "last_third": round(_mean(last)),
        "growth": round(_mean(last) / _mean(first), 4),
        "growth_of_python": round(_mean(last, java=False) / _mean(first, java=False), 4),
        "peak": max(one.resident for one in late),
    }


def _mean(some: list[Sample], *, java: bool = True) -> float:
    return sum(one.resident - (0 if java else one.java) for one in some) / len(some)
