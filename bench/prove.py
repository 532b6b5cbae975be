"""Proofs too slow for the test-suite, on real quotes: `python -m bench.prove [--data FILE]`.

1. Random filters × sampled quotes, with NULL, NaN and infinities put in: the index against the
   definition.
2. Random filters × all quotes: the index against Spark's own WHERE, bit by bit.

FILE has the columns date, symbol, open, high, low, close, volume (CSV, JSON lines or Parquet, also
gzip); CROSSROADS_QUOTES may name it too. Without it nothing is proved, and that is said. Exit code
1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.machine import usable_cores
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.testing.bulk import BulkDefinition
from crossroads.testing.seeded import SeededFilters
from crossroads.testing.strategies import FilterText

VARIABLE = "CROSSROADS_QUOTES"

SCHEMA = Schema.from_toml("""
name = "quotes"
id = ["date", "symbol"]

[attributes]
date = "date"
symbol = "string"
open = "double"
high = "double"
low = "double"
close = "double"
volume = "bigint"
""")

FILTERS_PER_TASK = 2_000
FILTERS_WHOLE = 50  # one in so many is also asked of the definition itself, in one piece
FILTERS_PER_QUERY = 248  # four words; more conditions take Spark longer to plan than to run
BITS = 62  # filters per 64-bit word: the sum stays positive
STRANGE = {"double": (float("nan"), float("inf"), float("-inf"), -0.0, 0.0), "bigint": (0, -1)}
SHOWN = 10

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make prove", description="proofs on real quotes")
    parser.add_argument("--data", type=Path, default=os.environ.get(VARIABLE), help="the quotes")
    parser.add_argument(
        "--filters", type=int, default=100_000, help="against the definition; 0: none"
    )
    parser.add_argument("--quotes", type=int, default=1_000, help="against the definition")
    parser.add_argument("--spark-filters", type=int, default=2_000, help="against Spark; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console()
    if options.data is None or not options.data.exists():
        where = f" at {options.data}" if options.data else ""
        console.print(f"skipped: there are no quotes{where} (name them: {VARIABLE}=FILE)")
        return
    quotes = read_quotes(options.data)
    console.print(f"{quotes.num_rows:,} quotes, seed {options.seed}")
    wrong = 0
    if options.filters:
        wrong += prove_definition(console, quotes, options.filters, options.quotes, options.seed)
    if options.spark_filters:
        wrong += prove_spark(console, quotes, options.spark_filters, options.seed + 1)
    sys.exit(1 if wrong else 0)


def read_quotes(path: Path) -> pa.Table:
    batches = [
        batch
        for split in plan_splits(list_files(path), SCHEMA)
        for batch in read_split(split, SCHEMA)
    ]
    rejected = sum(len(batch.rejects) for batch in batches)
    assert not rejected, f"{rejected} quotes cannot be read"
    return pa.concat_tables([batch.table for batch in batches]).combine_chunks()


def with_strange_values(quotes: pa.Table, seed: int) -> pa.Table:
    """Every tenth value NULL, every twentieth number one that is easily got wrong."""
    rng = np.random.default_rng(seed)
    columns = {}
    for field in quotes.schema:
        values = quotes[field.name].to_pylist()
        kind = {"double": "double", "int64": "bigint"}.get(str(field.type), "")
        for row in np.flatnonzero(rng.random(len(values)) < 0.05).tolist():
            if kind:
                values[row] = STRANGE[kind][rng.integers(len(STRANGE[kind]))]
        for row in np.flatnonzero(rng.random(len(values)) < 0.1).tolist():
            values[row] = None
        columns[field.name] = pa.array(values, field.type)
    return pa.table(columns)


# -- against the definition ----------------------------------------------------------------------


class Definition:
    """What each process needs; filled before the processes are forked."""

    texts: Sequence[str] = ()
    answers: BulkDefinition
    found: Sequence[npt.NDArray[np.int32]] = ()  # by filter: the events the index gave


def prove_definition(
    console: Console, quotes: pa.Table, filters: int, events: int, seed: int
) -> int:
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(quotes.num_rows, size=min(events, quotes.num_rows), replace=False))
    sample = with_strange_values(quotes.take(pa.array(rows)), seed)
    drawn = SeededFilters(SCHEMA, quotes, seed)
    Definition.texts = [drawn.filter().text for _ in range(filters)]
    Definition.answers = BulkDefinition(sample.to_pylist())
    with console.status(f"building the index of {filters:,} filters"):
        Definition.found = events_by_filter(Definition.texts, sample)
    pairs = sum(len(found) for found in Definition.found)
    wrong: list[str] = []
    starts = range(0, filters, FILTERS_PER_TASK)
    pool = ProcessPoolExecutor(usable_cores(), mp_context=get_context("fork"))
    with pool, Progress(console=console, transient=True) as progress:
        bar = progress.add_task("asking the definition", total=len(starts))
        for differing in pool.map(_differing, starts):
            wrong += differing
            progress.advance(bar)
    seconds = time.perf_counter() - started
    console.print(
        f"definition: {filters:,} filters × {sample.num_rows:,} quotes, {pairs:,} matches, "
        f"{len(wrong)} filters differ ({seconds:.0f} s)"
    )
    for line in wrong[:SHOWN]:
        console.print("  " + line, highlight=False, soft_wrap=True)
    return len(wrong)


def events_by_filter(texts: Sequence[str], events: pa.Table) -> list[npt.NDArray[np.int32]]:
    table = read_filters(pa.array(texts), SCHEMA)
    assert not table.errors, next(iter(table.errors.values()))
    found = MatchIndex.build(table).match_batch(events)
    order = np.argsort(found.ordinals, kind="stable")
    ends = np.cumsum(np.bincount(found.ordinals, minlength=len(texts)))
    return np.split(found.events[order], ends[:-1])


def _differing(start: int) -> list[str]:
    """Of one task's filters those where index and definition differ, with the difference."""
    wrong = []
    for place in range(start, min(start + FILTERS_PER_TASK, len(Definition.texts))):
        text = Definition.texts[place]
        filter_ = parse(text, SCHEMA)
        expected = Definition.answers.matches(filter_)
        events = Definition.answers.events
        if place % FILTERS_WHOLE == 0:
            whole = [matches(filter_, event) for event in events]
            assert np.array_equal(expected, whole), f"bulk and plain definition differ: {text}"
        given = Definition.found[place]
        repeated = len(np.unique(given)) != len(given)
        mask = np.zeros(len(expected), np.bool_)
        mask[given] = True
        if repeated or not np.array_equal(mask, expected):
            at = int(np.argmax(mask != expected))
            wrong.append(f"{text}   e.g. {events[at]}: index says {bool(mask[at])}")
    return wrong


# -- against Spark -------------------------------------------------------------------------------


def prove_spark(console: Console, quotes: pa.Table, filters: int, seed: int) -> int:
    from crossroads.pipeline.session import spark_session

    started = time.perf_counter()
    events = with_strange_values(quotes, seed)
    drawn = SeededFilters(SCHEMA, quotes, seed)
    twins = [drawn.filter() for _ in range(filters)]
    with console.status("starting Spark"):
        # Whole-stage code of so many conditions is more than a Java method may hold.
        spark = spark_session(None, "crossroads proof", {"spark.sql.codegen.wholeStage": "false"})
        numbered = events.append_column("_row", pa.array(np.arange(events.num_rows)))
        frame = spark.createDataFrame(numbered).repartition(2 * usable_cores()).persist()
        assert frame.count() == events.num_rows
    found = events_by_filter([twin.text for twin in twins], events)
    wrong: list[str] = []
    pairs = 0
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("asking Spark", total=filters)
        for start in range(0, filters, FILTERS_PER_QUERY):
            some = twins[start : start + FILTERS_PER_QUERY]
            theirs = spark_answers(frame, some)
            for place, (twin, expected) in enumerate(zip(some, theirs, strict=True), start):
                pairs += int(expected.sum())
                mask = np.zeros(events.num_rows, np.bool_)
                mask[found[place]] = True
                if not np.array_equal(mask, expected):
                    at = int(np.argmax(mask != expected))
                    event = events.slice(at, 1).to_pylist()[0]
                    wrong.append(f"{twin.text}   e.g. {event}: index says {bool(mask[at])}")
            progress.advance(bar, len(some))
    seconds = time.perf_counter() - started
    console.print(
        f"Spark: {filters:,} filters × {events.num_rows:,} quotes, {pairs:,} matches, "
        f"{len(wrong)} filters differ ({seconds:.0f} s)"
    )
    for line in wrong[:SHOWN]:
        console.print("  " + line, highlight=False, soft_wrap=True)
    return len(wrong)


def spark_answers(frame: object, twins: Sequence[FilterText]) -> Iterator[Bools]:
    """Per filter, per event in order: does Spark's WHERE keep it?"""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

    assert isinstance(frame, DataFrame)
    words = []
    for start in range(0, len(twins), BITS):
        bits = [
            # NULL is not true: WHERE keeps what is true.
            # Cast, as WHERE does: a bare NULL has no type.
            F.when(F.expr(twin.spark).cast("boolean"), F.lit(1 << bit).cast("bigint")).otherwise(0)
            for bit, twin in enumerate(twins[start : start + BITS])
        ]
        words.append(sum(bits[1:], bits[0]).alias(f"w{start // BITS}"))
    table = frame.select("_row", *words).toArrow().sort_by("_row")
    for place in range(len(twins)):
        word: Words = table[f"w{place // BITS}"].to_numpy()
        yield (word >> (place % BITS)) & 1 == 1


if __name__ == "__main__":
    main()
