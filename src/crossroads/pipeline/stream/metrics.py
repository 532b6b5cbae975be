"""What a stream tells Prometheus: `http://127.0.0.1:PORT/metrics`, in a registry of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    start_http_server,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import crossroads
from crossroads.errors import EnvironmentProblem
from crossroads.pipeline.stream.busiest import Busiest
from crossroads.pipeline.stream.job import Running
from crossroads.pipeline.stream.watching import BatchDone

HOST = "127.0.0.1"  # who may look from elsewhere is for a proxy to decide
PREFIX = "crossroads_stream"
# A batch takes a tenth of a second when little comes, and seconds on a backlog.
BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
WHOLE = "all"  # the stage that is the sum of the others
SUMS = {
    "events": "Events taken, rejected ones not among them.",
    "notifications": "Notifications delivered.",
    "rejected": "Events rejected, repeated ones among them.",
    "repeated": "Events whose id was seen before, within the duplicate window.",
}


class Metrics:
    """A watcher; told by the threads of the stream, asked by those of the HTTP server."""

    wants_counts = True

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._sums = {name: self._counter(name, text) for name, text in SUMS.items()}
        self._batches = self._counter("batches", "Batches delivered.")
        self._replayed = self._counter(
            "batches_replayed", "Batches that had been begun before a restart."
        )
        self._changes = self._counter("subscription_changes", "Changes of the subscriptions.")
        self._warnings = self._counter("warnings", "Warnings; the log has their text.")
        self._seconds = Histogram(
            f"{PREFIX}_batch_seconds",
            "Seconds a batch took, by stage.",
            ["stage"],
            registry=self.registry,
            buckets=BUCKETS,
        )
        self._lag = self._gauge("lag_seconds", "Arrival to delivery, of the oldest of a batch.")
        self._last = self._gauge("last_batch_timestamp_seconds", "When a batch was delivered last.")
        self._busiest = BusiestSubscriptions()
        self.registry.register(self._busiest)

    def follow(self, running: Running) -> None:
        """Figures that are looked up when somebody asks."""
        batches, following = running.batches, running.following
        looked_up: dict[str, tuple[str, Callable[[], float]]] = {
            "subscription_version": ("Of the subscriptions.", lambda: following.log.current),
            "subscriptions": ("Neither paused nor expired.", lambda: following.log.living),
            "batch_age_seconds": ("How long the batch at work has taken.", batches.age),
        }
        seen = batches.matching.seen
        if seen is not None:
            text = "Ids of events in the duplicate window, and some that just left it."
            looked_up["seen_ids"] = (text, lambda: len(seen))
        for name, (text, look) in looked_up.items():
            self._gauge(name, text).set_function(look)
        about = Info(PREFIX, "What this stream is.", registry=self.registry)
        names = {"source": batches.source.name, "sink": batches.sink.name}
        about.info({**names, "crossroads": crossroads.__version__})

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        for name, counter in self._sums.items():
            counter.inc(getattr(done, name))
        self._batches.inc()
        self._replayed.inc(done.replayed)
        for stage, seconds in done.stages.items():
            self._seconds.labels(stage).observe(seconds)
        self._seconds.labels(WHOLE).observe(done.seconds)
        if done.lag_seconds is not None:
            self._lag.set(done.lag_seconds)
        self._last.set(time.time())
        self._busiest.add(counts, done.notifications)

    def version(self, version: int, what: dict[str, Any]) -> None:
        self._changes.inc(bool(what["changed"]))

    def warning(self, text: str) -> None:
        self._warnings.inc()

    @contextmanager
    def served(self, port: int) -> Iterator[int]:
        """Over HTTP while the block runs, on the port that is yielded (0 takes a free one)."""
        try:
            server, thread = start_http_server(port, HOST, self.registry)
        except OSError as error:
            raise EnvironmentProblem(
                f"--metrics {port}: {error.strerror or error}",
                hint="another program has this port, or you may not use it: choose another",
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, registry=self.registry)


class BusiestSubscriptions(Collector):
    """A series for each of the busiest subscriptions, and how far off they may be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = Busiest()
        self._uncounted = 0

    def add(self, counts: dict[str, int] | None, notifications: int) -> None:
        with self._lock:
            if counts is None:
                self._uncounted += notifications
            else:
                self._table.add(counts)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            top, floor, uncounted = self._table.top(), self._table.floor, self._uncounted
        told = CounterMetricFamily(
            f"{PREFIX}_subscription_notifications",
            "Of the busiest subscriptions; too high by at most the floor.",
            labels=["subscription_id"],
        )
        for busy in top:
            told.add_metric([busy.subscription], busy.count)
        yield told
        yield GaugeMetricFamily(
            f"{PREFIX}_subscription_notifications_floor",
            "A subscription that is not kept has at most this; 0 means that all are exact.",
            value=floor,
        )
        yield CounterMetricFamily(
            f"{PREFIX}_subscription_notifications_uncounted",
            "Notifications of batches too large to be counted by subscription.",
            value=uncounted,
        )
