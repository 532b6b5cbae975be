"""Run the benchmarks: `python -m bench.run [--quick] [--only PART]`.

Exit code 1 if a task failed or two sides disagree; a missed target is shown, not an error, because
a busy machine misses targets too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import report
from bench.child import RESULT
from bench.figures import FIGURES, TASKS, AnswersDiffer, Row
from bench.measure import thread_limits
from bench.plot import plot_growth

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
FIGURES_FOLDER = ROOT / "docs" / "figures"
PAGE = ROOT / "docs" / "performance.md"
WAITING_MAX = 1.15  # wall-clock over processor time; more means that others had our core
TASK_SECONDS_MAX = 900  # a task that takes longer is stuck


class TaskFailed(Exception):
    """The last line the task said."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description="figures and ratios")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work?")
    parser.add_argument("--only", default="", help="tasks whose name contains this, e.g. spark")
    parser.add_argument(
        "--again",
        nargs="+",
        default=[],
        metavar="TASK",
        help="these tasks, the others from the last whole run; name both sides of a ratio",
    )
    options = parser.parse_args()
    console = Console()
    names = [name for name in TASKS if options.only in name]
    if not names:
        parser.error(f"no task is named like {options.only!r}: {', '.join(TASKS)}")
    if unknown := set(options.again) - set(TASKS):
        parser.error(f"no task is named {', '.join(sorted(unknown))}: {', '.join(TASKS)}")
    size = "quick" if options.quick else "full"
    before = report.last_whole_run(RESULTS / "latest.json") if options.again else {}
    again = sorted({*before.get("again", ()), *options.again})
    results, failures = run_tasks(console, options.again or names, size)
    results = before.get("tasks", {}) | results
    rows = evaluate(results, failures)
    if options.quick:  # targets are stated for the full sizes
        rows = [replace(row, target="", met=None) for row in rows]
    report.show(console, rows)
    for name, reason in failures.items():
        console.print(f"[red]not measured:[/] {name}: {reason}", highlight=False)
    waited = waiting(results)
    if waited > WAITING_MAX:
        console.print(
            f"[yellow]the machine was busy:[/] one-core tasks took {waited:.1f}× their processor "
            "time; run again when it is idle before believing a missed target"
        )
    if options.quick:
        console.print("small sizes: ratios grow with the sizes; targets are those of `make bench`")
    whole = size == "full" and not options.only and not failures
    saved = RESULTS / ("latest.json" if whole else "partial.json")
    report.write(saved, report.as_json(rows, results, size, failures, again))
    console.print(f"numbers: {saved.relative_to(ROOT)}")
    if whole:  # the documentation shows only complete runs
        plot_growth(results["tasks.w1"]["curve"], FIGURES_FOLDER)
        report.write(PAGE, report.as_page(rows, results, again=again))
        console.print(f"page: {PAGE.relative_to(ROOT)}")
    sys.exit(1 if failures else 0)


def run_tasks(
    console: Console, names: list[str], size: str
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    results: dict[str, dict[str, Any]] = {}
    failures: dict[str, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        shown = progress.add_task("", total=len(names))
        for name in names:
            progress.update(shown, description=f"{name} ({TASKS[name]} cores)")
            try:
                results[name] = run_task(name, size, TASKS[name])
            except TaskFailed as failure:
                failures[name] = str(failure)
            progress.advance(shown)
    return results, failures


def run_task(name: str, size: str, cores: int) -> dict[str, Any]:
    """In a process of its own, so that no task inherits another's memory, threads or caches."""
    command = [sys.executable, "-m", "bench.child", name, size, str(cores)]
    environment = {**os.environ, **thread_limits(cores)}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TASK_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise TaskFailed(f"took more than {TASK_SECONDS_MAX} s") from expired
    found = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
    if done.returncode or not found:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()
        raise TaskFailed(said[-1].replace(str(ROOT), "."))
    result: dict[str, Any] = json.loads(found[-1][len(RESULT) :])
    return result


def waiting(results: dict[str, dict[str, Any]]) -> float:
    """Wall-clock over processor time of the one-core tasks: 1 on an idle machine."""
    wall = processor = 0.0
    pending: list[Any] = [result for result in results.values() if result["cores"] == 1]
    while pending:
        match pending.pop():
            case {"seconds": float(seconds), "processor_seconds": float(used)}:
                wall, processor = wall + seconds, processor + used
            case dict() as inner:
                pending += inner.values()
            case list() as several:
                pending += several
    return wall / processor if processor else 1.0


def evaluate(results: dict[str, dict[str, Any]], failures: dict[str, str]) -> list[Row]:
    """The rows; where two sides disagree there is none, and it is a failure."""
    rows: list[Row] = []
    for needs, figure in FIGURES:
        if all(name in results for name in needs):
            try:
                rows += figure(*(results[name] for name in needs))
            except AnswersDiffer as differ:
                failures[" and ".join(needs)] = str(differ)
    return rows


if __name__ == "__main__":
    main()
