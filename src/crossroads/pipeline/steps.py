"""Matching in steps of bounded size: a few events may match millions of subscriptions each.

What a step will hold is foreseen from how dense the answer was so far. That may fail, so a step
grows only so fast, and is never so large that every event of it could not match everything.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from crossroads.matching.index import Matches, MatchIndex

PAIRS_PER_STEP = 4 << 20  # matches held at a time: some ten MB of ordinals, a Parquet row group
PAIRS_PER_STEP_MAX = 1 << 29  # were everything to match: 2 GB of ordinals, and 32 bits count them
EVENTS_FIRST_STEP = 256  # how dense the answer is, is known only after the first step
GROWTH_MAX = 16  # times the step before: two sparse steps reach a whole batch


def match_in_steps(
    index: MatchIndex, events: pa.Table | pa.RecordBatch
) -> Iterator[tuple[int, pa.Table | pa.RecordBatch, Matches]]:
    """(first row, those events, their matches) for pieces of about PAIRS_PER_STEP matches."""
    most = max(1, PAIRS_PER_STEP_MAX // max(index.size, 1))
    start, size = 0, min(EVENTS_FIRST_STEP, most)
    while start < events.num_rows:
        rows = events.slice(start, size)
        matches = index.match_batch(rows)
        yield start, rows, matches
        start += rows.num_rows
        pairs = max(matches.ordinals.size, 1)
        foreseen = PAIRS_PER_STEP * rows.num_rows // pairs
        size = max(1, min(foreseen, size * GROWTH_MAX, most))
