"""Where notifications go, and the one promise all sinks make.

A **delivery** is the notifications of one batch of the stream (or of one flush of a digest), under
a number that only grows. After a crash the stream may hand over the same delivery again, with the
same rows. A sink that is `exactly_once` remembers its deliveries in the same atomic step as their
rows, so handing over again changes nothing. The others tell again, with the same notification ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.pipeline.notify import NOTIFICATIONS, Notify

FLUSHES_PER_BATCH = (
    1 << 16
)  # deliveries between two batches: flushes of digests while nothing comes
ROWS_AT_A_TIME = 65_536


def delivery_number(batch: int, flush: int = 0) -> int:
    assert 0 <= flush < FLUSHES_PER_BATCH, flush
    return batch * FLUSHES_PER_BATCH + flush


@dataclass(frozen=True)
class Delivery:
    """Notifications on their way out: parts in a staging folder that belongs to this delivery."""

    number: int
    staging: Path
    notify: Notify
    rows: int

    @property
    def parts(self) -> list[Path]:
        return sorted((self.staging / NOTIFICATIONS).glob(f"part-*.{self.notify.format}"))

    def tables(self) -> Iterator[pa.Table]:
        """The rows, in pieces of bounded size; only of Parquet parts."""
        for part in self.parts:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(ROWS_AT_A_TIME):
                    yield pa.Table.from_batches([batch])


class Sink(Protocol):
    """Used by one thread of one driver at a time."""

    @property
    def name(self) -> str:
        """For messages: what it is and where."""

    @property
    def exactly_once(self) -> bool: ...

    def open(self) -> None:
        """Connect, create what is missing, refuse what cannot work: before the first event."""

    def has(self, number: int) -> bool:
        """Whether this delivery is in already. A sink that cannot know says no."""

    def publish(self, delivery: Delivery) -> None:
        """All of it, or nothing; doing it again changes nothing if `exactly_once`."""

    def close(self) -> None: ...


def notification_id(event_id: str, subscription_id: str) -> str:
    """The same for the same pair, in every run: what readers of at-least-once sinks compare."""
    pair = f"{len(event_id)}:{event_id}{subscription_id}".encode()
    return hashlib.blake2b(pair, digest_size=16).hexdigest()


def notification_ids(event_ids: Sequence[str], subscription_ids: Sequence[str]) -> list[str]:
    pairs = zip(event_ids, subscription_ids, strict=True)
    return [notification_id(event, subscription) for event, subscription in pairs]
