"""Cells to tasks: every piece has a place, hot cells have several, loads come out even."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.cells import EventCells
from crossroads.pipeline.placement import FINENESS, place_cells, sampled_load

loads = st.lists(st.floats(0, 1e6), min_size=1, max_size=60).map(np.array)


def task_loads(load: np.ndarray, tasks: int, **how: bool) -> np.ndarray:
    events = np.full(load.size, 1_000_000)  # enough to share
    placement = place_cells(load, events, tasks, **how)
    found = np.zeros(tasks)
    for cell, share in enumerate(load):
        places = placement.of(cell)
        np.add.at(found, places, share / places.size)
    return found


@given(loads, st.integers(1, 12))
def test_loads_are_even(load: np.ndarray, tasks: int) -> None:
    """No task has more than its share and one piece on top, which is a part of a share."""
    found = task_loads(load, tasks)
    assert np.isclose(found.sum(), load.sum())
    share = load.sum() / tasks
    assert found.max() <= share * (1 + 1 / FINENESS) + 1e-6


def test_without_replicas_one_task_has_the_hot_cell() -> None:
    load = np.array([500.0, *([50.0] * 10)])
    alone, shared = task_loads(load, 8, replicated=False), task_loads(load, 8)
    assert alone.max() / alone.mean() == 4.0
    assert shared.max() / shared.mean() <= 1.1


@given(loads, st.integers(1, 12))
def test_every_cell_has_a_place_and_no_task_twice_in_the_list(load: np.ndarray, tasks: int) -> None:
    placement = place_cells(load, np.full(load.size, 100), tasks)
    assert placement.offsets.size == load.size + 1 and (np.diff(placement.offsets) >= 1).all()
    assert ((placement.places >= 0) & (placement.places < tasks)).all()
    pairs = placement.pairs()
    assert len(set(pairs)) == len(pairs)
    assert {cell for cell, _ in pairs} == set(range(load.size))


def test_a_cell_seen_with_one_event_is_not_shared() -> None:
    placement = place_cells(np.array([100.0, 1.0]), np.array([1, 50]), 8)
    assert placement.of(0).size == 1


def test_load_counts_events_and_who_waits_for_them() -> None:
    sampled = EventCells(np.array([0, 2, 3, 4]), np.array([0, 1, 0, 3], np.int32))
    load, events = sampled_load(sampled, np.array([10, 30, 20, 0]))
    assert events.tolist() == [2, 1, 0, 1]
    assert load.tolist() == [2 * 0.75, 1 * 1.25, 0.5 * 1.0, 0.0]  # nobody waits in the last cell
