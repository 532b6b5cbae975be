"""What is measured in-process, on one core. Each task returns plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from bench.measure import timed
from bench.sizes import SEED, W2_SYMBOLS, Sizes
from crossroads.lab.workloads import Workload, mixed, stocks, uniform
from crossroads.matching.index import MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, filters_from_columns, read_filters

BATCH_ROWS = 65_536  # what a worker gets at once
WARM = 2_000  # subscriptions and events of the run that loads the compiled kernels
MATCH_RUNS = 5  # matching is short: more runs cost little and steady the median


def parse(sizes: Sizes) -> dict[str, Any]:
    """Text → typed form, for few shapes (stocks) and more (mixed)."""
    found: dict[str, Any] = {}
    for workload in (
        stocks(SEED, 1, sizes.parse_filters, symbols=W2_SYMBOLS),
        mixed(SEED, 1, sizes.parse_filters),
    ):
        schema = Schema.from_toml(workload.schema_toml)
        texts = workload.subscriptions()["filter"]
        read_filters(texts.slice(0, WARM), schema)
        times, table = timed(partial(read_filters, texts, schema))
        assert not table.errors, next(iter(table.errors.values()))
        found[workload.name] = {
            **times.as_json(),
            "filters": len(texts),
            "shapes": len(table.groups),
            "one_by_one": len(table.singles),
            "filters_per_second": len(texts) / times.median,
        }
    return found


def w1(sizes: Sizes) -> dict[str, Any]:
    """Build and match for a growing number of subscriptions."""
    events = uniform(SEED, sizes.w1_events, 1).events().combine_chunks()
    _warm(uniform(SEED, WARM, WARM))
    curve = []
    for count in sizes.w1_subscriptions:
        workload = uniform(SEED, 1, count)
        built, index = timed(_typed_build(workload))
        matched, matches = timed(partial(_count, index, events), MATCH_RUNS)
        curve.append(
            {
                "subscriptions": count,
                "build": built.as_json(),
                "bytes_per_subscription": index.nbytes / count,
                "match": matched.as_json(),
                "ns_per_event": matched.median / events.num_rows * 1e9,
                "events_per_second": events.num_rows / matched.median,
                "matches": matches,
            }
        )
    return {"events": events.num_rows, "curve": curve}


def w1_small(sizes: Sizes) -> dict[str, Any]:
    """Build and match together, at the size of the range join."""
    _warm(uniform(SEED, WARM, WARM))
    workload = uniform(SEED, sizes.w1_small, sizes.w1_small)
    events = workload.events().combine_chunks()
    build = _typed_build(workload)
    times, matches = timed(lambda: _count(build(), events))
    return {**times.as_json(), "matches": matches}


def w2(sizes: Sizes) -> dict[str, Any]:
    """Dense output: matches per second."""
    return _from_text(
        stocks(SEED, sizes.w2_events, sizes.w2_subscriptions, symbols=W2_SYMBOLS),
        stocks(SEED, WARM, WARM, symbols=W2_SYMBOLS),
    )


def mixed_filters(sizes: Sizes) -> dict[str, Any]:
    """Every kind of predicate, patterns among them."""
    return _from_text(
        mixed(SEED, sizes.mixed_events, sizes.mixed_subscriptions), mixed(SEED, WARM, WARM)
    )


# -- the pieces --------------------------------------------------------------------------------


def _from_text(workload: Workload, small: Workload) -> dict[str, Any]:
    _warm(small)
    schema = Schema.from_toml(workload.schema_toml)
    events = workload.events().combine_chunks()
    table = read_filters(workload.subscriptions()["filter"], schema)
    built, index = timed(lambda: MatchIndex.build(table))
    matched, matches = timed(partial(_count, index, events), MATCH_RUNS)
    return {
        "build": built.as_json(),
        "bytes_per_subscription": index.nbytes / index.size,
        "match": matched.as_json(),
        "events_per_second": events.num_rows / matched.median,
        "matches_per_second": matches / matched.median,
        "matches": matches,
    }


def _typed_build(workload: Workload) -> Callable[[], MatchIndex]:
    """From columns of numbers to the index, as one step."""
    schema = Schema.from_toml(workload.schema_toml)
    (template,) = workload.typed_templates()

    def build() -> MatchIndex:
        return MatchIndex.build(filters_from_columns(template.text, template.columns, schema))

    return build


def _warm(workload: Workload) -> None:
    """Load (the first time ever: compile) the kernels, which no figure should contain."""
    schema = Schema.from_toml(workload.schema_toml)
    table: FilterTable = read_filters(workload.subscriptions()["filter"], schema)
    _count(MatchIndex.build(table), workload.events())


def _count(index: MatchIndex, events: pa.Table) -> int:
    batches = events.to_batches(max_chunksize=BATCH_ROWS)
    return sum(len(index.match_batch(batch).ordinals) for batch in batches)
