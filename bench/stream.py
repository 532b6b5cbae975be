"""Streams, measured: `python -m bench.stream [--quick] [--only PART | --again PART]`.

Parts: steady (latency, against joins), default, window, kafka (beside it), rate, changes, backlog.
Exit code 1 if a part failed or notifications are missing; a missed target is shown, not an error,
because a busy machine misses targets too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import report
from bench.streamkafka import through_kafka
from bench.streamload import Given
from bench.streampage import page, plot, rows_of
from bench.streamparts import SOON_MS, WINDOW_MS, backlog, changes, steady, steady_as_it_can
from bench.streamrate import held_rate
from bench.streamrun import ROOT, SideFailed
from bench.streamsizes import FULL, QUICK, StreamSizes

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "streaming-performance.md"
FIGURES = ROOT / "docs" / "figures"
DISTURBED = 0.05  # of the cores
BUSY = 0.7  # processes that want a core before we begin
Part = Callable[[Path], dict[str, Any]]


def parts(given: Given, sizes: StreamSizes, say: Callable[[str], None]) -> dict[str, Part]:
    """Name → what it does in a folder of its own; the name before the dot is what --only means."""
    beside = sizes.beside_seconds
    first = sizes.rate
    whole = sizes.steady_seconds
    soon = {"trigger_ms": SOON_MS}
    window = {**soon, "duplicate_window_ms": WINDOW_MS}

    def join(at: Path, seconds: float, **settings: Any) -> dict[str, Any]:
        return steady_as_it_can(at, given, sizes, "join", seconds, say, **settings)

    return {
        "steady.ours": lambda at: steady(at, given, sizes, "ours", whole, **soon),
        "steady.join": lambda at: join(at, whole, **soon),
        "steady.plain_join": lambda at: join(at, beside, plain=True, **soon),
        "default.default_ours": lambda at: steady(at, given, sizes, "ours", beside),
        "default.default_join": lambda at: join(at, beside),
        "window": lambda at: steady(at, given, sizes, "ours", beside, **window),
        "kafka": lambda at: through_kafka(at, given, sizes, beside),
        "rate.held_join": lambda at: held_rate(at, given, sizes, "join", first, say),
        "rate.held_ours": lambda at: held_rate(at, given, sizes, "ours", 4 * first, say),
        "changes": lambda at: changes(at, given, sizes),
        "backlog.window_on": lambda at: backlog(at, given, sizes, WINDOW_MS),
        "backlog.window_off": lambda at: backlog(at, given, sizes, 0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-stream", description="figures and ratios")
    parser.add_argument("--quick", action="store_true", help="short and small: does it work?")
    parser.add_argument("--only", default="", help="parts whose name begins so, e.g. steady")
    parser.add_argument(
        "--again",
        nargs="+",
        default=[],
        metavar="PART",
        help="these parts; all others are taken from the last whole run",
    )
    parser.add_argument("--minutes", type=float, help="of the latency figures (5)")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    if options.minutes is not None:
        sizes = replace(sizes, steady_seconds=60 * options.minutes)
    console = Console()
    busy = os.getloadavg()[0]
    if busy > BUSY:
        console.print(f"[yellow]the machine is busy:[/] {busy:.1f} processes want its cores")
    with tempfile.TemporaryDirectory(prefix="crossroads-bench-") as scratch:
        given = Given.write(Path(scratch, "given"), sizes.subscriptions)
        chosen = {
            name: part
            for name, part in parts(given, sizes, lambda text: console.print("  " + text)).items()
            if name.startswith(tuple(options.again) or options.only)
        }
        if not chosen:
            parser.error(f"no part begins with {options.again or options.only}")
        before = report.last_whole_run(RESULTS / "stream.json") if options.again else {}
        found, failures = run(console, chosen, Path(scratch))
    whole = not options.quick and not options.only and not failures
    again = sorted({*before.get("again", ()), *chosen}) if options.again else []
    found = before.get("parts", {}) | found
    finish(console, found, failures, sizes, whole=whole, again=again)
    sys.exit(1 if failures else 0)


def run(
    console: Console, chosen: dict[str, Part], scratch: Path
) -> tuple[dict[str, Any], dict[str, str]]:
    found: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for name, part in chosen.items():
        folder = scratch / name
        console.print(f"{time.strftime('%H:%M:%S')} {name}")
        try:
            result = part(folder)
        except SideFailed as failure:
            failures[name] = str(failure)
            continue
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if result.get("complete") is False:
            failures[name] = _missing(result)
        found[name.rpartition(".")[2]] = result
    return found, failures


def _missing(result: dict[str, Any]) -> str:
    if "expected" in result:
        return f"{result['notifications']:,} notifications instead of {result['expected']:,}"
    return "not all events were taken"


def finish(
    console: Console,
    found: dict[str, Any],
    failures: dict[str, str],
    sizes: StreamSizes,
    *,
    whole: bool,
    again: list[str],
) -> None:
    rows = list(rows_of(found))
    if not whole:  # targets are stated for the whole run
        rows = [replace(row, target="", met=None) for row in rows]
    report.show(console, rows)
    for name, one in found.items():
        if one.get("disturbance", 0.0) > DISTURBED:
            console.print(
                f"[yellow]disturbed:[/] {name}: others had {one['disturbance']:.0%} of the cores; "
                "run again when the machine is idle before believing it"
            )
    for name, reason in failures.items():
        console.print(f"[red]failed:[/] {name}: {reason}", highlight=False)
    saved = RESULTS / ("stream.json" if whole else "stream-partial.json")
    content = {
        "sizes": asdict(sizes),
        "figures": [asdict(row) for row in rows],
        "failures": failures,
        "again": again,
        "parts": found,
    }
    report.write(saved, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    console.print(f"numbers: {saved.relative_to(ROOT)}")
    if whole:  # the documentation shows only complete runs
        plot(found, FIGURES)
        report.write(PAGE, page(rows, found, sizes, again))
        console.print(f"page: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
