"""Which plan: the one asked for, or the cheapest that a sample of both sides promises.

`direct` needs input and output paths that every executor sees under the same names. That is certain
on one machine; on a cluster only whoever runs it can know, so there it must be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pyspark.sql import SparkSession

from crossroads.errors import EventError, SubscriptionError, UsageError
from crossroads.mapping.fit import MAPPINGS
from crossroads.model.schema import Schema
from crossroads.pipeline.estimate import Estimate, estimates, sql_estimate
from crossroads.pipeline.machine import spare_memory, usable_cores
from crossroads.pipeline.meeting import TASKS_PER_CORE, Meeting, replicas_for
from crossroads.pipeline.session import default_master, existing_session, is_local, local_cores
from crossroads.pipeline.situation import Surveyed
from crossroads.pipeline.survey import survey
from crossroads.pipeline.window import Window

Plan = Literal["auto", "direct", "indexed", "keyed", "naive", "sql"]
PLANS: tuple[Plan, ...] = ("auto", "direct", "indexed", "sql", "keyed", "naive")
WITHOUT_INDEX: tuple[Plan, ...] = ("naive", "sql")  # theirs only names the receivers
COMPARED = ("seconds", "matches_per_event", "index_bytes")  # what is known afterwards


@dataclass(frozen=True)
class Chosen:
    plan: Plan
    mapping: str | None = None
    cells: int | None = None
    estimates: Sequence[Estimate] = ()  # the best first; none where nothing had to be foreseen
    surveyed: Surveyed | None = None
    notes: Sequence[str] = ()  # what whoever asked should know

    def summary(self) -> dict[str, Any]:
        """What was foreseen, to stand beside what came of it."""
        described = [_described(one) for one in self.estimates]
        mine = {name: described[0][name] for name in COMPARED}
        return {**mine, "estimates": described}


def _described(one: Estimate) -> dict[str, Any]:
    counts = one.counts
    return {
        "plan": one.plan,
        "mapping": one.mapping,
        "cells": one.cells,
        "seconds": None if one.refused else round(one.seconds, 3),
        "refused": one.refused,
        "matches_per_event": round(counts.matches_per_event, 3),
        "ranges_per_subscription": round(counts.ranges_per_subscription, 3),
        "cells_per_subscription": round(counts.cells_per_subscription, 3),
        "cells_per_event": round(counts.cells_per_event, 3),
        "candidates_per_event": round(counts.candidates_per_event, 3),
        "skew": round(counts.skew, 2),
        "bytes_shuffled": int(one.bytes_shuffled),
        "index_bytes": int(one.index_bytes),
    }


def choose_plan(
    asked: Plan,
    schema: Schema,
    subscriptions: str | Path,
    events: str | Path,
    *,
    master: str | None = None,
    mapping: str | None = None,
    cells: int | None = None,
    window: Window | None = None,
) -> Chosen:
    """Decided before anything is read but samples; Spark is needed only to tell how many cores a
    cluster has. Its hosts are taken to have as much memory as this one."""
    if not needs_survey(asked):
        return Chosen(asked, mapping, cells)
    local = runs_locally(master)
    try:
        seen = survey(schema, subscriptions, events, window=window)
    except (SubscriptionError, EventError) as error:
        # Nothing usable was sampled: all may be rejects, and those are found by matching.
        if asked == "sql":
            why = f"plan indexed instead of sql, which needs a sample: {error.message}"
            return Chosen("indexed", notes=(why,))
        return Chosen("direct" if local else "indexed")
    here = seen.situation(cores=_cores(master), memory=spare_memory(), local=local)
    surveyed = Surveyed(here, seen.sample)
    if asked == "sql":
        best = sql_estimate(surveyed, (mapping,) if mapping else MAPPINGS, cells)
        return _chosen([best], surveyed)
    return _chosen(estimates(surveyed), surveyed)


def _chosen(found: Sequence[Estimate], surveyed: Surveyed) -> Chosen:
    """The first of them. Plan `keyed` fits its mapping anew, and says itself how."""
    best = found[0]
    fitted = surveyed.mapping(best.mapping) if best.plan == "sql" and best.mapping else ""
    notes = () if isinstance(fitted, str) else fitted.spec.notes
    return Chosen(best.plan, best.mapping, best.cells, found, surveyed, notes)  # type: ignore[arg-type]


def needs_survey(asked: Plan) -> bool:
    """Whether the plan, or its mapping, is chosen from a sample."""
    return asked in ("auto", "sql")


def check_plan(asked: str) -> None:
    if asked not in PLANS:
        raise UsageError(f"no plan {asked!r}", hint=f"plans: {', '.join(PLANS)}")


def runs_locally(master: str | None) -> bool:
    there = existing_session()
    if there is not None:
        return is_local(str(there.sparkContext.master))
    return is_local(master or default_master())


def _cores(master: str | None) -> int:
    there = existing_session()
    given = str(there.sparkContext.master) if there is not None else master or default_master()
    if is_local(given):
        return local_cores(given)
    return usable_cores() if there is None else int(there.sparkContext.defaultParallelism)


def meeting_of(chosen: Chosen, spark: SparkSession) -> Meeting:
    """Where the sides of plan `sql` meet, hot cells shared by several tasks."""
    assert chosen.surveyed is not None and chosen.mapping is not None
    keyed = chosen.surveyed.keyed(chosen.mapping)
    assert not isinstance(keyed, str), keyed
    assert chosen.cells is not None
    cells = keyed.cells(chosen.cells)
    found = keyed.in_cells(cells)
    events = np.bincount(found.visited.cells, minlength=cells.count)
    load = (events * found.placed.load(cells.count)).astype(np.float64)
    tasks = spark.sparkContext.defaultParallelism * TASKS_PER_CORE
    return Meeting(keyed.mapping, cells, replicas_for(load, events, tasks))
