"""`crossroads lab list|run|report`: the documents' experiments on Spark, judged against them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossroads.cli.console import JsonOption, examples, print_table, write_page
from crossroads.cli.options import MasterOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crossroads.lab.run import Result

OUTPUT = Path("lab-results")
PAGE = "report.html"
TABLE_WIDTH = 120  # a line of the table stays a line, also in a file or a narrow window


class ScaleName(StrEnum):
    SMALL = "small"
    FULL = "full"


OutputOption = Annotated[
    Path, typer.Option("--output", help="Folder of results; other experiments in it stay.")
]

_RUN_EXAMPLES = examples(
    "crossroads lab run C5    [dim]seconds: the shape of the claim[/dim]",
    "crossroads lab run C5 C6 C7 C8 C9 C10 C11 --scale full    [dim]the document's sizes[/dim]",
    "crossroads lab run C6 --seeds 20 --json    [dim]for programs[/dim]",
    "A claim that does not hold is a finding: the exit code is 0 all the same, and 1 only if a "
    "run failed.",
)
_REPORT_EXAMPLES = examples("crossroads lab report --output lab-results --to report.html")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Measure what the source documents claim, on Spark.", no_args_is_help=True
    )
    group.command("list")(list_experiments)
    group.command("run", epilog=_RUN_EXAMPLES)(run)
    group.command("report", epilog=_REPORT_EXAMPLES)(report)
    app.add_typer(group, name="lab")


def list_experiments() -> None:
    """The experiments, and what each of them checks."""
    from crossroads.lab.experiments import EXPERIMENTS, experiment_of

    known = [experiment_of(name) for name in EXPERIMENTS]
    rows = [(one.id, one.figure, one.claim) for one in known]
    print_table(("id", "shown in", "claim"), rows, width=TABLE_WIDTH)


def run(
    names: Annotated[list[str], typer.Argument(metavar="ID…", help="Experiments, like C5 C6.")],
    scale: Annotated[
        ScaleName, typer.Option("--scale", help="small: seconds; full: the document's sizes.")
    ] = ScaleName.SMALL,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Runs of each configuration; more narrow the intervals."),
    ] = None,
    master: MasterOption = None,
    output: OutputOption = OUTPUT,
    as_json: JsonOption = False,
) -> None:
    """Run experiments, and say which of their claims hold."""
    from crossroads.cli.match import drawn
    from crossroads.lab.experiment import Scale
    from crossroads.lab.run import run_experiments

    with drawn() as reporter:
        results = run_experiments(
            names, output, reporter, scale=Scale(scale.value), seeds=seeds, master=master
        )
    if as_json:
        _print_json(results)
    else:
        _print(results, output)


def report(
    output: OutputOption = OUTPUT,
    to: Annotated[
        Path | None, typer.Option("--to", help=f"The page; default: {PAGE} in the folder.")
    ] = None,
) -> None:
    """One page of all results in a folder: every figure, published beside measured."""
    from crossroads.lab.report import report_page
    from crossroads.lab.run import read_results

    page = to or output / PAGE
    write_page(page, report_page(read_results(output)), "--to")
    typer.echo(f"written to {page}")


def _print_json(results: Sequence[Result]) -> None:
    import json

    import msgspec

    verdicts = [msgspec.to_builtins(one) for result in results for one in result.verdicts]
    typer.echo(json.dumps(verdicts, indent=2, ensure_ascii=False))


def _print(results: Sequence[Result], output: Path) -> None:
    verdicts = [one for result in results for one in result.verdicts]
    for one in verdicts:
        typer.echo(f"{one.claim}\n  published  {one.published}\n  measured   {one.measured}")
        typer.echo(f"  verdict    {'holds' if one.holds else 'does not hold'}")
        typer.echo(f"  rule       {one.note}\n")
    held = sum(one.holds for one in verdicts)
    typer.echo(f"{held} of {len(verdicts)} claims hold; what does not is a finding.")
    if any(result.ran.seeds == 1 for result in results):
        typer.echo("One seed has no interval: give --seeds 2 or more.")
    typer.echo(f"written to {output}; the page: crossroads lab report --output {output}")
