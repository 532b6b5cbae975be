"""What the streams of the benchmark are fed with, and the process that feeds them.

    python -m bench.streamload feed FEED.json

W1 with ranges of 4.7..6.7% on each of four attributes, so that of 100,000 subscriptions about one
matches an event. Events are Parquet files that are made before the clock starts; the feeder copies
one beside the folder and renames it into it, so that it takes next to nothing of the cores.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.sizes import SEED
from crossroads.lab.workloads import Workload, uniform
from crossroads.matching.index import MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import filters_from_columns

ATTRIBUTES, DOMAIN = 4, 1_000_000
# 100,000 × 0.057⁴ = 1.06; ranges that stick out of the domain take a little of it away.
WIDTH_MIN, WIDTH_MAX = 0.047, 0.067
FILE_SECONDS = 0.2  # of events in each file
POOL_FILES = 8  # of a feed whose ids may come again
ROW_GROUP_ROWS = 65_536


def workload(subscriptions: int, events: int = 1, seed: int = SEED) -> Workload:
    return uniform(seed, events, subscriptions, width_min=WIDTH_MIN, width_max=WIDTH_MAX)


@dataclass(frozen=True)
class Given:
    """Files that both sides start from."""

    schema: Path
    subscriptions: Path  # filters as text
    typed: Path  # the same as columns of numbers: what somebody would join with

    @staticmethod
    def write(folder: Path, subscriptions: int) -> Given:
        folder.mkdir(parents=True, exist_ok=True)
        load = workload(subscriptions)
        given = Given(folder / "schema.toml", folder / "subs.parquet", folder / "typed.parquet")
        given.schema.write_text(load.schema_toml)
        pq.write_table(load.subscriptions(), given.subscriptions)
        pq.write_table(load.typed_templates()[0].columns, given.typed)
        return given


def draw(first: int, count: int) -> pa.Table:
    """Events with ids from `first` on."""
    values = np.random.default_rng((SEED, first)).integers(
        0, DOMAIN, size=(ATTRIBUTES, count), dtype=np.int32, endpoint=True
    )
    names = [f"a{number + 1}" for number in range(ATTRIBUTES)]
    return pa.table(
        {"id": np.arange(first, first + count), **dict(zip(names, values, strict=True))}
    )


def write_pool(folder: Path, files: int, rows: int) -> Path:
    """Files of events; ids go on from file to file."""
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(
            draw(1 + number * rows, rows),
            folder / f"{number:06d}.parquet",
            row_group_size=ROW_GROUP_ROWS,
            compression="zstd",
        )
    return folder


def matches_of(given: Given, pool: Path) -> list[int]:
    """How many notifications each file of a pool is worth, by the index in this process."""
    schema = Schema.from_toml(given.schema.read_text())
    typed = pq.read_table(given.typed)
    (template,) = workload(typed.num_rows).templates
    index = MatchIndex.build(filters_from_columns(template.text, typed, schema))
    files = sorted(pool.glob("*.parquet"))
    return [
        sum(len(index.match_batch(batch).ordinals) for batch in pq.read_table(file).to_batches())
        for file in files
    ]


def write_changes(folder: Path, number: int, rows: int, subscriptions: int) -> None:
    """A change file: other filters for some of the subscriptions."""
    fresh = workload(rows, seed=SEED + 1 + number).subscriptions()
    chosen = np.random.default_rng((SEED, number)).choice(subscriptions, rows, replace=False) + 1
    digits = len(str(subscriptions))
    ids = pc.binary_join_element_wise(
        "s", pc.utf8_lpad(pa.array(chosen).cast(pa.string()), digits, "0"), ""
    )
    table = pa.table({"op": ["upsert"] * rows, "id": ids, **_without_id(fresh)})
    beside = folder.parent / f".change-{number}"
    pq.write_table(table, beside)
    beside.rename(folder / f"{number:06d}.parquet")


def _without_id(subscriptions: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: subscriptions[name] for name in ("subscriber", "filter")}


def told_to_stop() -> threading.Event:
    """Set when a line comes on the standard input, or nobody is left to write one."""
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop


# -- the feeder --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feed:
    """A file every `seconds` from now on; the files of the pool again and again."""

    pool: str
    inbox: str
    log: str  # a line per file: its name, when it was renamed, how many events
    rows: int  # in a file
    first: int  # number of the first file
    files: int
    seconds: float = FILE_SECONDS

    def save(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)))
        return path


def feed(given: Feed) -> None:
    pool = sorted(Path(given.pool).glob("*.parquet"))
    inbox = Path(given.inbox)
    beside = inbox.with_name(f".{inbox.name}-{os.getpid()}")
    begun = time.time()
    with Path(given.log).open("a", buffering=1) as log:
        for turn in range(given.files):
            number = given.first + turn
            shutil.copyfile(pool[number % len(pool)], beside)
            time.sleep(max(0.0, begun + turn * given.seconds - time.time()))
            name = f"{number:06d}.parquet"
            beside.rename(inbox / name)
            log.write(json.dumps({"file": name, "at": time.time(), "events": given.rows}) + "\n")


if __name__ == "__main__":
    feed(Feed(**json.loads(Path(sys.argv[2]).read_text())))
