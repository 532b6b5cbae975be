"""Which task matches the events of a cell. A hot cell is shared by several, so none does it all.

The load of a cell is foreseen from a sample: its events, each counted more where more subscriptions
wait. A cell with more than a task's share of the load gets replicas; then the heaviest pieces are
dealt out first, each to the task that has least.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crossroads.mapping.cells import EventCells
from crossroads.pipeline.meeting import replicas_for

Floats = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

DEALT_MAX = 10_000  # pieces dealt out one by one; the others are small, and go round
UNSEEN = 0.5  # events of a cell that the sample had none of
FINENESS = 3  # pieces of a task's share: dealt out, they come to even loads


@dataclass(frozen=True)
class Placement:
    """Events of cell c are shared by the tasks places[offsets[c]] … places[offsets[c + 1] - 1]."""

    tasks: int
    offsets: Int64Array
    places: Int32Array

    def of(self, cell: int) -> Int32Array:
        return self.places[self.offsets[cell] : self.offsets[cell + 1]]

    def pairs(self) -> list[tuple[int, int]]:
        """(cell, task), each once."""
        cells = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        return sorted(set(zip(cells.tolist(), self.places.tolist(), strict=True)))


def sampled_load(sampled: EventCells, subscriptions: Int64Array) -> tuple[Floats, Int64Array]:
    """By cell the load, in events of mean cost, and the sampled events. Cells where nobody waits
    have no load: their events go nowhere."""
    events = np.bincount(sampled.cells, minlength=subscriptions.size)
    used = subscriptions > 0
    mean = max(1.0, float(subscriptions[used].mean())) if used.any() else 1.0
    # Half of an event's cost is its own (to bring, to read, to write), half grows with the cell.
    weight = (1.0 + subscriptions / mean) / 2
    return np.where(used, np.maximum(events, UNSEEN) * weight, 0.0), events


def place_cells(
    load: Floats,
    events: Int64Array,
    tasks: int,
    *,
    fineness: int = FINENESS,
    replicated: bool = True,
) -> Placement:
    """`replicated` False: what would be without replicas, to compare with."""
    one = np.ones(load.size, np.int32)
    replicas = replicas_for(load, events, tasks * fineness) if replicated else one
    offsets = np.concatenate([[0], np.cumsum(replicas, dtype=np.int64)])
    cell = np.repeat(np.arange(load.size), replicas)
    piece = (load / replicas)[cell]
    order = np.argsort(-piece, kind="stable")
    places = np.empty(cell.size, np.int32)
    tasks_by_load = [(0.0, task) for task in range(tasks)]
    for at in order[:DEALT_MAX].tolist():
        least, task = tasks_by_load[0]
        places[at] = task
        heapq.heapreplace(tasks_by_load, (least + float(piece[at]), task))
    rest = order[DEALT_MAX:]
    places[rest] = np.arange(rest.size) % tasks
    return Placement(tasks, offsets, places)
