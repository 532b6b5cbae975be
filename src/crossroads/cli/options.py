"""Options of the commands that run jobs on Spark, each with one name and one meaning."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class PlanName(StrEnum):
    AUTO = "auto"
    DIRECT = "direct"
    INDEXED = "indexed"
    SQL = "sql"
    KEYED = "keyed"
    NAIVE = "naive"


class ShapeName(StrEnum):
    PAIRS = "pairs"
    LISTS = "lists"
    COMPACT = "compact"


class PerName(StrEnum):
    SUBSCRIPTION = "subscription"
    SUBSCRIBER = "subscriber"


class FormatName(StrEnum):
    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


# -- what goes in, what comes out ----------------------------------------------------------------

SubscriptionsOption = Annotated[
    Path,
    typer.Option("--subscriptions", help="File or folder with columns id, subscriber, filter."),
]
EventsOption = Annotated[
    Path,
    typer.Option("--events", help="File or folder: CSV, JSON lines (also with .gz) or Parquet."),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help="Only events from this day or time on, like 2002-01-31."),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="Only events before this day or time.")
]
TimeOption = Annotated[
    str | None,
    typer.Option("--time", help="Which attribute says when, if the schema has several."),
]
OutputOption = Annotated[Path, typer.Option("--output", help="Folder; an earlier one is replaced.")]
ShapeOption = Annotated[
    ShapeName,
    typer.Option("--shape", help="A row per pair, a list per event, or pairs of numbers."),
]
PerOption = Annotated[
    PerName, typer.Option("--per", help="Tell each subscription, or each subscriber once.")
]
FormatOption = Annotated[FormatName, typer.Option("--format", help="How the output is written.")]
IncludeOption = Annotated[
    str, typer.Option("--include", help="Attributes to carry along, separated by commas.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Write nothing and exit 3 if anything is rejected.")
]
KeepDuplicatesOption = Annotated[
    bool,
    typer.Option(
        "--keep-duplicates", help="Match events with a repeated id too, instead of rejecting them."
    ),
]


def names_in(include: str) -> tuple[str, ...]:
    """The attributes that `--include` names."""
    return tuple(name.strip() for name in include.split(",") if name.strip())


# -- how it is done ------------------------------------------------------------------------------

PlanOption = Annotated[
    PlanName,
    typer.Option(
        "--plan",
        help="auto: the cheapest, foreseen from a sample; direct: fastest on one machine; "
        "indexed: on a cluster; sql: a join of Spark's by key; keyed: more subscriptions than "
        "one host can hold; naive: slow reference.",
    ),
]
MappingOption = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        help="For --plan sql and keyed: values to keys (attribute-split, key-space-split, "
        "selective-attribute, hilbert, zones, string-tree).",
    ),
]
CellsOption = Annotated[
    int | None,
    typer.Option("--cells", min=1, help="For --plan sql and keyed: groups of keys, at most."),
]
IndexStoreOption = Annotated[
    str | None,
    typer.Option(
        "--index-store", help="For --plan keyed: folder or URI where indexes stay for later jobs."
    ),
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="A Spark master; default: this machine.")
]
