"""How far digests cut messages on a stream; writes docs/streaming-digest.md.

A real stream, from a folder to a folder: a file of events every period, each event of which matches
one of many subscriptions that are all alike. A stream has sources (tickers, sensors); each has one
event per file and goes on matching the same subscription for `run` files on average: the temporal
locality of C10.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.sizes import SEED
from crossroads.pipeline.stream.job import started
from crossroads.pipeline.stream.request import Digesting, StreamRequest
from crossroads.pipeline.stream.watching import Totals

PAGE = Path(__file__).resolve().parent.parent / "docs" / "streaming-digest.md"
SOURCES = 2_500  # events per file: 10,000 a second, four files a second
SUBSCRIPTIONS = 100_000
FILES = 40
PERIOD_MS = 250
TRIGGER_MS = 50  # a file is a batch
DELAYS = (0, 1, 2, 5)  # in periods
SIZE = 10_000  # of a digest: never reached
SCHEMA = """
id = ["id"]

[attributes]
id = { type = "string" }
value = { type = "int" }
"""


@dataclass(frozen=True)
class Load:
    name: str
    subscribers: int  # who share the subscriptions evenly
    run: int  # files for which a source matches the same subscription, on average


LOADS = (
    Load("a subscriber for each subscription, independent events", SUBSCRIPTIONS, 1),
    Load("the same, runs of 10", SUBSCRIPTIONS, 10),
    Load("the same, runs of 100", SUBSCRIPTIONS, 100),
    Load("1,000 subscribers, independent events", 1_000, 1),
)


def write_subscriptions(path: Path, load: Load) -> None:
    every = range(SUBSCRIPTIONS)
    columns = {
        "id": [f"s{each}" for each in every],
        "subscriber": [f"u{each % load.subscribers}" for each in every],
        "filter": [f"value = {each}" for each in every],
    }
    pq.write_table(pa.table(columns), path)


def drawn(load: Load) -> list[pa.Table]:
    """The events of each file."""
    chance = np.random.default_rng(SEED)
    value = chance.integers(0, SUBSCRIPTIONS, SOURCES)
    files = []
    for number in range(FILES):
        moves = chance.random(SOURCES) < 1 / load.run
        value = np.where(moves, chance.integers(0, SUBSCRIPTIONS, SOURCES), value)
        ids = [f"{number}.{source}" for source in range(SOURCES)]
        files.append(pa.table({"id": ids, "value": value.astype(np.int32)}))
    return files


def feed(files: list[pa.Table], folder: Path) -> None:
    """A file every period."""
    begun = time.monotonic()
    for number, events in enumerate(files):
        pq.write_table(events, folder / f".{number}")
        time.sleep(max(0.0, begun + number * PERIOD_MS / 1000 - time.monotonic()))
        (folder / f".{number}").rename(folder / f"{number:06d}.parquet")


def messages_per_notification(folder: Path, load: Load, periods: int) -> float:
    """What waits when the stream ends is told then."""
    (folder / "in").mkdir(parents=True)
    (folder / "schema.toml").write_text(SCHEMA)
    write_subscriptions(folder / "subscriptions.parquet", load)
    request = StreamRequest(
        schema=folder / "schema.toml",
        subscriptions=folder / "subscriptions.parquet",
        events=str(folder / "in"),
        output=str(folder / "out"),
        checkpoint=folder / "state",
        trigger_ms=TRIGGER_MS,
        digest=Digesting(delay_ms=periods * PERIOD_MS, size=SIZE),
        master="local[2]",
    )
    seen = Totals()
    with started(request, watchers=[seen]) as running:
        feeder = threading.Thread(target=feed, args=(drawn(load), folder / "in"))
        feeder.start()
        running.await_end(lambda _: seen.sums["events"] == FILES * SOURCES)
        feeder.join()
    told = ds.dataset(folder / "out" / "notifications").to_table(columns=["notification_count"])
    notifications = pc.sum(told["notification_count"]).as_py()
    assert notifications == FILES * SOURCES, notifications
    return float(told.num_rows / notifications)


def page() -> str:
    head = ["notifications", *(f"{d}×" if d else "0" for d in DELAYS)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    with tempfile.TemporaryDirectory(prefix="crossroads-bench-") as scratch:
        for load in LOADS:
            cells = []
            for periods in DELAYS:
                cells.append(
                    f"{messages_per_notification(Path(scratch, 'one'), load, periods):.2f}"
                )
                shutil.rmtree(Path(scratch, "one"))
            lines.append("| " + " | ".join([load.name, *cells]) + " |")
            print(lines[-1], flush=True)
    return TEXT.format(table="\n".join(lines))


TEXT = f"""# What digests save

Messages per notification, by how long a notification may wait (`--digest-delay`, in periods).
Without digests it is 1.

{{table}}

Made by `python -m bench.digest`, which runs a real stream for each of them: a file of {SOURCES:,}
events every {PERIOD_MS} ms (a period), {FILES} files, {SUBSCRIPTIONS:,} subscriptions, all alike,
one of which matches an event. Each of {SOURCES:,} sources has one event per file and goes on
matching the same subscription for a run of files. What waits at the end is told at the end.

It has the shape of C10 (CHORD, Fig. 9a; [lab.md](lab.md)): where events have temporal locality, or
subscribers many subscriptions, messages fall strongly, and most of that comes at small delays. A
delay of d periods can join d + 1 batches, so long runs approach 1/(d + 1): a half, a third, a
sixth. Where events are independent and every subscription has its own subscriber there is little to
join, here as there. C10 counts hops in a network and this counts messages of a stream: compare
shapes, not figures.
"""


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.read_text())
