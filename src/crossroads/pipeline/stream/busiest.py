"""Which subscriptions receive most, in a table of fixed size however many there are.

The table is a Misra–Gries summary to which whole batches are added. `floor` bounds what any
subscription may have that is not in it. One that comes (back) in starts there, so counts are never
too low, are too high by at most `error` of their own, and never fall. Whoever has more than one in
`kept + 1` of all notifications is in the table for sure; as long as no more than `kept` different
ones were notified, everything is exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from crossroads.pipeline.stream.sinks import Delivery

KEPT = 1_000  # counters: some 100 kB; the floor is then below a thousandth of all notifications
SUBSCRIPTION = "subscription_id"
_ONLY_SUBSCRIPTION = pyarrow.json.ParseOptions(
    explicit_schema=pa.schema([(SUBSCRIPTION, pa.string())]), unexpected_field_behavior="ignore"
)
EXPORTED = 100  # of them shown to whoever asks: a time series each, for as long as it is busy


@dataclass(frozen=True, slots=True)
class Busy:
    subscription: str
    count: int  # at least the true number
    error: int  # at most so much above it


def counted(delivery: Delivery) -> dict[str, int]:
    """Notifications by subscription; read from the parts, so before the sink takes them."""
    counts: dict[str, int] = {}
    for part in delivery.parts:
        if delivery.notify.format == "parquet":
            table = pq.read_table(part, columns=[SUBSCRIPTION])
        else:
            table = pyarrow.json.read_json(part, parse_options=_ONLY_SUBSCRIPTION)
        for row in pc.value_counts(table[SUBSCRIPTION]).to_pylist():
            counts[row["values"]] = counts.get(row["values"], 0) + row["counts"]
    return counts


class Busiest:
    """For one thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self.floor = 0
        self._counts: dict[str, int] = {}
        self._errors: dict[str, int] = {}

    def add(self, counts: Mapping[str, int]) -> None:
        """The exact counts of one batch."""
        floor = self.floor
        for name, count in counts.items():
            before = self._counts.get(name)
            if before is None:
                before = self._errors[name] = floor
            self._counts[name] = before + count
        if len(self._counts) > self.kept:
            self._prune()

    def _prune(self) -> None:
        # One more than is kept: the first that is dropped says what the others may have had.
        largest = heapq.nlargest(self.kept + 1, self._counts.items(), key=lambda one: one[1])
        self.floor = largest.pop()[1]
        self._counts = dict(largest)
        self._errors = {name: self._errors[name] for name, _ in largest}

    def top(self, most: int = EXPORTED) -> list[Busy]:
        largest = heapq.nlargest(most, self._counts.items(), key=lambda one: one[1])
        return [Busy(name, count, self._errors[name]) for name, count in largest]
