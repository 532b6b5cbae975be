"""`crossroads match`: every notification for a table of events and a table of subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossroads.cli.console import SchemaOption, examples
from crossroads.cli.options import (
    CellsOption,
    EventsOption,
    FormatName,
    FormatOption,
    IncludeOption,
    IndexStoreOption,
    KeepDuplicatesOption,
    MappingOption,
    MasterOption,
    OutputOption,
    PerName,
    PerOption,
    PlanName,
    PlanOption,
    ShapeName,
    ShapeOption,
    SinceOption,
    StrictOption,
    SubscriptionsOption,
    TimeOption,
    UntilOption,
    names_in,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from crossroads.pipeline.job import MatchRequest, Reporter


EPILOG = examples(
    "crossroads generate stocks --output w",
    "crossroads match --schema w/schema.toml --subscriptions w/subscriptions.parquet "
    "--events w/events.parquet --output out",
    "crossroads match … --include symbol,close --format jsonl    [dim]more in each row[/dim]",
    "crossroads match … --shape lists --per subscriber    [dim]per event whom to tell[/dim]",
    "crossroads match … --shape compact    [dim]numbers with look-up tables, for dense results"
    "[/dim]",
    "crossroads match … --plan keyed --mapping hilbert --index-store indexes    "
    "[dim]an index per cell, kept for later jobs[/dim]",
    "crossroads match … --since 2002-01-01 --until 2002-02-01    [dim]a month of an archive[/dim]",
    "The output folder gets notifications/, rejected_events/, rejected_subscriptions/ and "
    "summary.json; it replaces an earlier output whole, or not at all.",
    "Exit codes: 0 done, also without a match; 1 nothing usable, or failed; 2 usage; "
    "3 something was rejected under --strict.",
)


def register(app: typer.Typer) -> None:
    app.command("match", epilog=EPILOG)(match)


def match(
    schema: SchemaOption,
    subscriptions: SubscriptionsOption,
    events: EventsOption,
    output: OutputOption,
    plan: PlanOption = PlanName.AUTO,
    shape: ShapeOption = ShapeName.PAIRS,
    include: IncludeOption = "",
    per: PerOption = PerName.SUBSCRIPTION,
    format: FormatOption = FormatName.PARQUET,  # noqa: A002 (the flag's name)
    master: MasterOption = None,
    strict: StrictOption = False,
    keep_duplicates: KeepDuplicatesOption = False,
    mapping: MappingOption = None,
    cells: CellsOption = None,
    index_store: IndexStoreOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    time: TimeOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Find every match between events and subscriptions, on Spark."""
    from crossroads.pipeline.job import MatchRequest
    from crossroads.pipeline.jobsummary import nothing_usable

    request = MatchRequest(
        schema=schema,
        subscriptions=subscriptions,
        events=events,
        output=output,
        plan=plan.value,
        shape=shape.value,
        per=per.value,
        format=format.value,
        include=names_in(include),
        master=master,
        strict=strict,
        keep_duplicates=keep_duplicates,
        since=since,
        until=until,
        time=time,
        mapping=mapping,
        cells=cells,
        index_store=index_store,
    )
    summary = run_shown(request)
    if json:
        import json as text

        typer.echo(text.dumps(summary, indent=2))
    else:
        show_summary(summary, output)
    problem = nothing_usable(summary)
    if problem is not None:
        raise problem


def run_shown(request: MatchRequest) -> dict[str, Any]:
    """Run the job with its stages drawn on the terminal's error stream."""
    from crossroads.pipeline.job import run_match

    with drawn() as reporter:
        return run_match(request, reporter)


@contextmanager
def drawn() -> Iterator[Reporter]:
    """A reporter that draws the stages of a job while the block runs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
    )
    # Drawn for people only: a log file has no use for it.
    unseen = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=unseen) as drawing:
        yield _Drawing(drawing)


class _Drawing:
    """The job's reporter: one line that says the stage, with a bar while events are matched."""

    def __init__(self, drawing: Progress) -> None:
        self.drawing = drawing
        self.line: TaskID = drawing.add_task("starting", total=None, count="")

    def stage(self, name: str) -> None:
        self.drawing.update(self.line, description=STAGE_TEXTS.get(name, name), count="")

    def progress(self, done: int, total: int) -> None:
        if total > 1:  # a single piece has no progress: the bar goes on moving to and fro
            self.drawing.update(self.line, completed=done, total=total, count=f"{done}/{total}")


STAGE_TEXTS = {
    "plan": "choosing a plan",
    "subscriptions": "reading subscriptions",
    "input": "looking at the events",
    "index": "building the index",
    "spark": "waiting for Spark",
    "match": "matching",
    "finish": "finishing",
    "compare": "comparing the tables",
    "difference": "finding what differs",
    "measure": "measuring",
}


def show_summary(summary: dict[str, Any], output: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    counts, seconds = summary["counts"], summary["seconds"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    rejected = counts["events_rejected"] + counts["subscriptions_rejected"]
    rows = [
        ("events", f"{counts['events']:,}" + _outside(counts)),
        ("subscriptions", f"{counts['subscriptions']:,}"),
        ("notifications", f"{counts['notifications']:,}"),
        ("rejected", f"{rejected:,}" + _rejected_parts(counts)),
        ("plan", summary["plan"] + _keys(summary)),
        ("seconds", f"{seconds['total']:.1f}"),
    ]
    rows += [(f"  {name}", f"{value:.2f}") for name, value in seconds.items() if name != "total"]
    if summary.get("predicted") is not None:
        foreseen, took = summary["predicted"]["seconds"], summary["actual"]["seconds"]
        rows.append(("predicted", f"{foreseen:.2f} on a warm Spark; it took {took:.2f}"))
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    for warning in summary["warnings"][:5]:
        console.print(f"note: {warning}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nwritten to {output}", markup=False, highlight=False, soft_wrap=True)


def _outside(counts: dict[str, int]) -> str:
    away = counts["events_outside"]
    return f" ({away:,} outside the window)" if away else ""


def _keys(summary: dict[str, Any]) -> str:
    if summary.get("mapping") is None:
        return ""
    index = f", index {summary['index']}" if "index" in summary else ""
    return f" ({summary['mapping']}, {summary['cells']:,} cells{index})"


def _rejected_parts(counts: dict[str, int]) -> str:
    parts = [
        f"{counts[key]:,} {name}"
        for key, name in (
            ("subscriptions_rejected", "subscriptions"),
            ("events_rejected", "events"),
            ("events_repeated", "of them repeated"),
        )
        if counts[key]
    ]
    return f" ({', '.join(parts)})" if parts else ""
