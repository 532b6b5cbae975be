"""A look at both sides before anything is decided: a sample of each, and how many there are.

How many rows there are is known for Parquet and foreseen for text, from how many lines the
beginnings of the sampled splits have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import EventError, SubscriptionError
from crossroads.mapping.sample import Sample
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.parameters import FILTERS_PER_PASS, parametrise
from crossroads.pipeline.sidesample import evenly, sample_events, sample_subscriptions
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
from crossroads.pipeline.window import Window

SUBSCRIPTIONS_SAMPLED = 4096  # counts per cell are then right to a few per cent
EVENTS_SAMPLED = 4096
SPLIT_BYTES = 8 << 20
LINES_BYTES = 256 << 10  # of each sampled split: thousands of lines, and no time at all
INSIDE_MIN = 32  # of the sampled events: fewer are taken for so many
GZIP_RATIO = 5  # text of such rows packs to about a fifth


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
    window: Window | None = None,
) -> Survey:
    """Raises what is wrong with the files; a sample without a usable row is wrong too. With a
    `window` only the events in it are counted; the sample is of all.

    Splits that are known already need not be found again: of a large CSV, that is a reading of all
    of it.
    """
    files, splits = list_files(subscriptions), subscription_splits
    if splits is None:
        splits = plan_splits(files, None, SPLIT_BYTES)
    found = sample_subscriptions(splits, COLUMNS, SUBSCRIPTIONS_SAMPLED)
    named, asked = found.sampled, _side(files, splits, found.seen)
    filters = read_filters(named["filter"], schema)
    if filters.size == len(filters.errors):
        first = next(iter(filters.errors.values()), None)
        raise SubscriptionError(
            f"{subscriptions} has no usable subscription",
            hint="it has no rows with a filter" if first is None else f"the first: {first}",
        )
    files, splits = list_files(events), event_splits
    if splits is None:
        splits = plan_splits(files, schema, SPLIT_BYTES)
    found = sample_events(splits, schema, EVENTS_SAMPLED)
    published = _side(files, splits, found.seen)
    if not found.seen:
        raise EventError(
            f"{events} has no usable event",
            hint="the first: " + found.refused[0] if found.refused else "it has no rows",
        )
    if window is not None:
        published = _inside(published, window, found.sampled)
    return Survey(Sample(filters, found.sampled), named, asked, published, len(found.refused))


def _inside(side: Side, window: Window, sampled: pa.Table) -> Side:
    """What of it lies in the window. A sample in which hardly anything does tells no more than
    that it is little."""
    inside = int(window.inside(sampled[window.attribute].combine_chunks()).sum())
    share = min(1.0, max(inside, INSIDE_MIN) / max(1, sampled.num_rows))
    return Side(int(side.count * share), int(side.bytes * share), exact=False)


def _side(files: Sequence[SourceFile], splits: Sequence[Split], rows: int) -> Side:
    """All rows: of Parquet those it says it has, of text as many as its bytes have room for."""
    total, known, text = 0, 0, 0
    for file in files:
        total += file.size
        if file.format == "parquet" and file.size:
            known += pq.read_metadata(file.path).num_rows
        else:
            text += file.size * (GZIP_RATIO if file.compressed else 1)
    foreseen = int(text * _lines_per_byte(evenly(splits))) if text else 0
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
