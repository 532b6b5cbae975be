"""A look into a finished output: notifications with their reasons, the busiest subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from crossroads.matching.explain import explain
from crossroads.model.identity import event_id
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.types import Value
from crossroads.pipeline.reading import read_rows, read_split
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.subscriptions import COLUMNS
from crossroads.pipeline.window import Window


@dataclass(frozen=True)
class Sample:
    event_id: str
    subscription_id: str
    subscriber: str
    filter: str
    reason: str


def sample_notifications(
    output: Path,
    schema: Schema,
    subscriptions: Path,
    events: Path,
    count: int = 5,
    *,
    spread: bool = True,
    window: Window | None = None,
) -> list[Sample]:
    """Some notifications, each with the reason why it matched.

    `spread`: far apart in the output; otherwise the first ones, whose events are found sooner.
    """
    pairs = ds.dataset(output / "notifications", format="parquet")
    total = pairs.count_rows()
    if not total:
        return []
    if spread:
        places = sorted({total * at // count for at in range(count)})
    else:
        places = list(range(min(count, total)))
    rows = pairs.take(pa.array(places)).to_pylist()
    filters = filters_of(subscriptions, [row["subscription_id"] for row in rows])
    found = _events_by_id(schema, events, {row["event_id"] for row in rows}, window)
    return [
        Sample(
            row["event_id"],
            row["subscription_id"],
            row["subscriber"],
            filters[row["subscription_id"]],
            explain(parse(filters[row["subscription_id"]], schema), found[row["event_id"]]).reason,
        )
        for row in rows
    ]


def filters_of(subscriptions: Path, ids: Sequence[str]) -> dict[str, str]:
    """By id what these subscriptions ask for."""
    every = read_rows(subscriptions, COLUMNS).table
    found = every.filter(pc.is_in(every["id"], value_set=pa.array(ids, pa.string())))
    return dict(zip(found["id"].to_pylist(), found["filter"].to_pylist(), strict=True))


def _events_by_id(
    schema: Schema, events: Path, wanted: set[str], window: Window | None
) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for split in plan_splits(list_files(events), schema):
        for batch in read_split(replace(split, window=window), schema):
            hits = pc.is_in(batch.ids, value_set=pa.array(sorted(wanted)))
            for event in batch.table.filter(hits).to_pylist():
                found.setdefault(event_id(schema, event), event)
        if len(found) == len(wanted):
            break
    return found


def busiest(output: Path, count: int = 5) -> list[tuple[str, str, int]]:
    """(subscription, subscriber, notifications) of those with the most."""
    pairs = ds.dataset(output / "notifications", format="parquet").to_table(
        ["subscription_id", "subscriber"]
    )
    grouped = pairs.group_by(["subscription_id", "subscriber"]).aggregate([([], "count_all")])
    top = grouped.sort_by([("count_all", "descending"), ("subscription_id", "ascending")])
    return [
        (row["subscription_id"], row["subscriber"], row["count_all"])
        for row in top.slice(0, count).to_pylist()
    ]
