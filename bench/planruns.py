"""Match jobs in a process of their own, which can be stopped.

Spark does not really stop a task that is deep in a loop: cancelled, it would go on beside the next
plan and slow it down. So a plan that takes too long is ended with its whole process, and the next
one starts a new Spark. A plan is warmed up on a small input in every process before it is timed:
the JVM compiles what it does often, and nobody should pay for it because he came first.

Beside each run stands how much of the machine others used meanwhile (Linux only): a run that was
disturbed says little.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULT = "RESULT "  # marks the line; libraries may print before it
START_SECONDS_MAX = 600.0  # for Spark and the small runs
WARM_RUNS = 2


class Stopped(Exception):
    """It took longer than allowed."""


class Failed(Exception):
    """One line of what went wrong."""


@dataclass(frozen=True)
class Job:
    folder: str  # of the workload
    plan: str
    mapping: str | None
    cells: int | None


class Runner:
    """`run` gives the summary of a job, or raises `Stopped` or `Failed`."""

    def __init__(self, warm_up_on: Path) -> None:
        self.small = str(warm_up_on)
        self.process: subprocess.Popen[str] | None = None
        self.answers: queue.Queue[str] = queue.Queue()
        self.warm: set[str] = set()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, job: Job, limit: float, *, warm: bool = True) -> dict[str, Any]:
        if warm and job.plan not in self.warm:
            for _ in range(WARM_RUNS):
                self._asked(Job(self.small, job.plan, job.mapping, None), START_SECONDS_MAX)
            self.warm.add(job.plan)
        elif self.process is None:
            self._asked(Job(self.small, "direct", None, None), START_SECONDS_MAX)  # starts Spark
        begun, busy, ours = time.perf_counter(), _busy_seconds(), self._seconds()
        summary = self._asked(job, limit)
        others = (_busy_seconds() - busy) - (self._seconds() - ours)
        took = (time.perf_counter() - begun) * (os.cpu_count() or 1)
        return {**summary, "disturbed": round(max(0.0, others) / took, 3)}

    def stop(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)  # the JVM too; its workers follow it
            self.process.wait()
            self.process, self.warm = None, set()

    def _asked(self, job: Job, limit: float) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(job)) + "\n")
        process.stdin.flush()
        try:
            answer: dict[str, Any] = json.loads(self.answers.get(timeout=limit))
        except queue.Empty:
            self.stop()
            raise Stopped from None
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def _seconds(self) -> float:
        """Of all processors, that its processes have used."""
        assert self.process is not None
        total = 0
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                told = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(told[3]) == self.process.pid:  # its session
                    total += sum(map(int, told[11:15]))
        return total / os.sysconf("SC_CLK_TCK")

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench.planruns"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            self.answers = queue.Queue()
            threading.Thread(target=_listen, args=(self.process, self.answers), daemon=True).start()
        return self.process


def _listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(RESULT):
            answers.put(line.removeprefix(RESULT))
    answers.put(json.dumps({"error": "the process has ended"}))


def _busy_seconds() -> float:
    """Of all processors, since the machine started."""
    with suppress(OSError):
        used = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        idle = int(used[3]) + int(used[4])
        return (sum(map(int, used[:8])) - idle) / os.sysconf("SC_CLK_TCK")
    return 0.0


# -- in the other process --------------------------------------------------------------------------


def _job(job: Job) -> dict[str, Any]:
    from crossroads.errors import CrossroadsError
    from crossroads.pipeline.indexed import scratch_folder
    from crossroads.pipeline.job import MatchRequest, run_match

    folder = Path(job.folder)
    for store in scratch_folder().glob("store-*"):
        shutil.rmtree(store)  # plan keyed builds once per application: here, once per run
    with tempfile.TemporaryDirectory(dir=folder.parent) as out:
        request = MatchRequest(
            schema=folder / "schema.toml",
            subscriptions=folder / "subscriptions.parquet",
            events=folder / "events.parquet",
            output=Path(out, "out"),
            plan=job.plan,  # type: ignore[arg-type]
            mapping=job.mapping,
            cells=job.cells,
        )
        try:
            return run_match(request)
        except CrossroadsError as error:
            return {"error": error.message}


def main() -> None:
    from crossroads.pipeline.session import spark_session

    spark_session()
    for line in sys.stdin:
        print(RESULT + json.dumps(_job(Job(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
