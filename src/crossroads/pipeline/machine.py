"""What this process may use of the machine: cores and memory, also inside a container."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
SPARE_SHARE = 0.5  # of what is free, for an index: the rest is for Spark, the events, the answer


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores this process may run on: its affinity, and the quota of its container."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:  # macOS
        allowed = os.cpu_count() or 1
    quota = _cpu_quota(cgroup)
    return max(1, min(allowed, quota)) if quota is not None else max(1, allowed)


def _cpu_quota(cgroup: Path) -> int | None:
    limit = _words(cgroup / "cpu.max")  # cgroup v2: "200000 100000" or "max 100000"
    if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit() and int(limit[1]) > 0:
        return -(-int(limit[0]) // int(limit[1]))  # a started core counts, as in the JVM
    return None


def available_memory(cgroup: Path = CGROUP, meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that can be taken without swapping, or all memory where only that is known."""
    available = _meminfo_available(meminfo)
    if available is None:
        available = total_memory()
    limit = _words(cgroup / "memory.max")
    used = _words(cgroup / "memory.current")
    if limit and limit[0].isdigit() and used and used[0].isdigit():
        # Page cache counts as used by the container, yet is given back on demand.
        cache = _memory_stat(cgroup / "memory.stat", "inactive_file")
        available = min(available, max(0, int(limit[0]) - int(used[0]) + cache))
    return available


def spare_memory() -> int:
    """Bytes that a run may take for an index."""
    return int(available_memory() * SPARE_SHARE)


def total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _meminfo_available(meminfo: Path) -> int | None:
    words = _words(meminfo)
    if "MemAvailable:" not in words:
        return None
    return int(words[words.index("MemAvailable:") + 1]) * 1024  # the kernel counts in KiB


def _memory_stat(path: Path, name: str) -> int:
    words = _words(path)
    return int(words[words.index(name) + 1]) if name in words else 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []  # another system, or a kernel without this file
