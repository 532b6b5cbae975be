"""The duplicate window is a dictionary from id to the time it was taken, whatever is restarted."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import CheckpointError
from crossroads.pipeline.stream.seen import UNLIMITED, Fingerprints, SeenWindow

Split = list[int]  # ids, in the order of its rows
Claimed = dict[int, list[int]]

# Few ids, so that they meet again; ids that differ in one half only, or share a slot.
IDS = st.integers(0, 30)


def fingerprints(ids: Split) -> Fingerprints:
    """Rows are numbered from 100, so that a row is not taken for a place."""
    pairs = [(i % 3, (i % 5) << 12, 100 + at) for at, i in enumerate(ids)]
    return np.array(pairs, np.uint64).reshape(-1, 3)


def key(number: int) -> tuple[int, int]:
    return number % 3, number % 5


class Model:
    """The definition."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self.taken: dict[tuple[int, int], int] = {}

    def claim(self, started_ms: int, splits: dict[int, Split]) -> Claimed:
        repeated: Claimed = {}
        for number in sorted(splits):
            for at, i in enumerate(splits[number]):
                when = self.taken.get(key(i))
                if when is not None and started_ms - when <= self.window_ms:
                    repeated.setdefault(number, []).append(100 + at)
                else:
                    self.taken[key(i)] = started_ms
        return repeated


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, dict[int, Split], str]]:
    """Batches: their start, their splits, and what happens to the driver around them."""
    found, now = [], 1_000
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0, 1, 5, 9, 10, 11, 40]))
        splits = draw(st.dictionaries(st.integers(0, 3), st.lists(IDS, max_size=8), max_size=3))
        fate = draw(st.sampled_from(["", "", "restart", "killed", "killed twice"]))
        found.append((now, splits, fate))
    return found


@given(histories(), st.sampled_from([0, 1, 10, 25, UNLIMITED]))
def test_it_is_a_dictionary_across_restarts_and_replays(
    history: list[tuple[int, dict[int, Split], str]], window_ms: int
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        model, seen = Model(window_ms), SeenWindow(folder, window_ms)
        for batch, (now, splits, fate) in enumerate(history):
            expected = model.claim(now, splits)
            if fate == "restart":
                seen = SeenWindow(folder, window_ms)
            for life in range(1 + fate.count("killed") + fate.count("twice")):
                if life:  # killed after the ids were durable: the batch comes again
                    seen = SeenWindow(folder, window_ms)
                given_ids = {number: fingerprints(ids) for number, ids in splits.items()}
                found = seen.claim(batch, now, given_ids)
                assert {number: rows.tolist() for number, rows in found.items()} == expected
    finally:
        shutil.rmtree(folder)


def random_ids(seed: int, count: int) -> Fingerprints:
    drawn = np.random.default_rng(seed).integers(0, 2**63, (count, 2), np.int64)
    rows = np.arange(count, dtype=np.int64)
    return np.column_stack([drawn, rows]).astype(np.uint64)


def test_many_ids_are_all_remembered_and_all_forgotten(tmp_path: Path) -> None:
    """More than the first table holds, so that it grows; then a window later."""
    seen = SeenWindow(tmp_path, 1_000)
    ids = random_ids(1, 50_000)
    assert seen.claim(0, 0, {0: ids[:25_000], 1: ids[25_000:]}) == {}
    assert len(seen) == 50_000
    again = seen.claim(1, 1_000, {0: ids})
    assert again[0].tolist() == list(range(50_000))
    assert seen.claim(2, 1_001, {0: ids}) == {}
    others = random_ids(2, 100_000)
    assert seen.claim(3, 9_000, {0: others}) == {}
    assert len(seen) == 100_000  # the old ones made room for them


def test_files_of_the_past_are_removed(tmp_path: Path) -> None:
    seen = SeenWindow(tmp_path, 10)
    for batch in range(20):
        seen.claim(batch, batch * 10, {0: random_ids(batch, 3)})
    left = sorted(int(path.name.partition("-")[0]) for path in tmp_path.iterdir())
    assert left == [17, 18, 19]  # one more than the window asks for


def test_a_write_that_was_killed_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    seen = SeenWindow(tmp_path, 10)
    seen.claim(0, 0, {0: random_ids(0, 3)})
    (tmp_path / ".000000001-5.npy.77").write_bytes(b"half of i")
    assert SeenWindow(tmp_path, 10).claim(1, 5, {0: random_ids(0, 3)})[0].tolist() == [0, 1, 2]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    seen = SeenWindow(tmp_path, 10)
    seen.claim(0, 0, {0: random_ids(0, 3)})
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"something else")
    with pytest.raises(CheckpointError, match=file.name):
        SeenWindow(tmp_path, 10).claim(1, 5, {})
