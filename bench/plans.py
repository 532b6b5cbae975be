"""Every plan with every mapping on six workloads: was the planner right?

    python -m bench.plans [--quick] [--only NAME]      (make bench-plans; most of an hour)

Plans run from the cheapest predicted to the dearest, after a small run of each that warms Spark up;
one that takes ten times as long as the best so far is stopped. Those that might be the best are run
three times. The page docs/plans.md has, per
workload, predicted beside measured, the planner's choice against the best, and the rank
correlation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.sizes import SEED, W2_SYMBOLS
from crossroads.errors import CrossroadsError
from crossroads.lab.workloads import mixed, stocks, uniform, write_workload
from crossroads.pipeline.estimate import MAPPED, Estimate, estimates
from crossroads.pipeline.job import MatchRequest, read_schema, run_match
from crossroads.pipeline.machine import available_memory, usable_cores
from crossroads.pipeline.planner import MEMORY_SHARE
from crossroads.pipeline.session import spark_session
from crossroads.pipeline.situation import Surveyed
from crossroads.pipeline.survey import survey

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "plans.md"
NUMBERS = ROOT / "bench" / "results" / "plans.json"

STOP_AT = 10.0  # times the best so far
STOP_LEAST_SECONDS = 20.0  # while nothing is known
RUNS = 3
WARM_SCALE, WARM_RUNS = 0.01, 3
CLOSE = 2.0  # times the best: only those can be the best, and are run three times


# -- workloads -------------------------------------------------------------------------------------


def _w1(folder: Path, scale: float) -> None:
    write_workload(uniform(SEED, int(1_000_000 * scale), int(1_000_000 * scale)), folder)


def _w2(folder: Path, scale: float) -> None:
    events, subscriptions = int(1_000_000 * scale), int(100_000 * scale)
    write_workload(stocks(SEED, events, subscriptions, symbols=W2_SYMBOLS), folder)


def _mixed(folder: Path, scale: float) -> None:
    write_workload(mixed(SEED, int(400_000 * scale), int(100_000 * scale)), folder)


def _hot_events(folder: Path, scale: float) -> None:
    """Half of all events at one point."""
    workload = uniform(SEED, int(1_000_000 * scale), int(700_000 * scale))
    files = write_workload(workload, folder)
    table = pq.read_table(files.events)
    hot = pa.array(np.arange(table.num_rows) % 2 == 0)
    for at, name in enumerate(table.column_names):
        if name != "id":
            spot = pa.scalar(500_000, table.schema.field(name).type)
            table = table.set_column(at, name, pc.if_else(hot, spot, table[name]))
    pq.write_table(table, files.events)


def _match_all(folder: Path, scale: float) -> None:
    """Some subscriptions match every event."""
    workload = uniform(SEED, int(1_000_000 * scale), int(700_000 * scale))
    files = write_workload(workload, folder)
    table = pq.read_table(files.subscriptions)
    everything = pa.table(
        {
            "id": [f"all-{n}" for n in range(20)],
            "subscriber": [f"auditor-{n}" for n in range(20)],
            "filter": ["a1 >= 0 OR a1 IS NULL"] * 20,
        }
    ).cast(table.schema)
    pq.write_table(pa.concat_tables([table, everything]), files.subscriptions)


def _crowded(folder: Path, scale: float) -> None:
    """One attribute is selective, and its ranges gather at one end."""
    write_workload(
        uniform(SEED, int(1_000_000 * scale), int(1_000_000 * scale), selective=1), folder
    )


WORKLOADS: dict[str, Callable[[Path, float], None]] = {
    "W1": _w1,
    "W2": _w2,
    "mixed": _mixed,
    "hot events": _hot_events,
    "match-all": _match_all,
    "crowded": _crowded,
}


# -- measuring -------------------------------------------------------------------------------------


@dataclass
class Measured:
    plan: str
    mapping: str | None
    cells: int | None
    predicted: float
    seconds: float | None = None  # median; None: stopped, refused or failed
    runs: int = 0
    stopped: float | None = None  # after so many seconds
    note: str | None = None
    notifications: int | None = None

    @property
    def name(self) -> str:
        return self.plan if self.mapping is None else f"{self.plan}/{self.mapping}"


def measure(name: str, make: Callable[[Path, float], None], scale: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "in")
        make(folder, scale)
        small = Path(scratch, "small")
        make(small, WARM_SCALE)
        _Bench(small, Path(scratch)).warm_up()
        found = list(_Bench(folder, Path(scratch)).all())
    best = min((one.seconds for one in found if one.seconds is not None), default=None)
    answers = {one.notifications for one in found if one.notifications is not None}
    if len(answers) > 1:
        raise SystemExit(f"{name}: plans disagree: {answers}")
    return {"workload": name, "best": best, "plans": [asdict(one) for one in found]}


class _Bench:
    def __init__(self, folder: Path, scratch: Path) -> None:
        self.scratch = scratch
        self.schema = folder / "schema.toml"
        self.subscriptions = folder / "subscriptions.parquet"
        self.events = folder / "events.parquet"
        self.spark = spark_session()
        self.best: float | None = None

    def predicted(self) -> list[Estimate]:
        seen = survey(read_schema(self.schema), self.subscriptions, self.events)
        memory = int(available_memory() * MEMORY_SHARE)
        here = seen.situation(cores=usable_cores(), memory=memory, local=True)
        return estimates(Surveyed(here, seen.sample))

    def warm_up(self) -> None:
        """Each plan a few times: the JVM compiles what it does often, and nobody should pay for it
        because he came first."""
        for plan in ("direct", "indexed", "sql", "keyed", "naive"):
            for _ in range(WARM_RUNS):
                self.job(plan, "hilbert" if plan in MAPPED else None, None, None)

    def all(self) -> Iterator[Measured]:
        self.job("direct", None, None, None)  # reads everything once, starts the workers
        for estimate in self.predicted():
            one = Measured(
                estimate.plan, estimate.mapping, estimate.cells, round(estimate.seconds, 3)
            )
            if estimate.refused is not None:
                one.note = estimate.refused
            else:
                self.run(one)
            print(f"  {one.name}: predicted {one.predicted}, {one.seconds or one.note}", flush=True)
            yield one

    def run(self, one: Measured) -> None:
        times: list[float] = []
        limit = max(STOP_LEAST_SECONDS, STOP_AT * (self.best or 0.0))
        while len(times) < RUNS and (not times or times[0] <= CLOSE * (self.best or times[0])):
            started = time.perf_counter()
            try:
                seconds, told = self.job(one.plan, one.mapping, one.cells, limit)
            except CrossroadsError as error:
                took = time.perf_counter() - started
                if took >= limit:
                    one.stopped, one.note = round(took, 1), f"stopped after {took:.0f} s"
                else:
                    one.note = error.message
                return
            times.append(seconds)
            one.notifications = told
        one.seconds, one.runs = round(statistics.median(times), 3), len(times)
        self.best = min(self.best or one.seconds, one.seconds)

    def job(
        self, plan: str, mapping: str | None, cells: int | None, limit: float | None
    ) -> tuple[float, int]:
        """Seconds without the start of Spark, and the number of notifications."""
        context = self.spark.sparkContext
        timer = threading.Timer(limit or 3600.0, context.cancelAllJobs)
        timer.start()
        try:
            with tempfile.TemporaryDirectory(dir=self.scratch) as out:
                done = run_match(
                    MatchRequest(
                        schema=self.schema,
                        subscriptions=self.subscriptions,
                        events=self.events,
                        output=Path(out, "out"),
                        plan=plan,  # type: ignore[arg-type]
                        mapping=mapping,
                        cells=cells,
                    )
                )
        finally:
            timer.cancel()
        seconds = done["seconds"]
        return seconds["total"] - seconds["spark"] - seconds["plan"], done["counts"][
            "notifications"
        ]


# -- the page --------------------------------------------------------------------------------------


def rank_correlation(predicted: list[float], measured: list[float]) -> float:
    """Spearman's, without ties to speak of."""
    ranks = [np.argsort(np.argsort(values)) for values in (predicted, measured)]
    return float(np.corrcoef(*ranks)[0, 1])


def page(results: list[dict[str, Any]]) -> str:
    lines = [
        "# Plans: predicted and measured",
        "",
        "Made by `make bench-plans`; do not edit. Seconds of the job without the start of Spark,",
        "on two cores; a plan is stopped at ten times the best. The choice is what `auto` takes.",
        "",
        "| workload | planner's choice | best plan | choice / best | rank correlation |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        done = [one for one in result["plans"] if one["seconds"] is not None]
        choice = result["plans"][0]
        best = min(done, key=lambda one: one["seconds"])
        # What was stopped took at least so long.
        known = [one for one in result["plans"] if one["seconds"] or one["stopped"]]
        rho = rank_correlation(
            [one["predicted"] for one in known],
            [one["seconds"] or one["stopped"] * 10 for one in known],
        )
        ratio = (choice["seconds"] or float("inf")) / best["seconds"]
        lines.append(
            f"| {result['workload']} | {_name(choice)} {choice['seconds']} s | {_name(best)} "
            f"{best['seconds']} s | {ratio:.2f} | {rho:.2f} |"
        )
    for result in results:
        lines += [
            "",
            f"## {result['workload']}",
            "",
            "| plan | cells | predicted, s | measured, s | runs | |",
            "|---|---|---|---|---|---|",
        ]
        for one in result["plans"]:
            measured = "" if one["seconds"] is None else f"{one['seconds']:.2f}"
            lines.append(
                f"| {_name(one)} | {one['cells'] or ''} | {one['predicted']:.2f} | {measured} | "
                f"{one['runs'] or ''} | {one['note'] or ''} |"
            )
    return "\n".join(lines) + "\n"


def _name(one: dict[str, Any]) -> str:
    return one["plan"] if one["mapping"] is None else f"{one['plan']}/{one['mapping']}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-plans")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the sizes")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    options = parser.parse_args()
    results = []
    for name, make in WORKLOADS.items():
        if options.only in name:
            print(name, flush=True)
            results.append(measure(name, make, 0.05 if options.quick else 1.0))
    NUMBERS.parent.mkdir(parents=True, exist_ok=True)
    NUMBERS.write_text(json.dumps(results, indent=1))
    text = page(results)
    if not options.quick and not options.only:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
