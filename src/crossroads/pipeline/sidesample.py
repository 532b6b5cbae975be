"""A sample of one side of a run, read by the driver: what mappings are fitted to and costs foreseen
from.

Rows at equal distances among the first ones of a few splits that lie evenly over the input: files
are often sorted, and the beginning of one file alone would speak for one day or one customer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crossroads.mapping.sample import Sample
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.reading import read_split, require_columns, text_blocks
from crossroads.pipeline.source import Split

SUBSCRIPTIONS_FITTED = 10_000  # a cell with a hundredth of them is known within ten percent
EVENTS_FITTED = 20_000
SPLITS_SAMPLED = 8  # each costs a look at a file
ROWS_READ = 131_072  # of which the sample is taken; a fraction of a second


@dataclass(frozen=True)
class Rows:
    sampled: pa.Table
    seen: int  # usable ones that were read
    refused: Sequence[str] = ()  # why others are not among them


def sample_sides(subscriptions: Sequence[Split], events: Sequence[Split], schema: Schema) -> Sample:
    """For fitting a mapping."""
    asked = sample_subscriptions(subscriptions, ("filter",), SUBSCRIPTIONS_FITTED)
    filters = read_filters(asked.sampled["filter"], schema)
    return Sample(filters, sample_events(events, schema, EVENTS_FITTED).sampled)


def sample_subscriptions(splits: Sequence[Split], columns: Sequence[str], rows: int) -> Rows:
    """These columns, as text, of subscriptions that have a filter."""
    chosen = evenly(splits)
    parts = [pa.table({name: pa.array([], pa.string()) for name in columns})]
    for split in chosen:
        require_columns(split, columns, columns)
        tables = (block.table.select(list(columns)) for block in text_blocks(split, columns))
        parts += _first(tables, _each(chosen))
    table = pa.concat_tables(parts)
    asked = table.filter(table["filter"].is_valid())
    return Rows(_thinned(asked, rows), asked.num_rows)


def sample_events(splits: Sequence[Split], schema: Schema, rows: int = EVENTS_FITTED) -> Rows:
    """Valid ones, typed."""
    chosen = evenly(splits)
    parts, refused = [schema.arrow.empty_table()], list[str]()

    def valid(split: Split) -> Iterator[pa.Table]:
        for batch in read_split(split, schema, _each(chosen)):
            refused.extend(f"line {one.line}: {one.reason}" for one in batch.rejects)
            yield batch.table

    for split in chosen:
        parts += _first(valid(split), _each(chosen))
    table = pa.concat_tables(parts)
    return Rows(_thinned(table, rows), table.num_rows, refused)


def evenly(splits: Sequence[Split]) -> list[Split]:
    """A few splits at equal distances."""
    count = min(SPLITS_SAMPLED, len(splits))
    return [splits[at] for at in np.linspace(0, len(splits) - 1, count).astype(int).tolist()]


def _each(chosen: Sequence[Split]) -> int:
    """Rows read of each split."""
    return -(-ROWS_READ // max(1, len(chosen)))


def _first(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    for table in tables:
        yield table.slice(0, rows)
        rows -= table.num_rows
        if rows <= 0:
            return


def _thinned(table: pa.Table, rows: int) -> pa.Table:
    """At most that many, at equal distances."""
    if table.num_rows > rows:
        table = table.take(pa.array(np.linspace(0, table.num_rows - 1, rows).astype(np.int64)))
    return table.combine_chunks()
