"""The parts of the streaming benchmark on folders: latency, the rate held, changes, a backlog."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from bench.streamjoin import Join
from bench.streamlatency import Output, Told, arrivals, percentiles, rise, told
from bench.streamload import (
    FILE_SECONDS,
    Feed,
    Given,
    matches_of,
    write_changes,
    write_pool,
)
from bench.streamours import Ours
from bench.streamrun import Side, feeding, files_for
from bench.streamsizes import CORES, StreamSizes
from bench.streamwatch import disturbance, thirds

TRIGGER_MS = 250  # of both, where it does not matter: the default
SOON_MS = 50  # of both, where latency does: a batch begins as soon as there is something to do
# Of the join's grid, per attribute. A coarse grid repeats subscriptions less, so that a batch costs
# less; a fine one has fewer candidates, so that an event does.
LATENCY_BITS, RATE_BITS = 3, 4
DRAIN_SECONDS = 60.0  # for what has arrived to be told
LOOK_SECONDS = 0.25
WINDOW_MS = 600_000  # the duplicate window where it is on: the default
RATE_MIN = 1_000  # who does not hold it holds nothing
RISE_MAX = 0.05  # seconds per second by which latency may seem to grow at a rate that is held
Say = Callable[[str], None]


class Stream:
    """A side on folders of its own, and what has arrived and been told."""

    def __init__(self, folder: Path, given: Given, kind: str, **settings: Any) -> None:
        folder.mkdir(parents=True)
        self.folder, self.output, self.log = folder, folder / "out", folder / "arrivals"
        self.inbox = folder / "in"
        self.inbox.mkdir()
        checkpoint = folder / "checkpoint"
        trigger_ms = settings.pop("trigger_ms", TRIGGER_MS)
        self.what: Ours | Join
        self.kind: Output
        if kind == "ours":
            self.what = Ours(
                schema=str(given.schema),
                subscriptions=str(settings.pop("subscriptions", given.subscriptions)),
                events=str(self.inbox),
                output=str(self.output),
                checkpoint=str(checkpoint),
                cores=CORES,
                trigger_ms=trigger_ms,
                **settings,
            )
            self.kind, self.spark = "ours", checkpoint / "spark"
        else:
            self.what = Join(
                typed=str(given.typed),
                inbox=str(self.inbox),
                output=str(self.output),
                checkpoint=str(checkpoint),
                trigger_ms=trigger_ms,
                cores=CORES,
                **settings,
            )
            self.kind, self.spark = self.what.sink, checkpoint

    def side(self) -> Side:
        return Side(self.what, self.folder)

    def feed(self, pool: Path, rows: int, first: int, files: int) -> Feed:
        return Feed(str(pool), str(self.inbox), str(self.log), rows, first, files)

    def told(self) -> list[Told]:
        return told(self.log, self.spark, self.output, self.kind)

    def await_all(self, side: Side, files: int, seconds: float = DRAIN_SECONDS) -> bool:
        """Until so many files are told; False if it takes longer."""
        until = time.monotonic() + seconds
        while len(self.told()) < files:
            side.check()
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def rows(self) -> int:
        """Notifications that are there, as a reader counts them."""
        if self.kind == "ours":
            return int(ds.dataset(self.output / "notifications").count_rows())
        return int(
            ds.dataset(self.output, exclude_invalid_files=True, format="parquet").count_rows()
        )

    def batches(self) -> list[dict[str, Any]]:
        lines = (self.folder / "batches.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


# -- (a) latency at one rate -------------------------------------------------------------------


def steady(
    folder: Path, given: Given, sizes: StreamSizes, kind: str, seconds: float, **settings: Any
) -> dict[str, Any]:
    """A file every 200 ms; the warm-up is fed in the same way and not counted."""
    rows = round(sizes.rate * FILE_SECONDS)
    files = files_for(sizes.warm_seconds + seconds)
    pool = write_pool(folder / "pool", files, rows)
    if kind == "join":
        settings["bits"] = LATENCY_BITS
    else:
        settings["heap_after"] = sizes.warm_seconds
    stream = Stream(folder / kind, given, kind, **settings)
    with stream.side() as side:
        with feeding(stream.feed(pool, rows, 0, files), stream.folder) as feeder:
            while feeder.poll() is None:
                side.check()
                stream.told()  # entries of Spark's sink are not kept for ever
                time.sleep(1)
        complete = stream.await_all(side, files)
        found = stream.told()
    since = arrivals(stream.log)[0].at + sizes.warm_seconds
    measured = [one for one in found if one.arrival.at >= since]
    expected = sum(matches_of(given, pool))
    told_rows = stream.rows()
    return {
        "rate": sizes.rate,
        "seconds": seconds,
        "complete": complete and told_rows == expected,
        "notifications": told_rows,
        "expected": expected,
        "matches_per_event": round(expected / (files * rows), 3),
        "latency": percentiles([one.seconds for one in measured]),
        "rise": round(rise(measured), 4),
        "batches": len({one.batch for one in measured}),
        "memory": thirds(side.samples, since) | heap(stream, kind),
        "disturbance": disturbance(side.samples, since),
        "spark_ms": side.progress(),
        "stages": stages(stream) if kind == "ours" else {},
        "over_time": [
            (round(one.arrival.at - since, 2), round(one.seconds, 4)) for one in measured
        ],
        "memory_over_time": [
            (round(one.at - since, 1), one.resident, one.java) for one in side.samples
        ],
    }


def heap(stream: Stream, kind: str) -> dict[str, int]:
    """What Java had in use after the warm-up and at the end."""
    if kind != "ours":
        return {}
    sizes = [one["bytes"] for one in stream.batches() if one["what"] == "heap"]
    return dict(zip(("heap_first", "heap_last"), sizes, strict=False))


def stages(stream: Stream) -> dict[str, float]:
    """Medians of the stages of our batches, in seconds, of the latter half."""
    batches = [one for one in stream.batches() if one["what"] == "batch"]
    late = batches[len(batches) // 2 :]
    return {
        name: round(statistics.median(one["stages"][name] for one in late), 4)
        for name in (late[0]["stages"] if late else ())
    }


def steady_as_it_can(
    folder: Path,
    given: Given,
    sizes: StreamSizes,
    kind: str,
    seconds: float,
    say: Say,
    **settings: Any,
) -> dict[str, Any]:
    """At the rate asked for; who cannot hold it, at half of it, and so on, for less long."""
    rate = sizes.rate
    while True:
        at = folder / str(rate)
        found = steady(at, given, replace(sizes, rate=rate), kind, seconds, **settings)
        if rate <= RATE_MIN or (found["complete"] and found["rise"] <= RISE_MAX):
            return found
        say(f"{kind} {rate:,} events/s: not held")
        seconds, rate = min(seconds, sizes.beside_seconds), rate // 2


# -- (d) changes -------------------------------------------------------------------------------


def changes(folder: Path, given: Given, sizes: StreamSizes) -> dict[str, Any]:
    """A backlog in batches of one size, so that there is no idle time, and a change now and then.

    A batch counts as one with a change if subscriptions were being taken up while it was at work,
    or if it is the first of a new version.
    """
    subscriptions = folder / "subscriptions"
    subscriptions.mkdir(parents=True)
    first = subscriptions / "000000.parquet"
    first.write_bytes(given.subscriptions.read_bytes())
    pool = write_pool(folder / "pool", 1, sizes.change_batch_events)
    (content,) = pool.iterdir()
    stream = Stream(
        folder / "stream",
        given,
        "ours",
        subscriptions=subscriptions,
        batch_bytes=content.stat().st_size,  # a file is a batch
    )
    for number in range(sizes.change_batches + WARM_BATCHES):
        (stream.inbox / f"{number:06d}.parquet").write_bytes(content.read_bytes())
    asked: list[float] = []
    with stream.side() as side:
        done = 0
        while done < sizes.change_batches + WARM_BATCHES:
            side.check()
            now_done = sum(1 for one in stream.batches() if one["what"] == "batch")
            if now_done >= WARM_BATCHES and now_done // CHANGE_EVERY > done // CHANGE_EVERY:
                asked.append(time.time())
                write_changes(subscriptions, len(asked), sizes.changes, sizes.subscriptions)
            done = now_done
            time.sleep(0.05)
    disturbed = disturbance(side.samples)
    return {"asked": len(asked), "disturbance": disturbed, **_compared(stream.batches(), asked)}


WARM_BATCHES = 8
CHANGE_EVERY = 4  # batches


def _compared(log: list[dict[str, Any]], asked: list[float]) -> dict[str, Any]:
    told_versions = [one["at"] for one in log if one["what"] == "version"][1:]
    busy = list(zip(asked, told_versions, strict=False))
    batches = [one for one in log if one["what"] == "batch"]
    rates: dict[bool, list[float]] = {False: [], True: []}
    for before, batch in zip(batches[WARM_BATCHES - 1 :], batches[WARM_BATCHES:], strict=False):
        begun, ended = before["at"], batch["at"]
        changed = batch["subscription_version"] != before["subscription_version"]
        changed |= any(start < ended and end > begun for start, end in busy)
        rates[changed].append(batch["events"] / (ended - begun))
    found = {name: rates[key] for name, key in (("without", False), ("with", True))}
    return {
        "versions_taken_up": len(told_versions),
        "seconds_to_take_up": [round(end - start, 3) for start, end in busy],
        **{f"batches_{name}": len(some) for name, some in found.items()},
        **{
            f"events_per_second_{name}": round(statistics.median(some)) if some else None
            for name, some in found.items()
        },
    }


# -- (e) a backlog -----------------------------------------------------------------------------


def backlog(folder: Path, given: Given, sizes: StreamSizes, window_ms: int) -> dict[str, Any]:
    """Everything is there when the stream starts; from the start of its query to its end."""
    pool = write_pool(folder / "pool", sizes.backlog_events // sizes.file_events, sizes.file_events)
    stream = Stream(
        folder / "stream", given, "ours", available_now=True, duplicate_window_ms=window_ms
    )
    stream.inbox.rmdir()
    pool.rename(stream.inbox)
    with stream.side() as side:
        side.await_end(600)
    log = stream.batches()
    (begun,), (ended,) = (
        [one["at"] for one in log if one["what"] == what] for what in ("started", "ended")
    )
    batches = [one for one in log if one["what"] == "batch"]
    events = sum(one["events"] for one in batches)
    return {
        "events": events,
        "notifications": sum(one["notifications"] for one in batches),
        "complete": events == sizes.backlog_events,
        "batches": len(batches),
        "stages": [one["stages"] for one in batches],
        "disturbance": disturbance(side.samples),
        "seconds": round(ended - begun, 3),
        "events_per_second": round(events / (ended - begun)),
    }
