"""The input of a stream under attack, and what the definition makes of it.

Events come as small files, renamed into place, in three formats; some ids come twice, some lines
are broken. Subscriptions change by files of which every one makes a version. All of it follows from
a seed and from how many files were written.

What must be told is computed from the files, from Spark's own log of which files made which batch,
and from the record of each batch (its subscription_version and its start): with the definition, and
with nothing of the pipeline.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.matching.definition import matches
from crossroads.model.filter import Filter
from crossroads.model.parse import parse
from crossroads.model.schema import Schema

SCHEMA = Schema.from_mapping(
    {"id": "id", "attributes": {"id": "bigint", "city": "string", "total": "double"}}
)
SCHEMA_TEXT = 'id = "id"\n[attributes]\nid = "bigint"\ncity = "string"\ntotal = "double"\n'
CITIES = ("Lima", "Cusco", "Puno", "Tacna", "Ica")
SUBSCRIPTIONS = 24  # in the first file
EVENTS_PER_FILE = 30
REPEATED_SHARE = 0.05  # of the events: published again, in another file or in the same
BROKEN_SHARE = 0.03  # of the lines
PARQUET = pa.schema([("id", pa.int64()), ("city", pa.string()), ("total", pa.float64())])

Told = Counter[tuple[str, str, int]]  # event, subscription, subscription_version
Event = dict[str, Any]


@dataclass(frozen=True)
class Subscribed:
    filter: str
    until_ms: int | None = None
    paused: bool = False


Table = dict[str, Subscribed]


@dataclass
class World:
    """A folder with everything: schema, events and changes to come, checkpoint, output."""

    folder: Path
    seed: int
    tables: list[Table] = field(default_factory=lambda: [{}])  # by version
    files: dict[str, list[Event | None]] = field(default_factory=dict)  # None: a broken line

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._next_id = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in (self.events, self.changes):
            part.mkdir()
        (self.folder / "schema.toml").write_text(SCHEMA_TEXT)
        self._write_change([("upsert", f"s{n}", *self._wish()) for n in range(SUBSCRIPTIONS)])

    @property
    def events(self) -> Path:
        return self.folder / "events"

    @property
    def changes(self) -> Path:
        return self.folder / "changes"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    # -- events --------------------------------------------------------------------------------

    def publish(self) -> None:
        """One more file."""
        number = len(self.files)
        suffix = ("jsonl", "csv", "parquet")[number % 3]
        rows = [self._row(suffix) for _ in range(EVENTS_PER_FILE)]
        name = f"{number:06d}.{suffix}"
        beside = self.folder / f".{name}"
        _WRITERS[suffix](beside, rows)
        self.files[name] = rows
        beside.rename(self.events / name)

    def _row(self, suffix: str) -> Event | None:
        dice = self._dice
        if suffix != "parquet" and dice.random() < BROKEN_SHARE:
            return None
        if self._next_id and dice.random() < REPEATED_SHARE:
            return _event(self.seed, dice.randrange(max(0, self._next_id - 100), self._next_id))
        self._next_id += 1
        return _event(self.seed, self._next_id - 1)

    # -- subscriptions -------------------------------------------------------------------------

    def change(self, now_ms: int) -> None:
        """One more file, and so one more version: it always has a newcomer."""
        dice, table = self._dice, self.tables[-1]
        lasting = now_ms + dice.randrange(20_000) if dice.random() < 0.3 else None
        rows: list[tuple[Any, ...]] = [
            ("upsert", f"n{len(self.tables)}", self._wish()[0], lasting),
            ("upsert", "broken", "total >", None),
        ]
        for name in dice.sample(sorted(table), 3):
            op = dice.choice(("upsert", "remove", "resume" if table[name].paused else "pause"))
            rows.append((op, name, *(self._wish() if op == "upsert" else ("", None))))
        self._write_change(rows)

    def _wish(self) -> tuple[str, int | None]:
        low = self._dice.randrange(80)
        text = f"total >= {low} AND total < {low + 20}"
        if self._dice.random() < 0.5:
            text = f"city = '{self._dice.choice(CITIES)}' AND total > {low}"
        return text, None

    def _write_change(self, rows: list[tuple[Any, ...]]) -> None:
        table = dict(self.tables[-1])
        lines = ["op,id,subscriber,filter,valid_until"]
        for op, name, text, until in rows:
            lines.append(f'{op},{name},{name}-owner,"{text}",{_written(until)}')
            if name != "broken":
                _apply(table, op, name, text, until)
        name = f"{len(self.tables):06d}.csv"
        beside = self.folder / f".{name}"
        beside.write_text("\n".join(lines) + "\n")
        self.tables.append(table)
        beside.rename(self.changes / name)

    # -- what must be told -----------------------------------------------------------------------

    def expected(self) -> Expected:
        """Of all that Spark has made batches of; what it has not is lost."""
        found = Expected()
        seen: set[int] = set()
        parsed: dict[str, Filter] = {}
        batched: set[str] = set()
        for batch in batches_of(self.checkpoint):
            found.batches += 1
            for name in sorted(batch.files):
                batched.add(name)
                for line, event in enumerate(self.files[name], 1 + name.endswith(".csv")):
                    if event is None or event["id"] in seen:
                        found.rejects[name, line] += 1
                        continue
                    seen.add(event["id"])
                    for wanted in self._wanted(batch, event, parsed):
                        found.told[str(event["id"]), wanted, batch.version] += 1
        found.events = len(seen)
        found.unread = sorted(self.files.keys() - batched)
        return found

    def _wanted(self, batch: Batch, event: Event, parsed: dict[str, Filter]) -> Iterator[str]:
        for name, one in self.tables[batch.version].items():
            if one.paused or (one.until_ms is not None and one.until_ms <= batch.started_ms):
                continue
            if one.filter not in parsed:
                parsed[one.filter] = parse(one.filter, SCHEMA)
            if matches(parsed[one.filter], event):
                yield name


@dataclass
class Expected:
    told: Told = field(default_factory=Counter)
    rejects: Counter[tuple[str, int]] = field(default_factory=Counter)  # file and line
    events: int = 0
    batches: int = 0
    unread: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Batch:
    number: int
    version: int
    started_ms: int
    files: list[str]


def batches_of(checkpoint: Path) -> Iterator[Batch]:
    """Spark says which files made a batch, our record with which version it was matched."""
    spark = checkpoint / "spark"
    logged: dict[int, set[str]] = {}
    for path in (spark / "sources" / "0").iterdir():
        if path.name.startswith("."):
            continue
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            logged.setdefault(entry["batchId"], set()).add(Path(entry["path"]).name)
    before = -1
    for path in sorted((spark / "offsets").glob("[0-9]*"), key=lambda one: int(one.name)):
        offset = json.loads(path.read_text().splitlines()[-1])["logOffset"]
        record = json.loads((checkpoint / "batches" / f"{int(path.name):09d}.json").read_text())
        files = [name for at in range(before + 1, offset + 1) for name in logged.get(at, ())]
        before = offset
        yield Batch(int(path.name), record["subscription_version"], record["started_ms"], files)


def active_filters(table: Table) -> list[tuple[str, str]]:
    """Names and filters of those that are reported; none of them may expire."""
    return [(name, one.filter) for name, one in table.items() if not one.paused]


def _event(seed: int, number: int) -> Event:
    dice = random.Random(f"{seed}/{number}")
    total = round(dice.uniform(0, 100), 2)
    return {"id": number, "city": dice.choice(CITIES), "total": total}


def _apply(table: Table, op: str, name: str, text: str, until: int | None) -> None:
    if op == "upsert":
        table[name] = Subscribed(text, until)
    elif op == "remove":
        del table[name]
    else:
        table[name] = replace(table[name], paused=op == "pause")


def _written(until_ms: int | None) -> str:
    if until_ms is None:
        return ""
    return datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _jsonl(path: Path, rows: list[Event | None]) -> None:
    lines = ['{"id": oops' if row is None else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")


def _csv(path: Path, rows: list[Event | None]) -> None:
    lines = ["x,x" if row is None else f"{row['id']},{row['city']},{row['total']}" for row in rows]
    path.write_text("id,city,total\n" + "\n".join(lines) + "\n")


def _parquet(path: Path, rows: list[Event | None]) -> None:
    pq.write_table(pa.Table.from_pylist([row for row in rows if row], PARQUET), path)


_WRITERS = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}
