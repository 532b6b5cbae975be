"""Running processes as Linux tells of them: who started whom, what each uses."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")  # of processor time, per second
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    number: int
    parent: int
    is_java: bool
    resident: int
    seconds: float  # its own and those of children that have ended


def processes() -> dict[int, Process]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        fields = rest.split()  # from the third field of proc(5) on
        found[int(entry.name)] = Process(
            number=int(entry.name),
            parent=int(fields[1]),
            is_java=name.endswith("(java"),
            resident=int(fields[21]) * _PAGE,
            seconds=sum(map(int, fields[11:15])) / TICKS,
        )
    return found


def family_of(root: int, running: dict[int, Process]) -> list[Process]:
    """A process and all its descendants."""
    family, more = {root}, True
    while more:
        grown = {child for child, one in running.items() if one.parent in family} - family
        family, more = family | grown, bool(grown)
    return [running[one] for one in family if one in running]


def held_by(family: list[Process]) -> int:
    """Bytes of memory; a page that several of them share counts once."""
    kibibytes = 0
    for one in family:
        with suppress(OSError):  # it has ended
            for line in Path(f"/proc/{one.number}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kibibytes += int(line.split()[1])
    return kibibytes << 10
