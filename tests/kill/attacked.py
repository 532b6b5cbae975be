"""A stream's process, its checkpoint as it looks from outside, and ways to kill parts of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("driver.py")
END_SECONDS_MAX = 600.0  # for a driver whose JVM is gone, on a busy machine
# Started often and for little: a compiler that does not try hard, one thread that collects.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
VICTIMS = ("driver", "java", "worker", "daemon")
FATAL = ("driver", "java")  # the stream ends with them; the others it must survive


class Attacked:
    """One life of the stream: from a start to an end, ours or its own."""

    def __init__(self, settings: Mapping[str, Any], log: Path) -> None:
        path = log.with_suffix(".json")
        path.write_text(json.dumps(settings, default=str))
        self.log = log
        self.started_ns = time.time_ns()
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), str(path)],
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                    "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
                },
            )

    def ended(self) -> int | None:
        return self.process.poll()

    def find(self, victim: str) -> tuple[str, int] | None:
        """Who would die, and its number. Workers outlive their daemon, and there is a new one only
        when there is need for more of them: until then it is a worker."""
        if victim == "driver":
            return victim, self.process.pid
        every = self._processes()
        java = [n for n, (_, line) in every.items() if "SparkSubmit" in line]
        if victim == "java":
            return (victim, java[0]) if java else None
        python = {n: parent for n, (parent, line) in every.items() if "pyspark.daemon" in line}
        daemons = [n for n, parent in python.items() if parent in java]
        if victim == "daemon" and daemons:
            return victim, daemons[0]
        return next((("worker", n) for n in python if n not in daemons), None)

    def kill(self, victim: str) -> str | None:
        """Who it was; None if there was nobody."""
        found = self.find(victim)
        if found is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[1], signal.SIGKILL)
        return found[0]

    def await_end(self) -> int:
        return self.process.wait(END_SECONDS_MAX)

    def stop(self) -> None:
        """Whatever is left of it, and nothing else."""
        for number in self._processes():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-2_000:]

    def _processes(self) -> dict[int, tuple[int, str]]:
        """All living ones of its session, also when the driver is gone: parent and command."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                state, parent, session = stat[0], int(stat[1]), int(stat[3])
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if session == self.process.pid and state != "Z":
                    found[int(entry.name)] = (parent, command)
        return found


# -- the checkpoint from outside -------------------------------------------------------------------

BETWEEN = "between batches"
PLANNED = "planned"  # recorded, nothing matched
MATCHING = "matching"  # parts are being written
SINK = "at the sink"  # the outcome is known, delivery under way
DELIVERED = "delivered"  # and Spark does not know yet
STARTING = "starting"
POINTS = (STARTING, BETWEEN, PLANNED, MATCHING, SINK, DELIVERED)


@dataclass
class Looking:
    """At what the batch at work has come to, from files alone."""

    checkpoint: Path
    newest: int = -1  # batch that has a record

    def look(self) -> None:
        while self._record(self.newest + 1).exists():
            self.newest += 1

    def state(self) -> str:
        """Of the newest batch."""
        self.look()
        if self.newest < 0 or self._committed(self.newest):
            return BETWEEN
        if self._done(self.newest).exists():
            return SINK if self._staging.exists() else DELIVERED
        return MATCHING if self._parts_since(0) else PLANNED

    def worked_since(self, since_ns: int) -> bool:
        """Whether anything was done for a batch."""
        return (
            _written_since(self._record(self.newest), since_ns)
            or _written_since(self._done(self.newest), since_ns)
            or self._parts_since(since_ns)
        )

    def reached(self, point: str, since_ns: int) -> bool:
        """Whether the batch at work is there; what a life before left behind does not count."""
        self.look()
        finished = _written_since(self._done(self.newest), since_ns)
        if point == PLANNED:
            return _written_since(self._record(self.newest), since_ns) and not finished
        if point == MATCHING:
            return self._parts_since(since_ns)
        if point == SINK:
            return finished
        committed = self._committed(self.newest)
        if point == DELIVERED:
            return finished and not committed and not self._staging.exists()
        return finished and committed

    @property
    def _staging(self) -> Path:
        return self.checkpoint / "scratch" / "staging"

    def _record(self, batch: int) -> Path:
        return self.checkpoint / "batches" / f"{batch:09d}.json"

    def _done(self, batch: int) -> Path:
        return self.checkpoint / "batches" / f"{batch:09d}.done.json"

    def _committed(self, batch: int) -> bool:
        return (self.checkpoint / "spark" / "commits" / str(batch)).exists()

    def _parts_since(self, since_ns: int) -> bool:
        with contextlib.suppress(OSError), os.scandir(self._staging / "notifications") as parts:
            return any(part.stat().st_mtime_ns >= since_ns for part in parts)
        return False


def _written_since(path: Path, since_ns: int) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns >= since_ns
    return False
