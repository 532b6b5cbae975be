"""`crossroads explain`: why one event matches one filter, or why it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossroads.cli.console import (
    JsonOption,
    SchemaOption,
    examples,
    json_safe,
    print_json,
    read_schema,
    warn,
)
from crossroads.errors import EventError, FilterError, UsageError

if TYPE_CHECKING:
    from crossroads.model.filter import Filter
    from crossroads.model.schema import Schema
    from crossroads.model.types import Value

_EXAMPLES = examples(
    "crossroads explain --schema stocks.toml --filter \"symbol = 'aapl' AND high >= 10\" "
    """--event '{"symbol": "aapl", "high": 18.9}'""",
    "crossroads explain --schema stocks.toml --subscriptions subscriptions.csv --id s0042 "
    '--events quotes.csv --event-id "1998-01-02|aapl"',
)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(explain)


def explain(
    schema: SchemaOption,
    filter: Annotated[  # noqa: A002 (the flag's name)
        str | None, typer.Option("--filter", help="The filter itself.")
    ] = None,
    subscriptions: Annotated[
        Path | None, typer.Option("--subscriptions", help="Or where the filter is (with --id).")
    ] = None,
    id: Annotated[  # noqa: A002 (the flag's name)
        str | None, typer.Option("--id", help="The id of the subscription.")
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", help="The event itself, as a JSON object.")
    ] = None,
    events: Annotated[
        Path | None, typer.Option("--events", help="Or where the event is; by default its first.")
    ] = None,
    event_id: Annotated[str | None, typer.Option("--event-id", help="The id of the event.")] = None,
    row: Annotated[
        int | None, typer.Option("--row", min=1, help="Its row, from 1, the header not counted.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show why an event matches a filter, or why not: each predicate, its values, what decided.

    Marks: ✓ true, ✗ false, ? unknown (NULL). Leaves with code 0 whether it matches or not.
    """
    _one_of("--filter", filter, "--subscriptions", subscriptions)
    _one_of("--event", event, "--events", events)
    _together("--id", id, "--subscriptions", subscriptions, both=True)
    _together("--event-id", event_id, "--events", events)
    _together("--row", row, "--events", events)
    if event_id is not None and row is not None:
        raise UsageError("--event-id and --row both name the event", hint="give one of them")
    known = read_schema(schema)
    from crossroads.matching.explain import explain as explain_match

    whose, text, wanted = _filter(known, filter, subscriptions, id)
    which, values = _event(known, event, events, event_id, row)
    found = explain_match(wanted, values)
    if as_json:
        report: dict[str, Any] = {"matches": found.matches, "reason": found.reason}
        report |= {"subscription": whose.get("id"), "subscriber": whose.get("subscriber")}
        report |= {"filter": text, "event_id": which, "event": json_safe(values)}
        print_json(report | {"explanation": found.to_dict()})
        return
    if whose:
        of = f" of {whose['subscriber']}" if whose["subscriber"] else ""
        typer.echo(f"subscription {whose['id']}{of}: {text}")
    if which is not None:
        typer.echo(f"event {which}")
    if whose or which is not None:
        typer.echo()
    for line in found.lines():
        typer.echo(line)
    verdict = "matches" if found.matches else "does not match"
    typer.echo(f"\n{verdict}: {found.reason}")


# -- the filter ----------------------------------------------------------------------------------


def _filter(
    schema: Schema, text: str | None, path: Path | None, id_: str | None
) -> tuple[dict[str, str | None], str, Filter]:
    """Whose it is, as it was written, and typed."""
    from crossroads.model.parse import parse

    if text is not None:
        return {}, text, parse(text, schema)
    from crossroads.pipeline.lookup import find_subscription

    assert path is not None and id_ is not None
    found = find_subscription(path, id_)
    whose = {"id": found.id, "subscriber": found.subscriber}
    try:
        return whose, found.filter, parse(found.filter, schema)
    except FilterError as error:
        raise error.of(f"{found.id} ({found.file} line {found.line})") from error


# -- the event -----------------------------------------------------------------------------------


def _event(
    schema: Schema, text: str | None, path: Path | None, event_id: str | None, row: int | None
) -> tuple[str | None, Mapping[str, Value]]:
    """Its id, if it has one, and its values."""
    if text is not None:
        return None, event_of_json(text, schema)
    from crossroads.pipeline.lookup import event_at, find_event

    assert path is not None
    if event_id is not None:
        found = find_event(path, schema, event_id)
    else:
        found = event_at(path, schema, row or 1)
    return f"{found.id} ({found.file} line {found.line})", found.values


def event_of_json(text: str, schema: Schema) -> dict[str, Value]:
    """An event typed by a person: what it leaves out is NULL, the id attributes too."""
    from crossroads.model.table import conform_value

    try:
        parts = json.loads(text, parse_float=_number)
    except (json.JSONDecodeError, RecursionError) as error:
        raise EventError(
            f"--event is not valid JSON: {error}",
            hint="""e.g. '{"symbol": "aapl", "high": 18.9}'""",
        ) from error
    if not isinstance(parts, dict):
        raise EventError("--event is not a JSON object", hint="""e.g. '{"symbol": "aapl"}'""")
    values: dict[str, Value] = dict.fromkeys(schema.names)
    for name, raw in _fields(parts, schema, ""):
        attribute = schema.find(name)
        if attribute is None:
            warn(f"--event: {name!r} is ignored ({schema.near(name)})")
        elif raw is not None:
            values[attribute.name] = conform_value(schema, attribute, raw)
    return values


def _number(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)  # a double would have lost digits that a decimal attribute keeps


def _fields(parts: Mapping[str, Any], schema: Schema, prefix: str) -> Iterator[tuple[str, Any]]:
    """Members, those of nested objects with dotted names."""
    for key, value in parts.items():
        name = prefix + key
        if isinstance(value, dict) and schema.find(name) is None:
            yield from _fields(value, schema, name + ".")
        else:
            yield name, value


# -- flags that belong together ------------------------------------------------------------------


def _one_of(name: str, value: object, other: str, alternative: object) -> None:
    if (value is None) == (alternative is None):
        which = "neither is" if value is None else "both are"
        raise UsageError(f"{which} given: {name} and {other}", hint=f"give {name} or {other}")


def _together(name: str, value: object, other: str, needed: object, *, both: bool = False) -> None:
    if value is not None and needed is None:
        raise UsageError(f"{name} needs {other}")
    if both and needed is not None and value is None:
        raise UsageError(f"{other} needs {name}")
