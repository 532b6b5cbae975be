"""A sample of both sides of a run, read by the driver: what a mapping is fitted to.

The first rows of splits that lie evenly over the input: files are often sorted, and the beginning
of one file alone would speak for one day or one customer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from crossroads.mapping.sample import Sample
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, read_filters
from crossroads.pipeline.reading import read_split, text_blocks
from crossroads.pipeline.source import Split

SUBSCRIPTIONS_SAMPLED = 10_000  # a cell with a hundredth of them is known within ten percent
EVENTS_SAMPLED = 20_000
SPLITS_SAMPLED = 16  # each costs a look at a file


def sample_sides(subscriptions: Sequence[Split], events: Sequence[Split], schema: Schema) -> Sample:
    return Sample(sample_filters(subscriptions, schema), sample_events(events, schema))


def sample_filters(
    splits: Sequence[Split], schema: Schema, rows_max: int = SUBSCRIPTIONS_SAMPLED
) -> FilterTable:
    chosen = _evenly(splits)
    each = -(-rows_max // max(1, len(chosen)))
    texts = [part for split in chosen for part in _first(_filters(split), each)]
    column = pa.chunked_array([chunk for part in texts for chunk in part.chunks], pa.string())
    return read_filters(column.drop_null(), schema)


def _filters(split: Split) -> Iterator[pa.ChunkedArray]:
    return (block.table["filter"] for block in text_blocks(split, ("filter",)))


def sample_events(
    splits: Sequence[Split], schema: Schema, rows_max: int = EVENTS_SAMPLED
) -> pa.Table:
    chosen = _evenly(splits)
    each = -(-rows_max // max(1, len(chosen)))
    parts = [
        part
        for split in chosen
        for part in _first((batch.table for batch in read_split(split, schema)), each)
    ]
    return pa.concat_tables([schema.arrow.empty_table(), *parts])


def _evenly(splits: Sequence[Split]) -> list[Split]:
    count = min(len(splits), SPLITS_SAMPLED)
    return [splits[at] for at in np.linspace(0, len(splits) - 1, count).astype(int).tolist()]


Rows = TypeVar("Rows", pa.Table, pa.ChunkedArray)


def _first(parts: Iterator[Rows], rows: int) -> Iterator[Rows]:
    """Parts of that many rows in all."""
    for part in parts:
        if rows <= 0:
            return
        yield part.slice(0, rows)
        rows -= len(part)
