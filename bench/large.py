"""Many subscriptions on one machine: how time and memory grow with their number.

    python -m bench.large [--quick]      (make bench-large; a quarter of an hour)

Each run is the command that a user would type, in a process of its own, W1 from Parquet to Parquet
with the filters as text. Peak memory is that of the command and all its descendants, looked at
four times a second. Writes docs/large.md.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import family_of, held_by, processes
from bench.sizes import SEED
from crossroads.lab.workloads import Written, uniform, write_workload
from crossroads.pipeline.machine import usable_cores

PAGE = Path(__file__).resolve().parent.parent / "docs" / "large.md"
COMMAND = Path(sys.executable).with_name("crossroads")
EVENTS = 1_000_000
SUBSCRIPTIONS = (1_000_000, 3_000_000, 10_000_000)
QUICK = 0.02  # share of the full sizes
LOOK_SECONDS = 0.25
MEMORY_MAX = 16 << 30  # bytes

AUTO, BUILT, REUSED = "auto", "keyed, store empty", "keyed, index in its store"

HEAD = """\
# Many subscriptions on one machine

Written by `make bench-large`; do not edit. W1 (four integer attributes, a range of 1..3% on each),
{events:,} events, from Parquet to Parquet, filters as text. Seconds are wall-clock time of the
whole command, start of Python and Spark included, on {cores} cores. Memory is the highest that the
command and all its processes held at a time; pages that they share count once.

| subscriptions | run | plan | seconds | memory, GiB | notifications |
|---:|---|---|---:|---:|---:|
"""


@dataclass(frozen=True)
class Run:
    subscriptions: int
    name: str
    plan: str
    seconds: float
    memory: int  # bytes, at most
    notifications: int

    def row(self) -> str:
        return (
            f"| {self.subscriptions:,} | {self.name} | {self.plan} | {self.seconds:.1f} "
            f"| {self.memory / (1 << 30):.1f} | {self.notifications:,} |"
        )


def measure(count: int, events: int) -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = write_workload(uniform(SEED, events, count), folder / "in")
        stored = ("--plan", "keyed", "--index-store", str(folder / "store"))
        for name, options in ((AUTO, ()), (BUILT, stored), (REUSED, stored)):
            yield _run(name, count, files, folder / "out", options)


def _run(name: str, count: int, files: Written, output: Path, options: tuple[str, ...]) -> Run:
    given = {"schema": files.schema, "subscriptions": files.subscriptions, "events": files.events}
    command = [str(COMMAND), "match", "--output", str(output)]
    for option, path in given.items():
        command += [f"--{option}", str(path)]
    started, peak = time.perf_counter(), 0
    said = output.with_name("said.txt")
    with said.open("w") as errors:
        process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=errors)
    while process.poll() is None:
        peak = max(peak, held_by(family_of(process.pid, processes())))
        time.sleep(LOOK_SECONDS)
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise SystemExit(f"{name}, {count:,} subscriptions: {said.read_text().strip()}")
    summary = json.loads((output / "summary.json").read_text())
    told = summary["counts"]["notifications"]
    return Run(count, name, summary["plan"], seconds, peak, told)


def page(runs: list[Run], events: int) -> str:
    return (
        HEAD.format(events=events, cores=usable_cores())
        + "\n".join(one.row() for one in runs)
        + "\n\n"
        + "\n".join(_growth(runs, name) for name in (AUTO, BUILT, REUSED))
        + f"\n\nMost memory of all runs: {max(one.memory for one in runs) / (1 << 30):.1f} GiB "
        + f"(≤ {MEMORY_MAX >> 30} GiB).\n"
    )


def _growth(runs: list[Run], name: str) -> str:
    """From the least to the most subscriptions."""
    first, *_, last = [one for one in runs if one.name == name]
    more = last.subscriptions / first.subscriptions
    longer = last.seconds / first.seconds
    return (
        f"- {name}: {more:.0f} times the subscriptions take {longer:.1f} times as long, "
        f"S^{math.log(longer) / math.log(more):.2f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-large")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the sizes, no page")
    options = parser.parse_args()
    scale = QUICK if options.quick else 1.0
    events, runs = int(EVENTS * scale), []
    for count in SUBSCRIPTIONS:
        for one in measure(int(count * scale), events):
            print(one.row(), flush=True)
            runs.append(one)
        if len({one.notifications for one in runs if one.subscriptions == int(count * scale)}) > 1:
            raise SystemExit(f"{count:,} subscriptions: the runs disagree")
    text = page(runs, events)
    if not options.quick:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
