"""The match job on Spark, warm, against Spark's own nested loop at the same parallelism.

A session takes seconds to start and nobody compares that: it is started, and everything compiled,
by a small run that is not counted. Seconds are those of the job's own stages, without the start.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any, Literal

from bench.measure import repeated
from bench.nestedloop import one_join
from bench.sizes import SEED, W2_SYMBOLS, Sizes
from crossroads.lab.workloads import Workload, Written, stocks, uniform, write_workload
from crossroads.pipeline.job import MatchRequest, run_match

WARM_ROWS = 2_000
Plan = Literal["direct", "indexed", "naive"]
Shape = Literal["pairs", "compact"]


def w1_naive(sizes: Sizes, cores: int) -> dict[str, Any]:
    workload = uniform(SEED, sizes.w1_small, sizes.w1_small)
    return _ours_and_naive(workload, uniform(SEED, WARM_ROWS, WARM_ROWS), cores)


def demo_naive(sizes: Sizes, cores: int) -> dict[str, Any]:
    workload = stocks(SEED, sizes.demo_events, sizes.demo_subscriptions, symbols=W2_SYMBOLS)
    small = stocks(SEED, WARM_ROWS, WARM_ROWS, symbols=W2_SYMBOLS)
    return {**_ours_and_naive(workload, small, cores), "one_join": one_join(workload, cores)}


def w1(sizes: Sizes, cores: int) -> dict[str, Any]:
    workload = uniform(SEED, sizes.w1_events, sizes.w1_subscriptions[-1])
    with tempfile.TemporaryDirectory() as folder:
        bench = JobBench(Path(folder), cores, uniform(SEED, WARM_ROWS, WARM_ROWS))
        # The rival does not look for repeated ids, so that stands apart.
        found = bench.run(workload, "direct", "pairs", keep_duplicates=True)
        return {**found, "looking": bench.run(workload, "direct", "pairs")}


def w2_pairs(sizes: Sizes, cores: int) -> dict[str, Any]:
    return _w2(sizes, cores, "pairs")


def w2_compact(sizes: Sizes, cores: int) -> dict[str, Any]:
    return _w2(sizes, cores, "compact")


def _w2(sizes: Sizes, cores: int, shape: Shape) -> dict[str, Any]:
    workload = stocks(SEED, sizes.w2_events, sizes.w2_subscriptions, symbols=W2_SYMBOLS)
    with tempfile.TemporaryDirectory() as folder:
        small = stocks(SEED, WARM_ROWS, WARM_ROWS, symbols=W2_SYMBOLS)
        return JobBench(Path(folder), cores, small).run(workload, "direct", shape)


def _ours_and_naive(workload: Workload, small: Workload, cores: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        bench = JobBench(Path(folder), cores, small)
        return {
            "ours": bench.run(workload, "direct", "pairs"),
            "naive": bench.run(workload, "naive", "pairs"),
        }


class JobBench:
    """Runs the job on workloads written to a scratch folder; outputs are removed at once."""

    def __init__(self, folder: Path, cores: int, small: Workload) -> None:
        self.folder = folder
        self.master = f"local[{cores}]"
        self.warm = write_workload(small, folder / "warm")

    def run(
        self, workload: Workload, plan: Plan, shape: Shape, *, keep_duplicates: bool = False
    ) -> dict[str, Any]:
        self._job(self.warm, plan, shape, keep_duplicates)
        files = write_workload(workload, self.folder / "input", overwrite=True)
        summaries = repeated(lambda: self._job(files, plan, shape, keep_duplicates), typed_seconds)
        stages = {
            name: round(statistics.median(one["seconds"][name] for one in summaries), 4)
            for name in summaries[0]["seconds"]
        }
        return {
            "seconds": round(statistics.median(map(job_seconds, summaries)), 4),
            "stages": stages,
            # The rival reads typed columns, so the reading of filter texts stands apart.
            "build_and_match": round(statistics.median(map(typed_seconds, summaries)), 4),
            "match": stages["match"],
            "runs": len(summaries),
            "matches": summaries[0]["counts"]["notifications"],
        }

    def _job(
        self, files: Written, plan: Plan, shape: Shape, keep_duplicates: bool
    ) -> dict[str, Any]:
        # A name of its own for every run: replacing an old output is not what is measured.
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            request = MatchRequest(
                schema=files.schema,
                subscriptions=files.subscriptions,
                events=files.events,
                output=Path(scratch, "out"),
                plan=plan,
                shape=shape,
                keep_duplicates=keep_duplicates,
                master=self.master,
            )
            return run_match(request)


def job_seconds(summary: dict[str, Any]) -> float:
    """All stages but the start of Spark."""
    return float(summary["seconds"]["total"] - summary["seconds"]["spark"])


def typed_seconds(summary: dict[str, Any]) -> float:
    """The same from subscriptions that are typed already."""
    return job_seconds(summary) - float(summary["seconds"]["subscriptions"])
