"""A look at both sides before anything is decided: a sample of each, and how many there are.

The sample is rows at equal distances from the beginnings of a few splits, which lie over the whole
input; how many rows there are is known for Parquet and foreseen for text, from how many lines the
beginnings of the splits have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import EventError, SubscriptionError
from crossroads.mapping.sample import Sample
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.parameters import parametrise
from crossroads.pipeline.reading import read_split, require_columns, text_blocks
from crossroads.pipeline.situation import Side, Situation
from crossroads.pipeline.source import (
    SourceFile,
    Split,
    TruncatedGzip,
    list_files,
    plan_splits,
    read_chunks,
)
from crossroads.pipeline.subscriptions import COLUMNS

SUBSCRIPTIONS_SAMPLED = 4096  # counts per cell are then right to a few per cent
EVENTS_SAMPLED = 4096
SPLITS_SAMPLED = 8  # files are often sorted: a few places say more than one
ROWS_READ = (
    131_072  # of which the sample is taken evenly, for the same reason; a fraction of a second
)
SPLIT_BYTES = 8 << 20
LINES_BYTES = 256 << 10  # of each sampled split: thousands of lines, and no time at all
GZIP_RATIO = 5  # text of such rows packs to about a fifth
FILTERS_PER_PASS = 256  # filters without a shared shape that Spark is asked about at a time


@dataclass(frozen=True)
class Survey:
    sample: Sample
    names: pa.Table  # `id, subscriber, filter` of the sampled subscriptions, in the same order
    subscriptions: Side
    events: Side
    events_refused: int  # rows among those read that are no events of the schema

    @property
    def filters_refused(self) -> int:
        return len(self.sample.filters.errors)

    def situation(self, *, cores: int, memory: int, local: bool) -> Situation:
        """What is to be done here, and what there is to do it with (see `Situation`)."""
        shared, alone = parametrise(self.sample.filters)
        scale = self.subscriptions.count / max(1, self.sample.filters.size)
        joins = len(shared) + -(-int(len(alone) * scale) // FILTERS_PER_PASS)
        return Situation(self.subscriptions, self.events, cores, memory, local, max(1, joins))


def survey(
    schema: Schema,
    subscriptions: str | Path,
    events: str | Path,
    *,
    subscription_splits: Sequence[Split] | None = None,
    event_splits: Sequence[Split] | None = None,
) -> Survey:
    """Raises what is wrong with the files; a sample without a usable row is wrong too.

    Splits that are known already need not be found again: of a large CSV, that is a reading of all
    of it.
    """
    named, asked = _subscriptions(subscriptions, subscription_splits)
    filters = read_filters(named["filter"], schema)
    if filters.size == len(filters.errors):
        first = next(iter(filters.errors.values()), None)
        raise SubscriptionError(
            f"{subscriptions} has no usable subscription",
            hint="it has no rows with a filter" if first is None else f"the first: {first}",
        )
    seen, refused, published = _events(events, schema, event_splits)
    if not seen.num_rows:
        raise EventError(
            f"{events} has no usable event",
            hint="the first: " + refused[0] if refused else "it has no rows",
        )
    return Survey(Sample(filters, seen), named, asked, published, len(refused))


def _subscriptions(path: str | Path, splits: Sequence[Split] | None) -> tuple[pa.Table, Side]:
    files = list_files(path)
    chosen = _spread(plan_splits(files, None, SPLIT_BYTES) if splits is None else splits)
    read = -(-ROWS_READ // max(1, len(chosen)))
    parts = [pa.table({name: pa.array([], pa.string()) for name in COLUMNS})]
    for split in chosen:
        require_columns(split, COLUMNS, COLUMNS)
        tables = (block.table.select(list(COLUMNS)) for block in text_blocks(split, COLUMNS))
        parts += _first(tables, read)
    table = pa.concat_tables(parts)
    asked = table.filter(table["filter"].is_valid())
    return _thinned(asked, SUBSCRIPTIONS_SAMPLED), _side(files, chosen, asked.num_rows)


def _events(
    path: str | Path, schema: Schema, splits: Sequence[Split] | None
) -> tuple[pa.Table, list[str], Side]:
    """The sample, why some of the rows are not in it, and how many there are."""
    files = list_files(path)
    chosen = _spread(plan_splits(files, schema, SPLIT_BYTES) if splits is None else splits)
    read = -(-ROWS_READ // max(1, len(chosen)))
    parts, refused = [schema.arrow.empty_table()], list[str]()

    def valid(split: Split) -> Iterator[pa.Table]:
        for batch in read_split(split, schema, read):
            refused.extend(f"line {one.line}: {one.reason}" for one in batch.rejects)
            yield batch.table

    for split in chosen:
        parts += _first(valid(split), read)
    table = pa.concat_tables(parts)
    return _thinned(table, EVENTS_SAMPLED), refused, _side(files, chosen, table.num_rows)


def _spread(splits: Sequence[Split]) -> list[Split]:
    """A few splits at equal distances."""
    count = min(SPLITS_SAMPLED, len(splits))
    return [splits[at] for at in np.linspace(0, len(splits) - 1, count).astype(int).tolist()]


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


def _side(files: Sequence[SourceFile], sampled: Sequence[Split], rows: int) -> Side:
    """All rows: of Parquet those it says it has, of text as many as its bytes have room for."""
    total, known, text = 0, 0, 0
    for file in files:
        total += file.size
        if file.format == "parquet" and file.size:
            known += pq.read_metadata(file.path).num_rows
        else:
            text += file.size * (GZIP_RATIO if file.compressed else 1)
    foreseen = int(text * _lines_per_byte(sampled)) if text else 0
    return Side(max(rows, known + foreseen), total, exact=not text)


def _lines_per_byte(splits: Sequence[Split]) -> float:
    lines, size = 0, 0
    for split in splits:
        if split.format == "parquet":
            continue
        with suppress(TruncatedGzip):  # what can be read of it tells enough
            here = (split.opened, split.compressed, split.start, split.end, LINES_BYTES)
            beginning = next(read_chunks(*here), b"")
            lines += beginning.count(b"\n")
            size += len(beginning)
    return lines / size if size else 0.0
