"""How evenly the tasks of plan `keyed` are loaded, with hot cells shared and without.

Counted on all events of a workload, with the cells and the placement that the plan would choose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from crossroads.mapping.balance import balanced
from crossroads.mapping.fit import MAPPINGS
from crossroads.pipeline.meeting import TASKS_PER_CORE
from crossroads.pipeline.placement import Placement, place_cells, sampled_load
from crossroads.pipeline.situation import Surveyed


def task_loads(surveyed: Surveyed, folder: Path) -> dict[str, Any]:
    """By mapping: events of the busiest task over the mean, hot cells not shared and shared."""
    events = pq.read_table(folder / "events.parquet")
    tasks = surveyed.situation.cores * TASKS_PER_CORE
    found: dict[str, Any] = {}
    for name in MAPPINGS:
        keyed = surveyed.keyed(name)
        if isinstance(keyed, str):
            continue
        cells = balanced(keyed.mapping, surveyed.sample, tasks)
        waiting = cells.cells_of_ranges(keyed.ranges).load(cells.count)
        load, seen = sampled_load(cells.cells_of_keys(keyed.keys), waiting)
        all_keys = keyed.mapping.keys_of_events(events.cast(keyed.mapping.schema.arrow))
        visits = np.bincount(cells.cells_of_keys(all_keys).cells, minlength=cells.count)
        visits = np.where(waiting > 0, visits, 0)
        found[name] = {
            when: _ratio(place_cells(load, seen, tasks, replicated=shared), visits)
            for when, shared in (("before", False), ("after", True))
        }
    return found


def _ratio(placement: Placement, visits: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    replicas = np.diff(placement.offsets)
    share = np.repeat(visits / replicas, replicas)
    by_task = np.bincount(placement.places, weights=share, minlength=placement.tasks)
    return round(float(by_task.max() / max(by_task.mean(), 1e-9)), 2)
