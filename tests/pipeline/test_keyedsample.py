"""A sample in its cells: every number is that of a plain count, cell by cell."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.cells import CellRanges, EventCells
from crossroads.pipeline.keyedsample import SampledCells

CELLS = 12
Places = set[int] | None  # None: at the root

cell_sets = st.sets(st.integers(0, CELLS - 1))
subscriptions = st.lists(st.none() | cell_sets, max_size=8)
events = st.lists(cell_sets, max_size=8)


def sampled(standing: list[Places], visiting: list[set[int]]) -> SampledCells:
    runs = [_runs(places or set()) for places in standing]
    flat = np.array([run for some in runs for run in some], np.int32).reshape(-1, 2)
    placed = CellRanges(
        np.cumsum([0, *map(len, runs)], dtype=np.int64),
        flat[:, 0],
        flat[:, 1],
        np.array([places is None for places in standing], np.bool_),
    )
    visited = EventCells(
        np.cumsum([0, *map(len, visiting)], dtype=np.int64),
        np.array([cell for cells in visiting for cell in sorted(cells)], np.int32),
    )
    return SampledCells(CELLS, placed, visited)


def _runs(cells: set[int]) -> list[tuple[int, int]]:
    first = [cell for cell in sorted(cells) if cell - 1 not in cells]
    last = [cell for cell in sorted(cells) if cell + 1 not in cells]
    return list(zip(first, last, strict=True))


@given(subscriptions, events)
def test_numbers_are_plain_counts(standing: list[Places], visiting: list[set[int]]) -> None:
    found = sampled(standing, visiting)
    placed = [places or set() for places in standing]
    in_cell = [sum(cell in places for places in placed) for cell in range(CELLS)]
    visits = [sum(cell in cells for cells in visiting) for cell in range(CELLS)]
    load = sorted((a * b for a, b in zip(in_cell, visits, strict=True) if a * b), reverse=True)

    assert found.standing(np.arange(CELLS)).tolist() == in_cell
    assert found.per_subscription.tolist() == [len(places) for places in placed]
    assert found.per_event.tolist() == [len(cells) for cells in visiting]
    assert found.load.tolist() == load
    assert found.pairs == sum(len(places & cells) for places in placed for cells in visiting)
    assert found.skew == (load[0] / (sum(load) / len(load)) if load else 1.0)
    assert found.fullest == max(*in_cell, standing.count(None))
    assert found.met().tolist() == [
        sum(len(places & cells) for cells in visiting) for places in placed
    ]
