"""How the figures are shown: a table on the terminal, JSON, and a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figures import Results, Row, big
from bench.plot import NAME

LIBRARIES = ("duckdb", "numba", "numpy", "polars", "pyarrow", "pyspark")

PAGE_HEAD = """\
# Performance

Written by `make bench`; do not edit. Ratios say how many times faster Crossroads is than the rival
in the same run, on the same cores, after both found the same number of matches. Seconds are
medians of three runs (one run where it takes over half a minute). Compare ratios, not seconds.

W1: four integer attributes, a range of 1..3% on each. W2: stock quotes, five templates of
subscriptions, 3,000 symbols. Mixed: shop offers with every kind of predicate, patterns among them.
Rivals get their subscriptions as typed columns; in the figures on Spark, ours are typed once from
text, which is not part of "build" and is listed in `bench/results/latest.json`. The match job looks
for repeated event ids and the rivals do not: where it says nothing else, that is switched off for
W1 against Polars and for plan sql (`--keep-duplicates`), and on everywhere else.
"""


def show(console: Console, rows: Sequence[Row]) -> None:
    table = Table(title="Crossroads: figures and ratios of this run", title_justify="left")
    for name in ("figure", "cores", "ours", "rival", "ratio", "target", "met"):
        table.add_column(name, justify="right" if name in ("cores", "ratio") else "left")
    for row in rows:
        met = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[row.met]
        table.add_row(*_cells(row)[:-1], met)
    console.print(table)


def last_whole_run(saved: Path) -> dict[str, Any]:
    """What it saved, for a run that measures some of it again."""
    try:
        found: dict[str, Any] = json.loads(saved.read_text())
    except FileNotFoundError:
        raise SystemExit(f"{saved.name} is not there: a whole run comes first") from None
    return found


def as_json(
    rows: Sequence[Row],
    results: Results,
    size: str,
    failures: Mapping[str, str],
    again: Sequence[str],
) -> str:
    content: dict[str, Any] = {
        "size": size,
        "versions": {name: version(name) for name in LIBRARIES},
        "figures": [asdict(row) for row in rows],
        "failures": dict(failures),
        "again": list(again),
        "tasks": dict(results),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_page(rows: Sequence[Row], results: Results, *, again: Sequence[str] = ()) -> str:
    more = [f"Measured again after the whole run: {', '.join(again)}.", ""] if again else []
    lines = [PAGE_HEAD, *more, "| figure | cores | ours | rival | ratio | target | met |"]
    lines.append("|---|---:|---|---|---:|---|---|")
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    if "tasks.w1" in results:
        lines += ["", "## Time per event and the number of subscriptions (W1, one core)", ""]
        lines += [f"![nanoseconds per event against subscriptions](figures/{NAME}.svg)", ""]
        lines += ["| subscriptions | ns per event | events/s | build, s | bytes each |"]
        lines += ["|---:|---:|---:|---:|---:|"]
        for point in results["tasks.w1"]["curve"]:
            lines.append(
                f"| {point['subscriptions']:,} | {point['ns_per_event']:.0f} "
                f"| {big(point['events_per_second'])} | {point['build']['seconds']:.2f} "
                f"| {point['bytes_per_subscription']:.0f} |"
            )
    used = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return "\n".join([*lines, "", f"Measured with {used}.", ""])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _cells(row: Row) -> list[str]:
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}×"
    met = {True: "yes", False: "no", None: ""}[row.met]
    return [row.figure, str(row.cores), row.ours, row.rival, ratio, row.target, met]
