"""Where the two sides of a run meet: the mapping, its keys grouped into cells, hot cells shared.

A cell hot with events has several **replicas**: each of its events goes to one of them, by its row,
and its subscriptions stand in all of them. So no task has to do all the work of one cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crossroads.mapping.cells import Cells
from crossroads.mapping.contract import Mapping

TASKS_PER_CORE = 4  # evens out tasks that take longer than foreseen
REPLICAS_MAX = 64  # of one cell: more would copy its subscriptions more often than it spreads work

Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Meeting:
    """Small, and pickled with every task."""

    mapping: Mapping
    cells: Cells
    replicas: Int32Array  # by cell, at least 1

    @property
    def shared(self) -> bool:
        """Has any cell more than one?"""
        return bool((self.replicas > 1).any())


def replicas_for(
    load: npt.NDArray[np.float64], events: npt.NDArray[np.int64], tasks: int
) -> Int32Array:
    """How many tasks should share each cell, given the load that a sample put on it.

    Work is spread evenly over `tasks` when no piece of it exceeds a task's share. An event is never
    cut, so a cell that was seen with one event has no use for a second replica.
    """
    total = float(load.sum())
    if total <= 0.0 or tasks < 2:
        return np.ones(load.size, np.int32)
    wanted = np.ceil(load * tasks / total)
    return np.clip(np.minimum(wanted, events), 1, REPLICAS_MAX).astype(np.int32)
