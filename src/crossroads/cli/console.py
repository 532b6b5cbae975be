"""What the commands share: options of one meaning, tables, JSON, late progress, a caret under text.

Output goes to stdout, everything that is about the work itself to stderr.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossroads.errors import OutputError, SchemaError

if TYPE_CHECKING:
    from rich.status import Status

    from crossroads.model.schema import Schema

PROGRESS_AFTER_SECONDS = 2.0  # what is done sooner needs no sign of life
CARET_WINDOW = 76  # characters of a filter shown around a position: one line of a terminal

SchemaOption = Annotated[Path, typer.Option("--schema", help="The schema of the events (TOML).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def examples(*lines: str) -> str:
    """The end of a help text; typer keeps a line of its own only between blank ones."""
    return "\n\n".join(("Examples:", *lines))


def write_page(page: Path, text: str, option: str) -> None:
    """Whole or not at all; `option` is the one that names another place."""
    half = page.with_name(f".{page.name}.half")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(page)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise OutputError(
            f"cannot write {page}: {error.strerror or error}",
            hint=f"give another place with {option}",
        ) from error


def read_schema(path: Path) -> Schema:
    """The schema in a TOML file; every error names the file."""
    from crossroads.model.schema import Schema

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise SchemaError(
            f"schema file {path} does not exist",
            hint="make one with: crossroads schema infer EVENTS",
        ) from error
    except OSError as error:
        raise SchemaError(f"cannot read schema file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SchemaError(f"schema file {path} is not UTF-8 text") from error
    try:
        return Schema.from_toml(text)
    except SchemaError as error:
        raise SchemaError(f"schema file {path}: {error.message}", hint=error.hint) from error


def print_json(report: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(report, indent=2, ensure_ascii=False, default=_json_value))


def _json_value(value: object) -> object:
    if isinstance(value, Decimal | date):
        from crossroads.model.values import text_of

        return text_of(value)
    raise TypeError(type(value))


def json_safe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of an event for JSON, which knows no NaN and no infinity."""
    return {
        name: repr(value) if isinstance(value, float) and value - value != 0 else value
        for name, value in values.items()
    }


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    width: int | None = None,
) -> None:
    """Plain columns; the text in them is data and never markup. `right`: columns of numbers.
    `width`: at least so wide, whatever the terminal is; else its columns fold to fit."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=any(headings))
    for place, heading in enumerate(headings):
        justify = "right" if place in right else "left"
        table.add_column(Text(heading, style="bold"), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if width is not None and console.width < width:
        console = Console(width=width)
    console.print(table)


def warn(*lines: str) -> None:
    for line in lines:
        typer.echo(f"warning: {line}", err=True)


def caret(text: str, position: int) -> tuple[str, str]:
    """The line around a position of the text, and a mark below it."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    start = max(0, min(position - CARET_WINDOW // 2, len(flat) - CARET_WINDOW))
    end = start + CARET_WINDOW
    before, after = ("…" if start else ""), ("…" if end < len(flat) else "")
    mark = " " * (len(before) + min(position, len(flat)) - start) + "^"
    return before + flat[start:end] + after, mark


class LateStatus:
    """A line on stderr that says what is being done, once the work turns out to be long.

    A timer shows it, because the work may be one long call that reports nothing on the way.
    """

    def __init__(self, first: str, after_seconds: float = PROGRESS_AFTER_SECONDS) -> None:
        self._text = first
        self._status: Status | None = None
        self._lock = threading.Lock()  # between the timer, which shows it, and the worker
        self._timer = threading.Timer(after_seconds, self._show)
        self._timer.daemon = True

    def __enter__(self) -> LateStatus:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._status is not None:
            self._status.stop()

    @property
    def shown(self) -> bool:
        return self._status is not None

    def say(self, text: str) -> None:
        with self._lock:
            self._text = text
            if self._status is not None:
                self._status.update(text)

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            self._status = Console(stderr=True).status(self._text)
            self._status.start()
