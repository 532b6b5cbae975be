"""Backfill: what new subscriptions would have received from an archive.

The match job itself, with the time of each event beside its notifications; and then a look at the
answer: how many, the first and the last time, for each subscription and in all.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as ds

from crossroads.errors import UsageError
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.types import Value
from crossroads.pipeline.job import MatchRequest, Reporter, read_schema, run_match
from crossroads.pipeline.notify import NOTIFICATIONS
from crossroads.pipeline.samples import Sample, sample_notifications
from crossroads.pipeline.window import time_attribute, time_attributes, window_of

SAMPLES = 5  # notifications that are shown with their reasons
LISTED_MAX = 1_000  # subscriptions that are counted apart, the busiest first
_NAMES = ("subscription_id", "subscriber")


@dataclass(frozen=True)
class Received:
    """What one subscription, or all of them, would have received."""

    id: str
    subscriber: str
    count: int
    first: Value
    last: Value


@dataclass(frozen=True)
class Backfill:
    summary: dict[str, Any]
    time: str | None  # the attribute that `first` and `last` are of
    all: Received
    received: list[Received]  # the busiest; those that would have received nothing are not there
    nothing: int  # how many would have received nothing
    samples: list[Sample]


def run_backfill(request: MatchRequest, reporter: Reporter | None = None) -> Backfill:
    """Match, then count. The request asks for pairs in Parquet; the time is included."""
    schema = read_schema(request.schema)
    time = _time(schema, request.time)
    known = [name.casefold() for name in request.include]
    if time is not None and time.casefold() not in (*known, "event_id", *_NAMES):
        request = replace(request, include=(*request.include, time))
    asked = request if request.since or request.until else replace(request, time=None)
    summary = run_match(replace(asked, shape="pairs", per="subscription"), reporter)
    output = Path(request.output)
    counted = _counted(output / NOTIFICATIONS, time)
    return Backfill(
        summary=summary,
        time=time,
        all=_in_all(counted),
        received=[_received(row) for row in counted.slice(0, LISTED_MAX).to_pylist()],
        nothing=summary["counts"]["subscriptions"] - counted.num_rows,
        samples=sample_notifications(
            output,
            schema,
            Path(request.subscriptions),
            Path(request.events),
            SAMPLES,
            spread=False,
            window=window_of(schema, asked.since, asked.until, asked.time),
        ),
    )


def _time(schema: Schema, asked: str | None) -> str | None:
    """The attribute asked for, or the only one; which of several, nobody has to say here."""
    if asked is not None or len(time_attributes(schema)) == 1:
        return time_attribute(schema, asked).name
    return None


def _counted(folder: Path, time: str | None) -> pa.Table:
    """By subscription, the busiest first; the answer itself may be larger than memory."""
    answer = ds.dataset(folder, format="parquet")
    names = [*_NAMES, *([time] if time else [])]
    sums: list[tuple[Any, ...]] = [([], "hash_count_all", None, "count")]
    if time is not None:
        sums += [(time, f"hash_{what}", None, name) for what, name in _ENDS]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("scan", acero.ScanNodeOptions(answer, columns=names)),
            acero.Declaration(
                "project", acero.ProjectNodeOptions([pc.field(name) for name in names], names)
            ),
            acero.Declaration("aggregate", acero.AggregateNodeOptions(sums, keys=list(_NAMES))),
        ]
    )
    found = plan.to_table()
    if time is None:
        for _, name in _ENDS:
            found = found.append_column(name, pa.nulls(found.num_rows))
    return found.sort_by([("count", "descending"), ("subscription_id", "ascending")])


_ENDS = (("min", "first"), ("max", "last"))


def _received(row: dict[str, Any]) -> Received:
    id_, subscriber = (row[name] for name in _NAMES)
    return Received(id_, subscriber, row["count"], row["first"], row["last"])


def _in_all(counted: pa.Table) -> Received:
    total = pc.sum(counted["count"]).as_py() or 0
    first, last = counted["first"], counted["last"]
    if pa.types.is_null(first.type):
        return Received("", "", total, None, None)
    return Received("", "", total, pc.min(first).as_py(), pc.max(last).as_py())


# -- one filter ----------------------------------------------------------------------------------


@contextmanager
def one_subscription(schema: Schema, text: str, id_: str) -> Iterator[Path]:
    """A subscription table with one row, for as long as the block lasts."""
    parse(text, schema)  # what is wrong with it is said with its place
    if not id_.strip():
        raise UsageError("--id is empty")
    with tempfile.TemporaryDirectory(prefix="crossroads-") as folder:
        path = Path(folder) / "subscription.jsonl"
        row = {"id": id_, "subscriber": id_, "filter": text}
        path.write_text(json.dumps(row) + "\n")
        yield path
