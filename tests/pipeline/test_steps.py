"""Matching in steps: everything once, in order, and never more at a time than allowed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crossroads.matching.index import MatchIndex
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.pipeline import steps

SCHEMA = Schema.from_mapping({"id": "id", "attributes": {"id": "bigint", "x": "int"}})


def _index(size: int) -> MatchIndex:
    """Nobody wants x = 0, everybody wants x = 1."""
    return MatchIndex.of(SCHEMA, [parse("x >= 1", SCHEMA)] * size)


def _events(quiet: int, wanted: int) -> pa.Table:
    xs = [0] * quiet + [1] * wanted
    return pa.table({"id": range(len(xs)), "x": xs}).cast(SCHEMA.arrow)


def test_steps_are_the_whole() -> None:
    index, events = _index(7), _events(3_000, 500)
    whole = index.match_batch(events)
    at, found = 0, []
    for start, rows, matches in steps.match_in_steps(index, events):
        assert start == at
        at += rows.num_rows
        found += [sorted(matches.of(row).tolist()) for row in range(rows.num_rows)]
    assert found == [sorted(whole.of(row).tolist()) for row in range(events.num_rows)]


def test_a_sparse_beginning_does_not_make_a_dense_step_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "PAIRS_PER_STEP", 1_000)
    monkeypatch.setattr(steps, "PAIRS_PER_STEP_MAX", 20_000)
    index = _index(100)
    sizes = [
        (rows.num_rows, matches.ordinals.size)
        for _, rows, matches in steps.match_in_steps(index, _events(1_000, 1_000))
    ]
    assert sum(rows for rows, _ in sizes) == 2_000
    assert sum(pairs for _, pairs in sizes) == 100_000
    assert max(pairs for _, pairs in sizes) <= 20_000
    assert sizes[-2][1] <= 1_000  # once the density is known, steps are as small as asked for


def test_sparse_events_are_few_steps_however_many_subscriptions() -> None:
    assert sum(1 for _ in steps.match_in_steps(_index(20_000), _events(30_000, 0))) == 2


def test_one_event_may_match_more_than_a_step_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PAIRS_PER_STEP_MAX", 10)
    index = _index(2_000)
    sizes = [m.ordinals.size for _, _, m in steps.match_in_steps(index, _events(0, 3))]
    assert sizes == [2_000, 2_000, 2_000]
