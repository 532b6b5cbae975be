"""What a running stream tells: to whoever watches it, and in numbers since it was started."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

RECENT = 20  # batches that rates are taken over


@dataclass(frozen=True, kw_only=True)
class BatchDone:
    """One batch, delivered."""

    batch: int
    events: int
    rejected: int
    repeated: int
    notifications: int
    subscription_version: int
    seconds: float
    lag_seconds: float | None  # from the arrival of its oldest input to its delivery
    replayed: bool  # it had been begun before a restart
    stages: dict[str, float] = field(default_factory=dict)


class Watcher(Protocol):
    """Told from the thread that does it; should not take long."""

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        """`counts`: notifications by subscription, where `wants_counts`."""

    def version(self, version: int, what: dict[str, Any]) -> None: ...

    def warning(self, text: str) -> None: ...

    @property
    def wants_counts(self) -> bool: ...


class Totals:
    """Sums since the start and rates over the last batches; for any thread."""

    wants_counts = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[tuple[float, BatchDone]] = deque(maxlen=RECENT)
        self._started = time.monotonic()
        self.sums = dict.fromkeys(("batches", "events", "rejected", "repeated", "notifications"), 0)
        self.last: BatchDone | None = None

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        with self._lock:
            self._recent.append((time.monotonic(), done))
            self.last = done
            self.sums["batches"] += 1
            for name in ("events", "rejected", "repeated", "notifications"):
                self.sums[name] += getattr(done, name)

    def version(self, version: int, what: dict[str, Any]) -> None:
        """Not counted."""

    def warning(self, text: str) -> None:
        """Not counted."""

    def rates(self) -> tuple[float, float]:
        """Events and notifications per second, lately."""
        with self._lock:
            if not self._recent:
                return 0.0, 0.0
            first, begun = self._recent[0]
            since = max(1e-3, time.monotonic() - first + begun.seconds)
            events = sum(done.events for _, done in self._recent)
            told = sum(done.notifications for _, done in self._recent)
            return events / since, told / since

    def summary(self) -> dict[str, Any]:
        with self._lock:
            return {**self.sums, "seconds": round(time.monotonic() - self._started, 3)}
