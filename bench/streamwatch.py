"""What a stream's processes use, looked at once a second; and how much of the cores others took."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")  # per second
_IDLE = slice(3, 5)  # of the counters in /proc/stat: idle, and waiting for a disk


@dataclass(frozen=True)
class Sample:
    at: float
    resident: int  # bytes of the side and all its descendants; pages they share count for each
    java: int  # of these, in Java processes
    ours: float  # processor seconds of the benchmark and all its descendants, so far
    everybody: float  # of all processes of the machine


@dataclass(frozen=True)
class _Process:
    parent: int
    is_java: bool
    resident: int
    seconds: float  # its own and those of children that have ended


def look(side: int) -> Sample:
    processes = _processes()
    family, whole = _family(processes, side), _family(processes, os.getpid())
    return Sample(
        time.time(),
        sum(one.resident for one in family),
        sum(one.resident for one in family if one.is_java),
        sum(one.seconds for one in whole),
        _everybody(),
    )


def _processes() -> dict[int, _Process]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        fields = rest.split()  # from the third field of proc(5) on
        found[int(entry.name)] = _Process(
            parent=int(fields[1]),
            is_java=name.endswith("(java"),
            resident=int(fields[21]) * _PAGE,
            seconds=sum(map(int, fields[11:15])) / _TICKS,
        )
    return found


def _family(processes: dict[int, _Process], root: int) -> list[_Process]:
    family, more = {root}, True
    while more:
        grown = {child for child, one in processes.items() if one.parent in family} - family
        family, more = family | grown, bool(grown)
    return [processes[one] for one in family if one in processes]


def _everybody() -> float:
    counters = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(counters) - sum(counters[_IDLE])) / _TICKS


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
