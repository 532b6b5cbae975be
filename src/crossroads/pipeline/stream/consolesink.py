"""Notifications on the terminal: a line each, for people or as JSON.

What is printed cannot be taken back, nor asked for: after a crash a batch may be printed again,
with the same notification ids.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TextIO

import pyarrow as pa

from crossroads.model.values import text_of
from crossroads.pipeline.stream.sinkcolumns import NOTIFICATION_ID as NOTIFICATION_ID
from crossroads.pipeline.stream.sinkcolumns import is_digest, json_line, plain_rows
from crossroads.pipeline.stream.sinks import Delivery, notification_ids

_TOLD_APART = ("event_id", "subscription_id", "subscriber", NOTIFICATION_ID)


class ConsoleSink:
    exactly_once = False

    def __init__(self, *, as_json: bool = False, stream: TextIO | None = None) -> None:
        self.as_json = as_json
        self._stream = stream

    @property
    def name(self) -> str:
        return "the terminal"

    def open(self) -> None:
        """Nothing to prepare."""

    def has(self, number: int) -> bool:
        return False

    def publish(self, delivery: Delivery) -> None:
        # Looked up now, not when made: whoever redirects it means what comes after.
        stream = self._stream or sys.stdout
        line_of = json_line if self.as_json else line_for_people
        for table in delivery.tables():
            stream.write("".join(f"{line_of(row)}\n" for row in plain_rows(identified(table))))
        stream.flush()

    def close(self) -> None:
        """The terminal is not ours to close."""


def identified(table: pa.Table) -> pa.Table:
    """With a column of stable ids, by which a reader knows what was told before."""
    names = table.column_names
    if is_digest(names):  # which has ids of its own
        return table
    who = "subscription_id" if "subscription_id" in names else "subscriber"
    events, whom = (table[name].cast(pa.string()).to_pylist() for name in ("event_id", who))
    return table.append_column(NOTIFICATION_ID, pa.array(notification_ids(events, whom)))


def line_for_people(row: dict[str, Any]) -> str:
    """
    >>> line_for_people({"event_id": "e7", "subscriber": "ann", "price": 12})
    'ann ← e7 price=12'
    """
    start = str(row.get("subscriber"))
    if is_digest(row):
        return _on_one_line(f"{start} ← {row['notification_count']}: {row['notifications']}")
    start += f" ← {row['event_id']}"
    if "subscription_id" in row:
        start += f" ({row['subscription_id']})"
    return _on_one_line(" ".join([start, *_others(row)]))


def _others(row: dict[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        if name not in _TOLD_APART:
            yield f"{name}={text_of(value)}"


def _on_one_line(text: str) -> str:
    """Ids come from outside: none of them may move the cursor or begin a line of its own."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
