"""Notifications collected per subscriber: fewer messages, each a little later. No IO, no clock.

CHORD (4.3.2) buffers: a node accumulates what it would tell a subscriber and sends it together.
Here the stream is the node. A notification waits until the oldest one that waits for the same
subscriber is `delay_ms` old, or until there are `size` of them:

    due by age     all that waits for the subscriber leaves, in messages of at most `size`
    due by size    full messages leave, oldest first; the rest goes on waiting

Tables of waiting rows are in the order of arrival.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import UsageError
from crossroads.pipeline.stream.sinkcolumns import MESSAGE_ID, json_text, plain_columns

SIZE_MAX = 10_000  # at 100 bytes a notification, what brokers take as one message by default
SUBSCRIBER = "subscriber"
# Columns of our own have names that no attribute can have.
ARRIVED_MS = "_arrived_ms"  # of a waiting row: when it came
ARRIVED_IN = "_arrived_in"  # and in which delivery
STAYING = "_staying"  # of who is told: how many of its newest rows go on waiting
MESSAGE_COLUMNS = pa.schema(
    [
        (MESSAGE_ID, pa.string()),
        (SUBSCRIBER, pa.string()),
        ("notification_count", pa.int64()),
        ("first_ms", pa.int64()),
        ("last_ms", pa.int64()),
        ("notifications", pa.string()),
    ]
)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Digest:
    delay_ms: int
    size: int = SIZE_MAX

    def __post_init__(self) -> None:
        if self.delay_ms < 0:
            raise UsageError(f"a delay of {self.delay_ms} ms is in the past")
        if not 1 <= self.size <= SIZE_MAX:
            raise UsageError(f"a digest has 1 to {SIZE_MAX:,} notifications, not {self.size:,}")

    def told(self, waiting: pa.Table, now_ms: int, *, everything: bool = False) -> pa.Table:
        """Who is told now, and how many of its newest rows stay."""
        oldest, newest, count = f"{ARRIVED_MS}_min", f"{ARRIVED_MS}_max", f"{ARRIVED_MS}_count"
        groups = waiting.select([SUBSCRIBER, ARRIVED_MS]).group_by(SUBSCRIBER, use_threads=False)
        groups = groups.aggregate([(ARRIVED_MS, "min"), (ARRIVED_MS, "max"), (ARRIVED_MS, "count")])
        # A clock that was set back would keep rows of its future waiting: they are due at once.
        by_age = (groups[oldest].to_numpy() <= now_ms - self.delay_ms) | (
            groups[newest].to_numpy() > now_ms
        )
        counts = groups[count].to_numpy()
        staying = np.where(by_age | everything, 0, counts % self.size)
        table = pa.table({SUBSCRIBER: groups[SUBSCRIBER], STAYING: pa.array(staying)})
        return table.filter(pa.array(staying < counts))

    def is_due(self, waiting: pa.Table, now_ms: int) -> bool:
        """Whether anybody would be told by age: what is due by size never waits."""
        ages = pc.min_max(waiting[ARRIVED_MS])
        oldest, newest = ages["min"].as_py(), ages["max"].as_py()
        return oldest is not None and (oldest <= now_ms - self.delay_ms or newest > now_ms)

    def due_ms(self, waiting: pa.Table) -> int | None:
        """When the next subscriber has to be told, if nothing more comes."""
        oldest = pc.min(waiting[ARRIVED_MS]).as_py()
        return None if oldest is None else oldest + self.delay_ms


def parted(waiting: pa.Table, told: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that leave and those that stay."""
    if told.num_rows == 0:
        return waiting.slice(0, 0), waiting
    codes, names = _coded(waiting)
    staying = np.full(len(names), waiting.num_rows, np.int64)  # the others keep all they have
    # Read back from the log, `told` may name rows of files that are gone, with all that left them:
    # so a subscriber need not be here, and rows are counted from the newest.
    places = pc.index_in(told[SUBSCRIBER], value_set=names)
    here = places.is_valid()
    staying[places.filter(here).to_numpy()] = told[STAYING].filter(here).to_numpy()
    from_newest = _place_within(codes[::-1])[::-1]
    stays = from_newest < staying[codes]
    return waiting.filter(pa.array(~stays)), waiting.filter(pa.array(stays))


def messages(leaving: pa.Table, size: int, number: int) -> pa.Table:
    """A row per message; the same rows give the same messages, under the same ids."""
    codes, names = _coded(leaving)
    order = np.argsort(codes, kind="stable")
    rows = leaving.take(pa.array(order))
    texts, times = _texts(rows), rows[ARRIVED_MS].to_numpy()
    subscribers = names.to_pylist()
    found: list[tuple[Any, ...]] = []
    for start, end in _pieces(codes[order], size):
        subscriber = subscribers[codes[order[start]]]
        text = f"[{','.join(texts[start:end])}]"
        name = f"{number}:{start}:{subscriber}{text}".encode()
        first_ms, last_ms = int(times[start:end].min()), int(times[start:end].max())
        message_id = hashlib.blake2b(name, digest_size=16).hexdigest()
        found.append((message_id, subscriber, end - start, first_ms, last_ms, text))
    columns = zip(*found, strict=True) if found else [()] * len(MESSAGE_COLUMNS)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, MESSAGE_COLUMNS, strict=True)],
        schema=MESSAGE_COLUMNS,
    )


def _coded(rows: pa.Table) -> tuple[Integers, pa.Array]:
    """Subscribers by number, in the order in which they first appear."""
    coded = rows[SUBSCRIBER].combine_chunks().dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary


def _place_within(codes: Integers) -> Integers:
    """0 for the first row of each code, 1 for its second, …"""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = np.empty_like(codes)
    places[order] = np.arange(codes.size) - starts[codes[order]]
    return places


def _pieces(codes: Integers, size: int) -> Iterator[tuple[int, int]]:
    """Stretches of one code, cut at `size`."""
    ends = np.append(np.flatnonzero(np.diff(codes)) + 1, codes.size)
    start = 0
    for end in ends.tolist():
        while start < end:
            yield start, min(start + size, end)
            start = min(start + size, end)


def _texts(rows: pa.Table) -> list[str]:
    told = rows.drop_columns([SUBSCRIBER, ARRIVED_MS, ARRIVED_IN])
    names = told.column_names
    values = zip(*plain_columns(told), strict=True)
    return [json_text(dict(zip(names, row, strict=True))) for row in values]
