"""Every plan with every mapping on six workloads: was the planner right?

    python -m bench.plans [--quick] [--only NAME] [--seed N]    (make bench-plans; most of an hour)
    python -m bench.plans --small                               only what small jobs take
    python -m bench.plans --fit                                 prices from what was measured

Plans run from the cheapest predicted to the dearest; one that takes ten times as long as the best
so far is stopped. Those that might be the best are run three times, the others once. Some are run
on a small part of the workload, too: what large ones cost says little about the least that a job
takes. The page docs/plans.md has, per workload, predicted beside measured, the planner's choice
against the best, and the rank correlation.

`--fit` measures nothing. It foresees the measured plans once more with the estimates as they are
now, fits the prices to what was measured, and prints what pipeline/prices.py should say; the page
is written again with those that it says. So: measure, fit, edit, fit again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.planfit import fitted_prices, unseen
from bench.planloads import WORKLOADS
from bench.planpage import QUIET, page
from bench.planruns import Failed, Job, Runner, Stopped
from bench.planskew import task_loads
from bench.sizes import SEED
from crossroads.pipeline.estimate import MAPPED, UNMAPPED, Estimate, estimate_of, estimates
from crossroads.pipeline.job import read_schema
from crossroads.pipeline.jobsummary import FORESEEN_STAGES
from crossroads.pipeline.machine import spare_memory, usable_cores
from crossroads.pipeline.situation import Surveyed
from crossroads.pipeline.survey import survey

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "plans.md"
NUMBERS = ROOT / "bench" / "results" / "plans.json"

STOP_AT = 10.0  # times the best so far
STOP_FIRST_SECONDS = 120.0  # while nothing is known
RUNS, RUNS_MAX = 3, 6
CLOSE = 2.0  # times the best: only those can be the best, and are run three times
QUICK, SMALL, LOADS = 0.05, 0.01, 0.1  # shares of the full sizes
SMALL_PLANS = (
    *((plan, None) for plan in UNMAPPED),
    *((plan, "key-space-split") for plan in MAPPED),
)


@dataclass
class Measured:
    plan: str
    mapping: str | None
    cells: int | None
    predicted: float | None  # seconds; None: refused
    work: dict[str, float] = field(default_factory=dict)  # what was priced
    seconds: float | None = None  # median; None: stopped, refused or failed
    runs: int = 0
    disturbed: float = 0.0  # share of the machine that others used meanwhile
    stages: dict[str, float] | None = None  # seconds of the last run
    stopped: float | None = None  # after so many seconds
    note: str | None = None
    notifications: int | None = None

    @property
    def name(self) -> str:
        return self.plan if self.mapping is None else f"{self.plan}/{self.mapping}"

    def foreseen(self, estimate: Estimate) -> None:
        self.cells = estimate.cells
        self.note = estimate.refused
        self.predicted = None if estimate.refused else round(estimate.seconds, 3)
        self.work = {name: float(often) for name, often in estimate.work.items()}


def surveyed(folder: Path) -> Surveyed:
    """As the planner sees it."""
    schema = read_schema(folder / "schema.toml")
    seen = survey(schema, folder / "subscriptions.parquet", folder / "events.parquet")
    here = seen.situation(cores=usable_cores(), memory=spare_memory(), local=True)
    return Surveyed(here, seen.sample)


def rows_of(seen: Surveyed) -> list[int]:
    """Subscriptions and events."""
    return [seen.situation.subscriptions.count, seen.situation.events.count]


def loads_of(name: str, seed: int) -> dict[str, Any]:
    """Of the tasks of plan `keyed`; ratios, so a part of the workload will do."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "in")
        WORKLOADS[name](folder, LOADS, seed)
        return task_loads(surveyed(folder), folder)


# -- measuring -------------------------------------------------------------------------------------


def measure(name: str, scale: float, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder, small = Path(scratch, "in"), Path(scratch, "small")
        WORKLOADS[name](folder, scale, seed)
        WORKLOADS[name](small, SMALL, seed)
        with Runner(small) as runner:
            found = list(_all(folder, runner))
            few = list(_small(small, runner))
        rows = rows_of(surveyed(folder))
    best = min((one.seconds for one in found if one.seconds is not None), default=None)
    answers = {one.notifications for one in found if one.notifications is not None}
    if len(answers) > 1:
        raise SystemExit(f"{name}: plans disagree: {answers}")
    return {
        "workload": name,
        "scale": scale,
        "seed": seed,
        "rows": rows,
        "best": best,
        "plans": [asdict(one) for one in found],
        "small": [asdict(one) for one in few],
    }


def measure_small(name: str, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        WORKLOADS[name](Path(scratch, "small"), SMALL, seed)
        with Runner(Path(scratch, "small")) as runner:
            return [asdict(one) for one in _small(Path(scratch, "small"), runner)]


def _small(folder: Path, runner: Runner) -> Iterator[Measured]:
    seen = surveyed(folder)
    for plan, mapping in SMALL_PLANS:
        one = Measured(plan, mapping, None, None)
        one.foreseen(estimate_of(seen, plan, mapping))
        _run(one, str(folder), runner, None)
        print(
            f"  small {one.name}: predicted {one.predicted}, {one.seconds or one.note}", flush=True
        )
        yield one


def _all(folder: Path, runner: Runner) -> Iterator[Measured]:
    best: float | None = None
    for estimate in estimates(surveyed(folder)):
        one = Measured(estimate.plan, estimate.mapping, None, None)
        one.foreseen(estimate)
        if estimate.refused is None:
            _run(one, str(folder), runner, best)
            if one.seconds is not None:
                best = min(best or one.seconds, one.seconds)
        print(f"  {one.name}: predicted {one.predicted}, {one.seconds or one.note}", flush=True)
        yield one


def _run(one: Measured, folder: str, runner: Runner, best: float | None) -> None:
    times: list[tuple[float, float]] = []  # how disturbed, seconds
    limit = STOP_AT * best if best else STOP_FIRST_SECONDS
    while _again(times, best):
        started = time.perf_counter()
        job = Job(folder, one.plan, one.mapping, one.cells)
        try:
            # Nobody needs to be warm to be stopped.
            done = runner.run(job, limit, warm=(one.predicted or 0.0) < limit)
        except Stopped:
            one.stopped, one.note = round(limit, 1), f"stopped after {limit:.0f} s"
            return
        except Failed as error:
            one.note = f"{error} after {time.perf_counter() - started:.0f} s"
            return
        stages: dict[str, float] = done["seconds"]
        times.append((done["disturbed"], sum(stages[name] for name in FORESEEN_STAGES)))
        one.stages, one.notifications = stages, done["counts"]["notifications"]
    quietest = sorted(times)[:RUNS]
    one.seconds = round(statistics.median(seconds for _, seconds in quietest), 3)
    one.runs, one.disturbed = len(quietest), quietest[-1][0]


def _again(times: list[tuple[float, float]], best: float | None) -> bool:
    """Three quiet runs of what may be the best, or as many as it takes to give up on quiet ones;
    one of the others."""
    if not times:
        return True
    if len(times) >= RUNS_MAX or times[0][1] > CLOSE * (best or times[0][1]):
        return False
    return sum(disturbed <= QUIET for disturbed, _ in times) < RUNS


# -- foreseeing again ------------------------------------------------------------------------------


def foresee_again(result: dict[str, Any]) -> None:
    """The measured plans, with as many cells as they were measured with; in place."""
    name, seed = result["workload"], result["seed"]
    with tempfile.TemporaryDirectory() as scratch:
        folder, small = Path(scratch, "in"), Path(scratch, "small")
        WORKLOADS[name](folder, result["scale"], seed)
        WORKLOADS[name](small, SMALL, seed)
        seen = surveyed(folder)
        if rows_of(seen) != result["rows"]:
            raise SystemExit(f"{name} was measured at another size: --only {name!r} measures again")
        _foresee(result["plans"], seen)
        _foresee(result["small"], surveyed(small))
    result["plans"].sort(key=lambda plan: (plan["predicted"] is None, plan["predicted"] or 0.0))


def _foresee(plans: list[dict[str, Any]], seen: Surveyed) -> None:
    for plan in plans:
        if plan["seconds"] is not None or plan["stopped"] is not None:
            one = Measured(plan["plan"], plan["mapping"], plan["cells"], None)
            one.foreseen(estimate_of(seen, one.plan, one.mapping, one.cells))
            plan |= {"predicted": one.predicted, "work": one.work}


def _known() -> dict[str, dict[str, Any]]:
    """What was measured before, by workload."""
    if not NUMBERS.exists():
        return {}
    return {one["workload"]: one for one in json.loads(NUMBERS.read_text())}


def _keep(known: dict[str, dict[str, Any]]) -> None:
    NUMBERS.parent.mkdir(parents=True, exist_ok=True)
    NUMBERS.write_text(json.dumps([*known.values()], indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-plans")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the sizes")
    parser.add_argument("--only", default="", help="workloads whose name has this; the others stay")
    parser.add_argument("--seed", type=int, default=SEED, help="of the workloads")
    parser.add_argument("--small", action="store_true", help="small jobs again, the others stay")
    parser.add_argument("--fit", action="store_true", help="fit prices to the last measurements")
    options = parser.parse_args()
    scale = QUICK if options.quick else 1.0
    known = _known() if options.fit or options.only or options.small else {}
    for name in () if options.fit else WORKLOADS:
        if options.only not in name:
            continue
        print(name, flush=True)
        if options.small:
            known[name]["small"] = measure_small(name, options.seed)
        else:
            known[name] = measure(name, scale, options.seed)
        _keep(known)
    for result in known.values():  # what was measured before this run, as it is foreseen now
        foresee_again(result)
    _keep(known)
    if options.fit:
        print(fitted_prices([*known.values()]))
    results = [known[name] for name in WORKLOADS if name in known]
    loads = {name: loads_of(name, options.seed) for name in WORKLOADS}
    text = page(results, unseen(results), loads)
    if all(one["scale"] == 1.0 for one in results):
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
