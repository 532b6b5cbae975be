"""Notifications to a Python function, one call for each delivery.

    def tell(told: Told) -> None:
        for row in told:                 # a dict per notification, read piece by piece
            send(row["subscriber"], row["event_id"], key=row["notification_id"])

    CallbackSink(tell)

The function returns when it is done with all of it; what it raises stops the stream, and the
delivery is handed over again at the next start. So it may be told the same twice, with the same
`number` and under the same `notification_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from crossroads.pipeline.stream.consolesink import identified
from crossroads.pipeline.stream.sinkcolumns import is_digest
from crossroads.pipeline.stream.sinks import Delivery


@dataclass(frozen=True)
class Told:
    """The notifications of one delivery; to be read while the function runs, as often as wanted."""

    delivery: Delivery

    @property
    def number(self) -> int:
        """Only grows; the same when the same is handed over again."""
        return self.delivery.number

    def __len__(self) -> int:
        return self.delivery.rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for table in self.tables():
            for row in table.to_pylist():
                if is_digest(row):
                    row["notifications"] = msgspec.json.decode(row["notifications"])
                yield row

    def tables(self) -> Iterator[pa.Table]:
        """Arrow tables of bounded size: for whoever wants columns, several times as fast."""
        for table in self.delivery.tables():
            yield identified(table)


class CallbackSink:
    exactly_once = False

    def __init__(self, function: Callable[[Told], object]) -> None:
        self.function = function

    @property
    def name(self) -> str:
        return f"function {getattr(self.function, '__qualname__', repr(self.function))}"

    def open(self) -> None:
        """Nothing to prepare: the function has what it needs."""

    def has(self, number: int) -> bool:
        return False

    def publish(self, delivery: Delivery) -> None:
        if delivery.rows:
            self.function(Told(delivery))

    def close(self) -> None:
        """Nothing is held open."""
