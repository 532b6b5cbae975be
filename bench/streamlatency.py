"""How long after its arrival a file's notifications were there to be read; from what is on disk.

Both sides read with Spark's file source, whose log says which file came in which batch. A file
arrives when it is renamed into the folder (the feeder's log). A batch is there to be read when its
folder (ours), its entry in the sink's log (Spark's file sink) or its mark of success appears:
each is a rename or the last write, whose time the file system keeps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

Output = Literal["ours", "files", "batches"]


@dataclass(frozen=True)
class Arrival:
    file: str
    at: float  # seconds since 1970
    events: int


@dataclass(frozen=True)
class Told:
    """A file whose notifications are out."""

    arrival: Arrival
    batch: int
    visible: float

    @property
    def seconds(self) -> float:
        return self.visible - self.arrival.at


def arrivals(log: Path) -> list[Arrival]:
    if not log.exists():
        return []
    return [Arrival(**json.loads(line)) for line in log.read_text().splitlines()]


def batches_of_files(spark_checkpoint: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in (spark_checkpoint / "sources" / "0").glob("[0-9]*"):
        try:
            lines = part.read_text().splitlines()[1:]  # after the version
        except FileNotFoundError:
            continue  # compacted meanwhile
        for entry in map(json.loads, lines):
            found[Path(entry["path"]).name] = int(entry["batchId"])
    return found


def visible_batches(output: Path, kind: Output) -> dict[int, float]:
    if kind == "files":
        return _committed(output / "_spark_metadata")
    if kind == "ours":
        named = {folder: folder for folder in (output / "notifications").glob("batch=*")}
    else:
        named = {mark.parent: mark for mark in output.glob("batch=*/_SUCCESS")}
    # Of a folder: when it was renamed, or when something was added. Nothing is.
    return {
        int(folder.name.removeprefix("batch=")): mark.stat().st_ctime
        for folder, mark in named.items()
    }


_seen: dict[Path, dict[int, float]] = {}


def _committed(log: Path) -> dict[int, float]:
    """Entries are deleted some time after they were compacted: those once seen are remembered."""
    known = _seen.setdefault(log, {})
    for entry in log.glob("[0-9]*"):
        batch = int(entry.name.removesuffix(".compact"))
        try:
            known.setdefault(batch, entry.stat().st_ctime)
        except FileNotFoundError:
            continue
    return known


def told(log: Path, spark_checkpoint: Path, output: Path, kind: Output) -> list[Told]:
    """All files that are out by now, in the order of their arrival."""
    visible, batches = visible_batches(output, kind), batches_of_files(spark_checkpoint)
    return [
        Told(one, batches[one.file], visible[batches[one.file]])
        for one in arrivals(log)
        if one.file in batches and batches[one.file] in visible
    ]


def percentiles(seconds: list[float]) -> dict[str, float]:
    """All files have as many events, so these are percentiles over events."""
    if not seconds:
        return {}
    p50, p99 = np.percentile(seconds, [50, 99])
    return {"p50": round(float(p50), 4), "p99": round(float(p99), 4), "max": round(max(seconds), 4)}


def rise(found: list[Told]) -> float:
    """By how much latency grows, in seconds per second: 0 while a rate is held."""
    if len(found) < 3:
        return 0.0
    at = np.array([one.arrival.at for one in found])
    return float(np.polyfit(at - at[0], [one.seconds for one in found], 1)[0])
