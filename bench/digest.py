"""How far digests cut messages on a stream; writes docs/streaming-digest.md.

No Spark and no clock: the machine that decides who is told (`stream/digest`) is driven with batches
of notifications, seeded. What is drawn is who matches, as W1 has it: about one match per event, all
subscriptions alike. A stream has sources (tickers, sensors); each has one event per batch and goes
on matching the same subscription for `run` batches on average: the temporal locality of C10.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.sizes import SEED
from crossroads.pipeline.stream.digest import ARRIVED_MS, Digest, messages, parted
from crossroads.pipeline.stream.digestlog import arrived

PAGE = Path(__file__).resolve().parent.parent / "docs" / "streaming-digest.md"
SOURCES = 2_500  # events per batch: 10,000 a second, four batches a second
SUBSCRIPTIONS = 100_000
BATCHES = 40
PERIOD_MS = 250
DELAYS = (0, 1, 2, 5)  # in periods


@dataclass(frozen=True)
class Load:
    name: str
    subscribers: int  # who share the subscriptions evenly
    run: int  # batches for which a source matches the same subscription, on average


LOADS = (
    Load("a subscriber for each subscription, independent events", SUBSCRIPTIONS, 1),
    Load("the same, runs of 10", SUBSCRIPTIONS, 10),
    Load("the same, runs of 100", SUBSCRIPTIONS, 100),
    Load("1,000 subscribers, independent events", 1_000, 1),
)


@dataclass(frozen=True)
class Outcome:
    messages_per_notification: float
    mean_wait: float  # in periods


def drawn(load: Load) -> list[pa.Table]:
    """The notifications of each batch."""
    chance = np.random.default_rng(SEED)
    matched = chance.integers(0, SUBSCRIPTIONS, SOURCES)
    batches = []
    for batch in range(BATCHES):
        moves = chance.random(SOURCES) < 1 / load.run
        matched = np.where(moves, chance.integers(0, SUBSCRIPTIONS, SOURCES), matched)
        columns = {
            "event_id": [f"{batch}.{source}" for source in range(SOURCES)],
            "subscription_id": [f"s{each}" for each in matched.tolist()],
            "subscriber": [f"u{each % load.subscribers}" for each in matched.tolist()],
        }
        batches.append(pa.table(columns))
    return batches


def measured(batches: list[pa.Table], periods: int) -> Outcome:
    """All that was told, with what waits at the end told at the end."""
    digest = Digest(periods * PERIOD_MS)
    waiting: pa.Table | None = None
    sent, waits_ms, notifications = 0, 0, 0
    last = len(batches) - 1
    for batch, rows in enumerate(batches):
        now_ms = batch * PERIOD_MS
        waiting = arrived(waiting, rows, batch, now_ms)
        told = digest.told(waiting, now_ms, everything=batch == last)
        leaving, waiting = parted(waiting, told)
        sent += messages(leaving, digest.size, batch).num_rows
        waits_ms += int((now_ms - leaving[ARRIVED_MS].to_numpy()).sum())
        notifications += leaving.num_rows
    assert notifications == sum(rows.num_rows for rows in batches)
    return Outcome(sent / notifications, waits_ms / notifications / PERIOD_MS)


def page() -> str:
    head = ["notifications", *(f"{d}×" if d else "0" for d in DELAYS)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for load in LOADS:
        batches = drawn(load)
        outcomes = [measured(batches, periods) for periods in DELAYS]
        cells = [f"{o.messages_per_notification:.2f} (waits {o.mean_wait:.1f})" for o in outcomes]
        lines.append("| " + " | ".join([load.name, *cells]) + " |")
    return TEXT.format(table="\n".join(lines))


TEXT = f"""# What digests save

Messages per notification, by how long a notification may wait (`--digest-delay`, in periods of the
trigger). Without digests it is 1. In brackets: how many periods a notification waits on average.

{{table}}

Made by `python -m bench.digest`: {BATCHES} batches of {SOURCES:,} notifications, {SUBSCRIPTIONS:,}
subscriptions, all alike, seeded. Who matches is drawn, not matched: one subscription per event.
Each of {SOURCES:,} sources has one event per batch and goes on matching the same subscription for a
run of batches. What waits at the end is told at the end.

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
