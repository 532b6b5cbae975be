"""What the numbers are held against: one row per figure, with its target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Results = Mapping[str, Mapping[str, Any]]

# Task → cores it runs on. In-process figures are per core; the Spark figures and their rivals
# have two each.
TASKS: dict[str, int] = {
    "tasks.parse": 1,
    "tasks.w1": 1,
    "tasks.w1_small": 1,
    "tasks.w2": 1,
    "tasks.mixed_filters": 1,
    "keys.mapping_rates": 1,
    "sim.forwarding": 1,
    "sim.memory": 1,
    "rivals.polars_w1": 1,
    "rivals.duckdb_w1": 1,
    "rivals.polars_w1_files": 2,
    "rivals.duckdb_w2_named": 2,
    "rivals.duckdb_w2_compact": 2,
    "spark.w1_naive": 2,
    "spark.demo_naive": 2,
    "spark.w1": 2,
    "spark.w2_pairs": 2,
    "spark.w2_compact": 2,
    "keys.w1_keyed": 2,
    "keys.w1_sql": 2,
}


class AnswersDiffer(Exception):
    """Two sides of a comparison found different numbers of matches: the ratio means nothing."""


@dataclass(frozen=True, kw_only=True)
class Row:
    figure: str
    ours: str
    rival: str = ""
    ratio: float | None = None  # how many times faster we are
    target: str = ""
    met: bool | None = None  # None: there is no target
    cores: int = 1


# -- in-process ----------------------------------------------------------------------------------


def _parse(parse: Mapping[str, Any]) -> Iterator[Row]:
    for name in ("stocks", "mixed"):
        rate, shapes = parse[name]["filters_per_second"], parse[name]["shapes"]
        yield Row(
            figure=f"filter text → typed form, {name} ({shapes} shapes)",
            ours=f"{big(rate)} filters/s",
            target="≥ 200k/s",
            met=rate >= 200_000,
        )


def _w1(w1: Mapping[str, Any]) -> Iterator[Row]:
    largest = w1["curve"][-1]
    size = big(largest["subscriptions"])
    seconds, memory = largest["build"]["seconds"], largest["bytes_per_subscription"]
    rate, slope = largest["events_per_second"], growth(w1["curve"])
    yield Row(
        figure=f"W1 {size}: build from typed columns",
        ours=f"{seconds:.2f} s",
        target="≤ 3 s",
        met=seconds <= 3,
    )
    yield Row(
        figure=f"W1 {size}: index per subscription",
        ours=f"{memory:.0f} bytes",
        target="≤ 300 bytes",
        met=memory <= 300,
    )
    yield Row(
        figure=f"W1 {size}: matching",
        ours=f"{big(rate)} events/s",
        target="≥ 2M/s",
        met=rate >= 2_000_000,
    )
    least = big(w1["curve"][0]["subscriptions"])
    yield Row(
        figure=f"W1: time per event grows as S^k, {least} to {size}",
        ours=f"k = {slope:.2f}",
        target="k ≤ 0.5",
        met=slope <= 0.5,
    )


def _w2(w2: Mapping[str, Any]) -> Iterator[Row]:
    rate = w2["matches_per_second"]
    yield Row(
        figure="W2: matching, dense output",
        ours=f"{big(rate)} matches/s",
        target="≥ 300M/s",
        met=rate >= 300e6,
    )


def _mixed(mixed: Mapping[str, Any]) -> Iterator[Row]:
    rate = mixed["events_per_second"]
    yield Row(
        figure="mixed filters: matching",
        ours=f"{big(rate)} events/s",
        target="≥ 50k/s",
        met=rate >= 50_000,
    )


def _polars_one_core(w1: Mapping[str, Any], polars: Mapping[str, Any]) -> Iterator[Row]:
    largest = w1["curve"][-1]
    agree(largest, polars)
    match, build = largest["match"]["seconds"], largest["build"]["seconds"]
    for figure, seconds in (("build + match", build + match), ("index built", match)):
        yield Row(
            figure=f"W1 {big(largest['subscriptions'])}×{big(w1['events'])} in memory, {figure}",
            ours=f"{seconds:.2f} s",
            rival=f"Polars, same grid: {polars['seconds']:.2f} s",
            ratio=polars["seconds"] / seconds,
        )


def _duckdb_one_core(ours: Mapping[str, Any], duckdb: Mapping[str, Any]) -> Iterator[Row]:
    yield compare("W1 small, build + match", ours, duckdb, "DuckDB range join")


# -- on Spark ------------------------------------------------------------------------------------


def _demo(both: Mapping[str, Any]) -> Iterator[Row]:
    """Against the nested loop as people write it, and against ours, which goes shape by shape."""
    figure = "W2 demo on Spark, pairs to Parquet"
    yield compare(figure, both["ours"], both["one_join"], "Spark, one nested loop", 80, cores=2)
    yield compare(figure, both["ours"], both["naive"], "plan naive, by shape", 80, cores=2)


def _naive(figure: str, least: float) -> Callable[[Mapping[str, Any]], Iterator[Row]]:
    def rows_of(both: Mapping[str, Any]) -> Iterator[Row]:
        yield compare(figure, both["ours"], both["naive"], "Spark naive", least, cores=2)

    return rows_of


def _polars_spark(spark: Mapping[str, Any], polars: Mapping[str, Any]) -> Iterator[Row]:
    agree(spark, polars)
    looking = spark["looking"]
    agree(looking, polars)
    for figure, seconds, most in (
        ("build + match", spark["build_and_match"], 1.5),
        ("index built", spark["match"], 1.0),
        ("build + match, repeated ids looked for", looking["build_and_match"], None),
        ("index built, repeated ids looked for", looking["match"], None),
    ):
        what = f"W1 on Spark, Parquet to Parquet, {figure}"
        yield _times(what, seconds, "Polars, same grid", polars["seconds"], most)


def _duckdb_spark(spark: Mapping[str, Any], duckdb: Mapping[str, Any]) -> Iterator[Row]:
    yield compare("W2 on Spark, pairs to Parquet", spark, duckdb, "DuckDB", 3, cores=2)


def _compact(spark: Mapping[str, Any], duckdb: Mapping[str, Any]) -> Iterator[Row]:
    yield compare("W2 on Spark, compact to Parquet", spark, duckdb, "DuckDB", cores=2)
    rate = spark["matches"] / spark["seconds"]
    yield Row(
        figure="W2 on Spark, compact to Parquet",
        ours=f"{big(rate)} pairs/s",
        target="≥ 60M/s",
        met=rate >= 60e6,
        cores=2,
    )


# -- by key --------------------------------------------------------------------------------------

CHORDS = ("attribute-split", "key-space-split", "selective-attribute")


def _mapping_rates(rates: Mapping[str, Any]) -> Iterator[Row]:
    for name, found in rates["mappings"].items():
        placed, keyed = found["subscriptions_per_second"], found["events_per_second"]
        chord = name in CHORDS
        yield Row(
            figure=f"W1 1M: {name}, keys of subscriptions and events",
            ours=f"{big(placed)} and {big(keyed)}/s",
            target="≥ 500k and 5M/s" if chord else "",
            met=placed >= 500_000 and keyed >= 5_000_000 if chord else None,
        )


def _keyed(found: Mapping[str, Any]) -> Iterator[Row]:
    ours, indexed = found["keyed"], found["indexed"]
    yield Row(
        figure="W1 on Spark, plan keyed, index in its store",
        ours=f"{ours:.2f} s",
        rival=f"plan indexed, index built: {indexed:.2f} s",
        ratio=indexed / ours,
        target="≤ 2× its time",
        met=ours <= 2 * indexed,
        cores=2,
    )


def _sql(found: Mapping[str, Any]) -> Iterator[Row]:
    figure = "W1 on Spark, plan sql, typed subscriptions to pairs"
    same, best = found["same_cells"], found["by_hand"]
    for rival in (same, best):
        agree(found, rival)
    ours, looking = found["seconds"], f"{figure}, repeated ids looked for"
    by_hand = "Spark SQL by hand"
    bits = "+".join(map(str, found["grid_bits"]))
    yield _times(figure, ours, f"{by_hand}, as many cells", same["seconds"], 1.3)
    yield _times(figure, ours, f"{by_hand}, best grid ({bits} bits)", best["seconds"], None)
    yield _times(
        looking, found["seconds_looking"], f"{by_hand}, as many cells", same["seconds"], None
    )


def _times(figure: str, ours: float, rival: str, its: float, most: float | None) -> Row:
    """On two cores; at most so many times as long as the rival, where that is a target."""
    return Row(
        figure=figure,
        ours=f"{ours:.2f} s",
        rival=f"{rival}: {its:.2f} s",
        ratio=its / ours,
        target="" if most is None else f"≤ {most:g}× its time",
        met=None if most is None else ours <= most * its,
        cores=2,
    )


# -- the simulator -------------------------------------------------------------------------------


def _forwarding(found: Mapping[str, Any]) -> Iterator[Row]:
    rate = found["messages_per_second"]
    yield Row(
        figure=f"simulator, Chord ring of {found['members']:,}, every message traced",
        ours=f"{big(rate)} messages/s",
        target="≥ 100k/s",
        met=rate >= 100_000,
    )


def _memory(found: Mapping[str, Any]) -> Iterator[Row]:
    peak = found["peak_bytes"] / 2**30
    yield Row(
        figure=f"simulator, Chord ring of {found['members']:,}: memory of the process",
        ours=f"{peak:.2f} GiB",
        target="≤ 2 GiB",
        met=peak <= 2,
    )


FIGURES: tuple[tuple[tuple[str, ...], Callable[..., Iterator[Row]]], ...] = (
    (("tasks.parse",), _parse),
    (("tasks.w1",), _w1),
    (("tasks.w2",), _w2),
    (("tasks.mixed_filters",), _mixed),
    (("tasks.w1", "rivals.polars_w1"), _polars_one_core),
    (("tasks.w1_small", "rivals.duckdb_w1"), _duckdb_one_core),
    (("spark.w1_naive",), _naive("W1 small on Spark", 100)),
    (("spark.demo_naive",), _demo),
    (("spark.w1", "rivals.polars_w1_files"), _polars_spark),
    (("spark.w2_pairs", "rivals.duckdb_w2_named"), _duckdb_spark),
    (("spark.w2_compact", "rivals.duckdb_w2_compact"), _compact),
    (("keys.mapping_rates",), _mapping_rates),
    (("keys.w1_keyed",), _keyed),
    (("keys.w1_sql",), _sql),
    (("sim.forwarding",), _forwarding),
    (("sim.memory",), _memory),
)


# -- the pieces ----------------------------------------------------------------------------------


def compare(
    figure: str,
    ours: Mapping[str, Any],
    rival: Mapping[str, Any],
    name: str,
    least: float | None = None,
    cores: int = 1,
) -> Row:
    agree(ours, rival)
    ratio = rival["seconds"] / ours["seconds"]
    return Row(
        figure=figure,
        ours=f"{ours['seconds']:.2f} s",
        rival=f"{name}: {rival['seconds']:.2f} s",
        ratio=ratio,
        target=f"≥ {least:g}×" if least else "",
        met=ratio >= least if least else None,
        cores=cores,
    )


def agree(ours: Mapping[str, Any], rival: Mapping[str, Any]) -> None:
    if ours["matches"] != rival["matches"]:
        raise AnswersDiffer(f"we found {ours['matches']:,} matches, the rival {rival['matches']:,}")


def growth(curve: list[dict[str, Any]]) -> float:
    """k of time ~ S^k between the smallest and the largest set."""
    first, last = curve[0], curve[-1]
    time = math.log(last["ns_per_event"] / first["ns_per_event"])
    return time / math.log(last["subscriptions"] / first["subscriptions"])


def big(number: float) -> str:
    """1,234,567 → 1.23M"""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"
