"""The life of a batch: recorded, matched, delivered; each step done once, whoever is killed when.

    record     what was decided, durably, before anything is matched (`journal`)
    arrived    the input as splits
    match      parts in the staging folder
    claim      ids of the batch, durably (`seen`); then its outcome
    publish    rejects, then notifications, to places that know what they have
    forget     staging, old versions of the subscriptions

Everything before `publish` may happen again with the same result, and `publish` may be repeated.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame

from crossroads.pipeline.direct import REJECTED_EVENTS, Done
from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.stream.busiest import counted
from crossroads.pipeline.stream.digestsink import DigestSink
from crossroads.pipeline.stream.foldersink import emptied, publish_folder
from crossroads.pipeline.stream.journal import Journal, Outcome, Record
from crossroads.pipeline.stream.matchbatch import Matching, late_before, latest_until
from crossroads.pipeline.stream.sinks import Delivery, Sink, delivery_number
from crossroads.pipeline.stream.sources import Arrived, Cutting, Source
from crossroads.pipeline.stream.watching import BatchDone, Watcher

COUNTED_MAX = 1_000_000  # notifications of a batch that are counted by subscription


class Draining(Exception):
    """The stream is being stopped: no further batch begins."""


@dataclass
class Batches:
    """Called by Spark, one batch at a time."""

    source: Source
    sink: Sink
    matching: Matching
    journal: Journal
    watchers: Sequence[Watcher]
    scratch: Path  # staging and landing
    rejects: Path
    decide: Callable[[int, Record | None], Record]
    max_delay_ms: int | None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # held while a batch is at work
        self._draining = False
        self.finished: int | None = None  # the last batch of this run
        self.failure: BaseException | None = None
        self._counts: dict[str, int] | None = None
        self._since: float | None = None  # when the batch at work began

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with self._lock:
            if self._draining:
                raise Draining
            self._since = time.monotonic()
            try:
                self._run(frame, batch)
            except BaseException as error:
                self.failure = error  # Spark would only keep its text
                raise
            finally:
                self._since = None
            self.finished = batch

    def drain(self) -> None:
        """Returns when the batch at work is finished; none begins after it."""
        with self._lock:
            self._draining = True

    def age(self) -> float:
        """Seconds that the batch at work has taken; 0 when there is none. For any thread."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    # -- digests, while nothing comes --------------------------------------------------------------

    def flush_due(self) -> None:
        """Somebody may be waiting for longer than was promised, and no batch may ever come."""
        if not isinstance(self.sink, DigestSink) or not self._lock.acquire(blocking=False):
            return  # a batch is at work: it tells who is due
        try:
            now_ms = time.time_ns() // 1_000_000
            if self.sink.due(now_ms):
                self.sink.flush(now_ms)
        finally:
            self._lock.release()

    def flush_all(self) -> None:
        """The stream ends: what waits would otherwise wait until it is started again."""
        if isinstance(self.sink, DigestSink):
            with self._lock:
                self.sink.flush(time.time_ns() // 1_000_000, everything=True)

    # -- one batch ---------------------------------------------------------------------------------

    def _run(self, frame: DataFrame, batch: int) -> None:
        clock = _Clock()
        before = self.journal.outcome(batch - 1)
        found = self.journal.record(batch)
        record = found or self._begun(batch, before)
        clock.lap("record")
        number = delivery_number(batch)
        outcome = self.journal.outcome(batch)
        if outcome is not None and self.sink.has(number):
            self._forget(record)  # delivered before the restart; only Spark did not know
            return
        staging, landing = (emptied(self.scratch / name) for name in ("staging", "landing"))
        arrived = self.source.arrived(frame, landing, Cutting(record.split_bytes, record.cores))
        clock.lap("input")
        told_before = 0 if before is None else before.notifications
        done = self.matching.match(record, arrived, staging, told_before=told_before)
        outcome = self._settled(record, arrived, done, staging)
        clock.lap("match")
        self.journal.finish(outcome)
        self._publish(number, outcome, staging)
        clock.lap("publish")
        self._tell(record, outcome, arrived, clock, replayed=found is not None)
        self._forget(record)

    def _begun(self, batch: int, before: Outcome | None) -> Record:
        record = self.decide(batch, self.journal.record(batch - 1))
        latest = None if before is None else before.latest
        time_of = self.matching.time
        if time_of is not None and self.max_delay_ms is not None:
            # A clock that runs ahead must not make everybody else late.
            latest = latest_until(latest, record.started_ms, time_of)
            limit = late_before(latest, self.max_delay_ms, time_of)
            record = msgspec.structs.replace(record, latest=latest, late_before=limit)
        self.journal.begin(record)
        return record

    def _settled(self, record: Record, arrived: Arrived, done: Done, staging: Path) -> Outcome:
        if arrived.rejects:
            # Numbered after all splits: those have their own rejects under their own numbers.
            number = max((split.number for split in arrived.splits), default=-1) + 1
            folder = staging / REJECTED_EVENTS
            write_rejects(folder, arrived.rejects, self.matching.notify.format, number)
        latest = done.latest
        if latest is None or (record.latest is not None and record.latest > latest):
            latest = record.latest
        return Outcome(
            batch=record.batch,
            events=done.events,
            rejected=done.rejected + len(arrived.rejects),
            repeated=done.repeated,
            notifications=done.notifications,
            latest=latest,
        )

    def _publish(self, number: int, outcome: Outcome, staging: Path) -> None:
        if outcome.rejected:
            publish_folder(staging / REJECTED_EVENTS, self.rejects / REJECTED_EVENTS, number)
        delivery = Delivery(number, staging, self.matching.notify, outcome.notifications)
        self._counts = self._counted(delivery)
        self.sink.publish(delivery)

    def _counted(self, delivery: Delivery) -> dict[str, int] | None:
        """By subscription, before the parts go; only for whoever wants it, and not of a flood."""
        wanted = any(watcher.wants_counts for watcher in self.watchers)
        return counted(delivery) if wanted and delivery.rows <= COUNTED_MAX else None

    def _tell(
        self, record: Record, outcome: Outcome, arrived: Arrived, clock: _Clock, *, replayed: bool
    ) -> None:
        lag = None if arrived.oldest_ms is None else time.time() - arrived.oldest_ms / 1000
        done = BatchDone(
            batch=record.batch,
            events=outcome.events,
            rejected=outcome.rejected,
            repeated=outcome.repeated,
            notifications=outcome.notifications,
            subscription_version=record.subscription_version,
            seconds=clock.total(),
            lag_seconds=None if lag is None else round(lag, 3),
            replayed=replayed,
            stages=clock.laps,
        )
        for watcher in self.watchers:
            watcher.batch(done, self._counts)

    def _forget(self, record: Record) -> None:
        self.matching.log.release(record.subscription_version)
        for name in ("staging", "landing"):
            shutil.rmtree(self.scratch / name, ignore_errors=True)


class _Clock:
    def __init__(self) -> None:
        self._begun = self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 4)
        self._last = now

    def total(self) -> float:
        return round(time.perf_counter() - self._begun, 4)
