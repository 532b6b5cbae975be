"""`crossroads versions`: how the subscriptions of a stream changed, version by version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossroads.cli.console import JsonOption, examples, print_json, print_table
from crossroads.errors import InputError

if TYPE_CHECKING:
    from crossroads.pipeline.stream.versionjournal import Entry

SHOWN_DEFAULT = 50  # a screen or two; --json has all of them
SUBSCRIPTIONS = "subscriptions"  # the folder of a checkpoint that has them
COUNTED = ("added", "replaced", "removed", "paused", "resumed", "expired", "rejected")

_EXAMPLES = examples(
    "crossroads versions --checkpoint state",
    "crossroads versions --checkpoint state --last 500",
    "crossroads versions --checkpoint state --json",
    "A version of – is a file that changed nothing: all of it was rejected, or known already.",
)


def register(app: typer.Typer) -> None:
    app.command("versions", epilog=_EXAMPLES)(versions)


def versions(
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", help="The checkpoint folder of a crossroads stream.")
    ],
    last: Annotated[
        int, typer.Option("--last", min=1, help="Show so many of the newest ones.")
    ] = SHOWN_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Show how the subscriptions of a stream changed: each version, when, and from which file.

    The stream may be running.
    """
    from crossroads.pipeline.stream.versionjournal import JOURNAL, read_history

    folder = checkpoint / SUBSCRIPTIONS
    if not (folder / JOURNAL).is_file():
        there = "is not the checkpoint of a stream" if checkpoint.is_dir() else "does not exist"
        raise InputError(
            f"{checkpoint} {there}", hint="give the folder that crossroads stream --checkpoint had"
        )
    history = read_history(folder)
    if as_json:
        print_json({"versions": [_report(entry) for entry in history]})
    else:
        _print(history, last)


def _report(entry: Entry) -> dict[str, Any]:
    return {
        "version": entry.version,
        "changed": entry.changed,
        "time": _time(entry),
        "kind": entry.kind,
        "file": entry.file,
        "content_hash": entry.content_hash,
        **asdict(entry.counts),
        "living": entry.living,
    }


def _print(history: Sequence[Entry], last: int) -> None:
    if not history:
        typer.echo("no subscriptions were taken up yet")
        return
    rows = []
    for entry in history[-last:]:
        counts = asdict(entry.counts)
        numbers = [f"{counts[name]:,}" if counts[name] else "" for name in COUNTED]
        version = str(entry.version) if entry.changed else "–"
        rows.append([version, _time(entry), entry.file, *numbers, f"{entry.living:,}"])
    headings = ["version", "time (UTC)", "file", *COUNTED, "living"]
    print_table(headings, rows, right=(0, *range(3, len(headings))), width=120)
    if len(history) > last:
        typer.echo(f"\n{len(history) - last:,} earlier ones: --last {len(history)} shows all")


def _time(entry: Entry) -> str:
    moment = datetime.fromtimestamp(entry.committed_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S")
