"""`crossroads generate stocks|uniform|mixed`: seeded workloads of any size, ready to be matched."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from crossroads.lab.workloads import Workload, Written

PROGRESS_AFTER_SECONDS = 2.0  # what is done sooner needs no bar


class Format(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


Output = Annotated[Path, typer.Option("--output", help="Folder for the files; made if missing.")]
Events = Annotated[int, typer.Option("--events", help="How many events.")]
Subscriptions = Annotated[int, typer.Option("--subscriptions", help="How many subscriptions.")]
Seed = Annotated[int, typer.Option("--seed", help="Same seed and sizes, same bytes.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How the tables are written.")]
Gzip = Annotated[bool, typer.Option("--gzip", help="Compress CSV or JSON lines.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Make a workload: schema, events and subscriptions.", no_args_is_help=True
    )
    group.command("stocks")(stocks)
    group.command("uniform")(uniform)
    group.command("mixed")(mixed)
    app.add_typer(group, name="generate")


def stocks(
    output: Output,
    events: Events = 115_000,
    subscriptions: Subscriptions = 14_029,
    symbols: Annotated[int, typer.Option("--symbols", help="How many stocks.")] = 100,
    seed: Seed = 0,
    format: FormatOption = Format.PARQUET,  # noqa: A002 (the flag's name)
    gzip: Gzip = False,
    force: Force = False,
) -> None:
    """Daily stock quotes 1998-2002 and five kinds of subscriptions (MEGHDOOT)."""
    from crossroads.lab import workloads

    workload = workloads.stocks(seed, events, subscriptions, symbols=symbols)
    _generate(workload, output, format, gzip, force)


def uniform(
    output: Output,
    events: Events = 100_000,
    subscriptions: Subscriptions = 100_000,
    attributes: Annotated[int, typer.Option("--attributes", help="How many attributes.")] = 4,
    domain: Annotated[int, typer.Option("--domain", help="Values are 0 to this.")] = 1_000_000,
    width_min: Annotated[
        float, typer.Option("--width-min", help="Narrowest range, as a share of the domain.")
    ] = 0.01,
    width_max: Annotated[
        float, typer.Option("--width-max", help="Widest range, as a share of the domain.")
    ] = 0.03,
    selective: Annotated[
        int, typer.Option("--selective", help="How many attributes have narrow, Zipf ranges.")
    ] = 0,
    seed: Seed = 0,
    format: FormatOption = Format.PARQUET,  # noqa: A002 (the flag's name)
    gzip: Gzip = False,
    force: Force = False,
) -> None:
    """Integers with a range on every attribute (CHORD; its own widths with --width-min 0)."""
    from crossroads.lab import workloads

    workload = workloads.uniform(
        seed,
        events,
        subscriptions,
        attributes=attributes,
        domain=domain,
        width_min=width_min,
        width_max=width_max,
        selective=selective,
    )
    _generate(workload, output, format, gzip, force)


def mixed(
    output: Output,
    events: Events = 100_000,
    subscriptions: Subscriptions = 100_000,
    seed: Seed = 0,
    format: FormatOption = Format.PARQUET,  # noqa: A002 (the flag's name)
    gzip: Gzip = False,
    force: Force = False,
) -> None:
    """Shop offers with NULLs, and every kind of predicate: text patterns, OR, NOT, ranges."""
    from crossroads.lab import workloads

    _generate(workloads.mixed(seed, events, subscriptions), output, format, gzip, force)


def _generate(
    workload: Workload,
    output: Path,
    format: Format,  # noqa: A002 (the flag's name)
    gzip: bool,
    force: bool,
) -> None:
    from crossroads.lab.workloads import write_workload

    sizes = {"events": workload.event_count, "subscriptions": workload.subscription_count}
    with LateProgress(sizes, clock=time.monotonic) as progress:
        written = write_workload(
            workload,
            output,
            format=format.value,
            compress=gzip,
            overwrite=force,
            advance=progress.advance,
        )
    _report(workload, written, output)


def _report(workload: Workload, written: Written, output: Path) -> None:
    typer.echo(f"{workload.name} workload, seed {workload.seed}:")
    rows = (
        "",
        f"{workload.event_count:,} events",
        f"{workload.subscription_count:,} subscriptions",
    )
    for path, what in zip(written.paths, rows, strict=True):
        typer.echo(f"  {path}  {what}".rstrip() + f"  ({_size(path.stat().st_size)})")
    command = [
        "crossroads", "match",
        "--schema", str(written.schema),
        "--subscriptions", str(written.subscriptions),
        "--events", str(written.events),
        "--output", str(output / "matches"),
    ]  # fmt: skip
    typer.echo("\nNext:\n  " + shlex.join(command))


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


class LateProgress:
    """A progress bar on stderr that appears only when the work turns out to be long."""

    def __init__(self, totals: dict[str, int], clock: Callable[[], float]) -> None:
        self._totals = totals
        self._done = dict.fromkeys(totals, 0)
        self._clock = clock
        self._started = clock()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> LateProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def shown(self) -> bool:
        return self._bar is not None

    def advance(self, what: str, rows: int) -> None:
        self._done[what] += rows
        if self._bar is None and self._clock() - self._started >= PROGRESS_AFTER_SECONDS:
            self._show()
        if self._bar is not None:
            self._bar.update(self._tasks[what], completed=self._done[what])

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
        self._bar = Progress(*columns, console=Console(stderr=True))
        for what, total in self._totals.items():
            self._tasks[what] = self._bar.add_task(what, total=total, completed=self._done[what])
        self._bar.start()
