"""Matching in steps of bounded size: a few events may match millions of subscriptions each.

What a step will hold is foreseen from how dense the answer was so far; within a step, one event
may still match everything there is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from crossroads.matching.index import Matches, MatchIndex

PAIRS_PER_STEP = 4 << 20  # matches held at a time: some ten MB of ordinals, a Parquet row group
EVENTS_FIRST_STEP = 256  # how dense the answer is, is known only after the first step


def match_in_steps(
    index: MatchIndex, events: pa.Table | pa.RecordBatch
) -> Iterator[tuple[int, pa.Table | pa.RecordBatch, Matches]]:
    """(first row, those events, their matches) for pieces of about PAIRS_PER_STEP matches."""
    start, size = 0, EVENTS_FIRST_STEP
    while start < events.num_rows:
        rows = events.slice(start, size)
        matches = index.match_batch(rows)
        yield start, rows, matches
        start += rows.num_rows
        per_event = matches.ordinals.size / rows.num_rows
        size = max(1, int(PAIRS_PER_STEP / max(per_event, PAIRS_PER_STEP / events.num_rows)))
