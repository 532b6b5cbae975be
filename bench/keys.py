"""Mappings and the plans that use them: keys per second, `keyed` against `indexed`, `sql` against a
join written by hand for this one workload."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)

from bench.measure import RUNS, timed
from bench.sizes import SEED, Sizes
from crossroads.lab.workloads import Written, uniform, write_workload
from crossroads.mapping.fit import MAPPINGS, Sample, fit
from crossroads.model.schema import Schema
from crossroads.model.shapes import filters_from_columns
from crossroads.pipeline.job import MatchRequest, run_match
from crossroads.pipeline.session import spark_session

SAMPLED = 4096
WARM_RUNS = 3
DOMAIN = 1_000_001  # values of an attribute of W1: 0 to 1,000,000
# Of the grids tried by hand, by attribute; coarser and finer ones are slower. The one between has
# as many cells as plan sql takes for W1.
Bits = tuple[int, int, int, int]
GRIDS: tuple[Bits, ...] = ((4, 4, 4, 4), (5, 5, 4, 4), (5, 5, 5, 5))


def mapping_rates(sizes: Sizes) -> dict[str, Any]:
    """Subscriptions to ranges of keys and events to keys, from typed columns, on one core."""
    workload = uniform(SEED, sizes.w1_events, sizes.w1_events)
    schema = Schema.from_toml(workload.schema_toml)
    (template,) = workload.typed_templates()
    table = filters_from_columns(template.text, template.columns, schema)
    events = workload.events().combine_chunks()
    small = filters_from_columns(template.text, template.columns.slice(0, SAMPLED), schema)
    sample = Sample(small, events.slice(0, SAMPLED))
    found = {}
    for name in MAPPINGS:
        mapping = fit(name, schema, sample)
        mapping.keys_of_subscriptions(small), mapping.keys_of_events(sample.events)
        placed, ranges = timed(partial(mapping.keys_of_subscriptions, table))
        keyed, keys = timed(partial(mapping.keys_of_events, events))
        found[name] = {
            "subscriptions_per_second": table.size / placed.median,
            "events_per_second": events.num_rows / keyed.median,
            "ranges_per_subscription": ranges.low.size / table.size,
            "keys_per_event": keys.keys.size / events.num_rows,
        }
    return {"mappings": found}


def w1_keyed(sizes: Sizes, cores: int) -> dict[str, Any]:
    """Both with the index built: `keyed` finds it in its store, `indexed` is timed without it."""
    with _W1(sizes, cores) as w1:
        store = str(w1.folder / "store")
        w1.job("keyed", index_store=store)
        keyed = [w1.job("keyed", index_store=store) for _ in range(RUNS + 1)][1:]
        indexed = [w1.job("indexed") for _ in range(RUNS + 1)][1:]
        return {
            "keyed": _median(keyed, "index", "match"),
            "indexed": _median(indexed, "match"),
            "reused": keyed[-1]["index"],
            "matches": _agreed(keyed + indexed),
        }


def w1_sql(sizes: Sizes, cores: int) -> dict[str, Any]:
    """From typed subscriptions to pairs of names in Parquet."""
    with _W1(sizes, cores) as w1:
        spark = spark_session(w1.master)
        for _ in range(WARM_RUNS):  # turn by turn: whoever came second would find Spark warm
            w1.job("sql", keep_duplicates=True), w1.by_hand(spark, GRIDS[0], runs=1)
        # Neither looks for repeated ids: the one by hand does not know how.
        ours = [w1.job("sql", keep_duplicates=True) for _ in range(RUNS)]
        looking = [w1.job("sql") for _ in range(RUNS)]
        by_hand = {bits: w1.by_hand(spark, bits) for bits in GRIDS}
        cells = ours[-1]["cells"]
        same = min(GRIDS, key=lambda bits: abs(math.log2(cells) - sum(bits)))
        best = min(GRIDS, key=lambda bits: by_hand[bits]["seconds"])
        return {
            "seconds": _median(ours, "index", "match"),
            "seconds_looking": _median(looking, "index", "match"),
            "matches": _agreed(ours + looking),
            "cells": cells,
            "same_cells": by_hand[same],
            "by_hand": by_hand[best],
            "grid_bits": best,
        }


def _median(summaries: list[dict[str, Any]], *stages: str) -> float:
    return statistics.median(sum(one["seconds"][name] for name in stages) for one in summaries)


def _agreed(summaries: list[dict[str, Any]]) -> int:
    (matches,) = {one["counts"]["notifications"] for one in summaries}
    return int(matches)


class _W1:
    """The workload on disk, for as long as it is measured."""

    def __init__(self, sizes: Sizes, cores: int) -> None:
        self.workload = uniform(SEED, sizes.w1_events, sizes.w1_subscriptions[-1])
        self.master = f"local[{cores}]"
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self._scratch.name)

    def __enter__(self) -> _W1:
        self.files: Written = write_workload(self.workload, self.folder / "in")
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def job(
        self, plan: str, index_store: str | None = None, *, keep_duplicates: bool = False
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            return run_match(
                MatchRequest(
                    schema=self.files.schema,
                    subscriptions=self.files.subscriptions,
                    events=self.files.events,
                    output=Path(out, "out"),
                    plan=plan,  # type: ignore[arg-type]
                    index_store=index_store,
                    keep_duplicates=keep_duplicates,
                    master=self.master,
                )
            )

    def by_hand(self, spark: SparkSession, bits: Bits, runs: int = RUNS + 1) -> dict[str, Any]:
        """A grid in Spark SQL, as somebody would write it who knows the data."""
        (template,) = self.workload.typed_templates()
        typed = self.folder / "typed.parquet"
        if not typed.exists():
            import pyarrow.parquet as pq

            pq.write_table(template.columns, typed)
        times, matches = [], 0
        for _ in range(runs):
            out = self.folder / f"by-hand-{time.monotonic_ns()}"
            started = time.perf_counter()
            _grid_join(spark, str(self.files.events), str(typed), bits).write.parquet(str(out))
            times.append(time.perf_counter() - started)
            matches = spark.read.parquet(str(out)).count()
        return {"seconds": statistics.median(times[-RUNS:]), "matches": matches}


def _grid_join(spark: SparkSession, events: str, subscriptions: str, bits: Bits) -> DataFrame:
    def place(column: Column, at: int) -> Column:
        return F.floor(column.cast("long") * (1 << bits[at]) / DOMAIN).cast("int")

    def cell(places: list[Column]) -> Column:
        found = F.lit(0)
        for at, one in enumerate(places):
            found = F.shiftleft(found, bits[at]).bitwiseOR(one)
        return found

    names = [f"a{n}" for n in range(1, 5)]
    left = spark.read.parquet(events)
    left = left.withColumn("cell", cell([place(F.col(name), at) for at, name in enumerate(names)]))
    right = spark.read.parquet(subscriptions)
    for at in range(4):
        low, high = (place(F.col(f"p{2 * at + end}"), at) for end in (1, 2))
        right = right.withColumn(f"g{at}", F.explode(F.sequence(low, high)))
    right = right.withColumn("cell", cell([F.col(f"g{at}") for at in range(4)]))
    right = right.withColumnRenamed("id", "subscription_id").drop("g0", "g1", "g2", "g3")
    inside = left["cell"] == right["cell"]
    for at, name in enumerate(names):
        inside &= left[name].between(right[f"p{2 * at + 1}"], right[f"p{2 * at + 2}"])
    return left.join(right, inside).select(
        left["id"].cast("string").alias("event_id"), "subscription_id", "subscriber"
    )
