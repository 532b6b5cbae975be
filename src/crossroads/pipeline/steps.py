"""Matching in steps of bounded size: a few events may match millions of subscriptions each.

How many events a step takes is foreseen from how dense the answer was so far. Where that fails, the
step is given up and taken again with fewer events. One event alone may match everything there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from crossroads.matching.classes import TooDense
from crossroads.matching.index import Matches

PAIRS_PER_STEP = 4 << 20  # matches held at a time: some ten MB of ordinals, a Parquet row group
PAIRS_PER_STEP_MAX = 64 << 20  # where they were not foreseen; 256 MB of ordinals
EVENTS_FIRST_STEP = 256  # how dense the answer is, is known only after the first step


class Matcher(Protocol):
    """A MatchIndex, or several that are one to whoever asks."""

    def match_batch(
        self, events: pa.Table | pa.RecordBatch, *, most: int | None = None
    ) -> Matches: ...


def match_in_steps(
    index: Matcher, events: pa.Table | pa.RecordBatch
) -> Iterator[tuple[int, pa.Table | pa.RecordBatch, Matches]]:
    """(first row, those events, their matches) for pieces of about PAIRS_PER_STEP matches."""
    start, size = 0, EVENTS_FIRST_STEP
    while start < events.num_rows:
        rows = events.slice(start, size)
        try:
            matches = index.match_batch(rows, most=PAIRS_PER_STEP_MAX)
        except TooDense:
            size = max(1, rows.num_rows // 16)
            continue
        yield start, rows, matches
        start += rows.num_rows
        size = max(1, PAIRS_PER_STEP * rows.num_rows // max(matches.ordinals.size, 1))
