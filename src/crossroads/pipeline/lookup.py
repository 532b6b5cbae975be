"""One subscription or one event out of a file, for people who ask about it by its name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from crossroads.errors import EventError, SubscriptionError
from crossroads.model.schema import Schema
from crossroads.model.types import Value
from crossroads.pipeline.raw import Ints, Reject
from crossroads.pipeline.reading import EventBatch, read_rows, read_split
from crossroads.pipeline.source import Split, list_files, plan_splits

COMPARED_MAX = 20_000  # ids compared with a misspelt one: difflib takes about a second for these
_NO_CUTS = 1 << 62  # bytes: each text file is one split, so that its rows are numbered throughout


@dataclass(frozen=True, slots=True)
class FoundSubscription:
    id: str
    subscriber: str | None
    filter: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class FoundEvent:
    id: str
    file: str
    line: int
    values: dict[str, Value]


def find_subscription(path: str | Path, wanted: str) -> FoundSubscription:
    """The only row with that id; SubscriptionError if there is none, or several."""
    table = read_rows(path, ("id", "subscriber", "filter"), required=("id", "filter")).table
    ids = table.column("id")
    rows = table.filter(pc.fill_null(pc.equal(ids, wanted), False)).to_pylist()
    if not rows:
        known = (text for text in ids.to_pylist() if text)
        raise SubscriptionError(f"{path} has no subscription {wanted!r}", hint=near(wanted, known))
    if len(rows) > 1:
        lines = ", ".join(str(row["_line"]) for row in rows[:5])
        raise SubscriptionError(
            f"{len(rows)} rows of {path} have the id {wanted!r} (lines {lines}): all are rejected",
            hint="give each its own id, or explain one with --filter",
        )
    (row,) = rows
    if not (row["filter"] or "").strip():
        raise SubscriptionError(f"{path} line {row['_line']}: the filter of {wanted!r} is empty")
    return FoundSubscription(wanted, row["subscriber"], row["filter"], row["_file"], row["_line"])


def find_event(path: str | Path, schema: Schema, wanted: str) -> FoundEvent:
    """The first event with that id."""
    seen: list[str] = []
    rejected = 0
    for split, batch in _batches(path, schema):
        rejected += len(batch.rejects)
        at = pc.index(batch.ids, wanted).as_py()
        if at >= 0:
            return _found(split, batch, at)
        if len(seen) < COMPARED_MAX:
            seen += batch.ids.slice(0, COMPARED_MAX - len(seen)).to_pylist()
    hint = near(wanted, seen)
    if rejected:
        hint += f"; {rejected} rows were rejected, it may be one of them"
    raise EventError(f"{path} has no event {wanted!r}", hint=hint)


def event_at(path: str | Path, schema: Schema, wanted: int) -> FoundEvent:
    """The row with that number, from 1, headers not counted; EventError says why it is no event."""
    before = 0  # rows of the files that are done
    for _, file in groupby(_batches(path, schema), key=lambda each: each[0].path):
        lines: list[Ints] = []
        rejects: list[Reject] = []
        count = 0
        for split, batch in file:
            # Parquet numbers rows through the file; text files are one split each.
            numbers = batch.lines if split.format == "parquet" else batch.rows + 1
            here = np.flatnonzero(numbers == wanted - before)
            if here.size:
                return _found(split, batch, int(here[0]))
            count += batch.table.num_rows + len(batch.rejects)
            lines.append(batch.lines)
            rejects += batch.rejects
        if wanted - before <= count:
            line = np.sort(np.concatenate([*lines, [reject.line for reject in rejects]]))
            found = int(line[wanted - before - 1])
            reject = next(reject for reject in rejects if reject.line == found)
            raise EventError(f"row {wanted} of {path} (line {found}) is rejected: {reject.reason}")
        before += count
    raise EventError(f"{path} has no row {wanted}", hint=f"it has {before}")


def near(wanted: str, known: Iterable[str]) -> str:
    """A hint for a name that does not exist: the nearest that does, or some that do."""
    first = list(islice(known, 3))
    some = [text for text in chain(first, known) if abs(len(text) - len(wanted)) <= 2]
    close = difflib.get_close_matches(wanted, some[:COMPARED_MAX], n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(first)}, …" if first else "there are none"


def _batches(path: str | Path, schema: Schema) -> Iterator[tuple[Split, EventBatch]]:
    for split in plan_splits(list_files(path), schema, _NO_CUTS):
        for batch in read_split(split, schema):
            yield split, batch


def _found(split: Split, batch: EventBatch, at: int) -> FoundEvent:
    (values,) = batch.table.slice(at, 1).to_pylist()
    return FoundEvent(batch.ids[at].as_py(), split.path, int(batch.lines[at]), values)
