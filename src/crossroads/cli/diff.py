"""`crossroads diff`: which notifications appear or vanish between two subscription tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crossroads.cli.console import (
    JsonOption,
    SchemaOption,
    examples,
    print_json,
    print_table,
    warn,
)
from crossroads.cli.match import drawn
from crossroads.cli.options import (
    EventsOption,
    MasterOption,
    OutputOption,
    PlanName,
    PlanOption,
    SinceOption,
    StrictOption,
    TimeOption,
    UntilOption,
)

SHOWN_MAX = 20  # subscriptions on the terminal; --json and the output have more

_EXAMPLES = examples(
    "crossroads diff old.csv new.csv --schema stocks.toml --events archive/ --output out",
    "crossroads diff old.csv new.csv --schema stocks.toml --events archive/ --output out "
    "--since 2002-01-01 --json",
    "The output folder gets appeared/ and vanished/ (event_id, subscription_id, subscriber), "
    "subscriptions/ (what changed, and how much it matters), summary.json, and what was rejected.",
    "Exit codes: 0 done, also without a difference; 1 nothing usable, or failed; 2 usage; "
    "3 something was rejected under --strict.",
)


def register(app: typer.Typer) -> None:
    app.command("diff", epilog=_EXAMPLES)(diff)


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The subscriptions as they were.")],
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="The subscriptions as they are to be.")
    ],
    schema: SchemaOption,
    events: EventsOption,
    output: OutputOption,
    since: SinceOption = None,
    until: UntilOption = None,
    time: TimeOption = None,
    plan: PlanOption = PlanName.AUTO,
    master: MasterOption = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the notifications that appear or vanish between two subscription tables.

    Only subscriptions that differ are matched: the same id, subscriber and filter cannot matter.
    """
    from crossroads.pipeline.diffjob import DiffRequest, no_usable_event, run_diff

    request = DiffRequest(
        schema=schema,
        old=old,
        new=new,
        events=events,
        output=output,
        plan=plan.value,
        master=master,
        strict=strict,
        since=since,
        until=until,
        time=time,
    )
    with drawn() as reporter:
        summary = run_diff(request, reporter)
    if as_json:
        print_json(summary)
    else:
        _print(summary, output)
    problem = no_usable_event(summary)
    if problem is not None:
        raise problem


def _print(summary: dict[str, Any], output: Path) -> None:
    counts = summary["counts"]
    appeared, vanished = counts["appeared"], counts["vanished"]
    typer.echo(f"{appeared:,} notifications appear, {vanished:,} vanish")
    kinds = [[kind, f"{many:,}"] for kind, many in counts["subscriptions"].items() if many]
    if kinds:
        typer.echo()
        print_table(["subscriptions", ""], kinds, right=(1,))
    moved = [one for one in summary["subscriptions"] if one["appeared"] or one["vanished"]]
    if moved:
        typer.echo()
        rows = [
            [one["id"], one["kind"], _whose(one), f"{one['appeared']:,}", f"{one['vanished']:,}"]
            for one in moved[:SHOWN_MAX]
        ]
        headings = ["subscription", "what", "subscriber", "appear", "vanish"]
        print_table(headings, rows, right=(3, 4))
        if len(moved) > SHOWN_MAX:
            typer.echo("… more in subscriptions/ of the output")
    events = summary["events"] or {}
    if events.get("outside"):
        typer.echo(f"\n{events['outside']:,} events are outside the window")
    if events.get("rejected"):
        warn(f"{events['rejected']:,} events were rejected: rejected_events/ has the reasons")
    for which in ("old", "new"):
        if rejected := counts[f"rejected_{which}"]:
            warn(
                f"{rejected:,} subscriptions of the {which} table were rejected: "
                f"rejected_subscriptions_{which}/ has the reasons"
            )
    warn(*summary["warnings"][:5])
    typer.echo(f"\nwritten to {output}")


def _whose(change: dict[str, Any]) -> str:
    old, new = change["old_subscriber"], change["new_subscriber"]
    return f"{old} → {new}" if old and new and old != new else str(new or old)
