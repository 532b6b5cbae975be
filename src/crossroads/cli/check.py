"""`crossroads check`: every problem of a subscription file, before it is matched."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossroads.cli.console import (
    JsonOption,
    LateStatus,
    SchemaOption,
    caret,
    examples,
    print_json,
    print_table,
    read_schema,
    warn,
)
from crossroads.errors import RejectedInput, SubscriptionError

if TYPE_CHECKING:
    from crossroads.pipeline.review import Problem, Review

LIMIT_FOR_PEOPLE = 10  # problems of each kind: a screen or two

_EXAMPLES = examples(
    "crossroads check --schema stocks.toml --subscriptions subscriptions.csv",
    "crossroads check --schema stocks.toml --subscriptions subscriptions/ --events quotes.parquet",
    "crossroads check --schema stocks.toml --subscriptions new.jsonl --strict --json",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(check)


def check(
    schema: SchemaOption,
    subscriptions: Annotated[
        Path,
        typer.Option("--subscriptions", help="File or folder with columns id, subscriber, filter."),
    ],
    events: Annotated[
        Path | None,
        typer.Option("--events", help="Also try the filters on the first of these events."),
    ] = None,
    as_json: JsonOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Leave with code 3 if a subscription is rejected.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=0,
            help=f"Problems of each kind to show; by default {LIMIT_FOR_PEOPLE}, and all in JSON.",
        ),
    ] = None,
) -> None:
    """Show every problem of a subscription file: what is rejected, what is slow or odd, and where.

    Leaves with code 0 if there is something to match, 1 if nothing is usable, 3 with --strict if
    anything is rejected.
    """
    known = read_schema(schema)
    from crossroads.pipeline.review import review

    shown = limit if limit is not None or as_json else LIMIT_FOR_PEOPLE
    with LateStatus("reading the subscriptions") as status:
        found = review(subscriptions, known, events=events, limit=shown, say=status.say)
    if as_json:
        print_json(_report(found))
    else:
        _print_problems(found)
        _print_summary(found)
    _judge(found, subscriptions, strict)


def _judge(found: Review, path: Path, strict: bool) -> None:
    if not found.good:
        raise SubscriptionError(
            f"{path} has no usable subscription",
            hint=f"{found.rejected:,} were rejected" if found.rejected else "it has no rows",
        )
    if strict and found.rejected:
        raise RejectedInput(
            f"{found.rejected:,} of {found.subscriptions:,} subscriptions are rejected",
            hint="correct or remove them, or check without --strict",
        )


def _report(found: Review) -> dict[str, Any]:
    return {
        "subscriptions": found.subscriptions,
        "shapes": found.shapes,
        "good": found.good,
        "rejected": found.rejected,
        "reasons": dict(found.reasons),
        "warnings": dict(found.warnings),
        "one_by_one": found.one_by_one,
        "examined": found.examined,
        "sample": None if found.sample is None else asdict(found.sample),
        "problems": [asdict(problem) for problem in found.problems],
    }


def _print_problems(found: Review) -> None:
    for problem in found.problems:
        for line in problem_lines(problem):
            typer.echo(line)
    total = sum((found.reasons + found.warnings).values())
    hidden = total - len(found.problems)
    if hidden:
        typer.echo(f"… and {hidden:,} more (show them with --limit, or all with --json)")
    if found.problems or hidden:
        typer.echo()


def problem_lines(problem: Problem) -> list[str]:
    """Where, whose, what; and the filter with a mark where it went wrong."""
    word = "error" if problem.rejected else "warning"
    whose = "" if problem.id is None else f"subscription {problem.id}: "
    where = f"{problem.file}:{problem.line}: {word}: "
    lines = [f"{where}{whose}{problem.kind}: {_one_line(problem.message)}"]
    if problem.filter and problem.position is not None:
        lines += [f"    {line}" for line in caret(problem.filter, problem.position)]
    elif problem.filter and problem.id is not None and not problem.rejected:
        lines.append(f"    {caret(problem.filter, 0)[0]}")
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_summary(found: Review) -> None:
    rows = [("subscriptions", found.subscriptions), ("shapes of filters", found.shapes)]
    rows += [("good", found.good), ("rejected", found.rejected)]
    rows += [(f"  {kind}", count) for kind, count in found.reasons.most_common()]
    if found.warnings:
        rows += [("warnings", sum(found.warnings.values()))]
        rows += [(f"  {kind}", count) for kind, count in found.warnings.most_common()]
    sample = found.sample
    if sample is not None:
        rows += [
            ("events tried", sample.events),
            ("  rejected events", sample.rejected),
            ("  notifications", sample.notifications),
            ("  subscriptions without any", sample.silent),
        ]
    print_table(("", ""), [(name, f"{count:,}") for name, count in rows], right=(1,))
    if found.examined < found.one_by_one:
        typer.echo(
            f"\n{found.one_by_one:,} filters need a look at each one for warnings; "
            f"{found.examined:,} of them, evenly spread, were looked at."
        )
    if sample is not None:
        if sample.busiest:
            busiest = ", ".join(f"{name} ({count:,})" for name, count in sample.busiest)
            typer.echo(f"\nBusiest subscriptions of these events: {busiest}")
        warn(*sample.warnings)
