"""kill -9 at every touch of the disk while changes are taken up: nothing lost, nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossroads.model.schema import Schema
from crossroads.pipeline.stream.subscriptionlog import SubscriptionLog

PROGRAM = Path(__file__).with_name("killed_at_a_write.py")
SCHEMA = Schema.from_mapping({"id": "n", "attributes": {"n": "bigint", "price": "double"}})
NOW = 1_700_000_000_000
START_SECONDS_MAX = 900  # 15 s on an idle machine; a bound for one that hangs
KILLS_MIN = 25  # two versions with their levels, masks, rejects and lines in the journal
TABLES = {1: {"x", "y"}, 2: {"x", "y", "z"}, 3: {"z"}}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What every kill left behind."""
    root = tmp_path_factory.mktemp("killed")
    subprocess.run(
        [sys.executable, str(PROGRAM), str(root)],
        check=True,
        timeout=START_SECONDS_MAX,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    return sorted(root.iterdir(), key=lambda path: int(path.name))


def test_the_version_found_is_a_whole_one_and_the_rest_follows(killed: list[Path]) -> None:
    assert len(killed) > KILLS_MIN
    found = []
    for root in killed:
        log = SubscriptionLog.open(root / "changes", SCHEMA, root / "state")
        found.append(log.current)
        table = log.table_at(log.current, NOW)
        assert set(table["id"].to_pylist()) == TABLES[log.current], root
        told = log.poll(NOW)
        # Everything after the version, and what was rejected whether or not it was told.
        assert {one.entry.file for one in told} == {"b.csv", "c.csv"}, root
        assert [len(one.rejects) for one in told] == [1, 1], root
        assert log.current == 3
        assert set(log.table_at(3, NOW)["id"].to_pylist()) == TABLES[3]
        history = list(log.history())
        assert [one.entry.file for one in history] == ["a.csv", "b.csv", "c.csv"], root
        assert [len(one.rejects) for one in history[1:]] == [1, 1], root
        check_files(log, root / "state")
    assert found == sorted(found)  # the later the kill, the more was committed
    assert set(found) == {1, 2, 3}


def check_files(log: SubscriptionLog, state: Path) -> None:
    """A poll later everything on the disk is named by the version that is left."""
    log.release(3)
    log.poll(NOW)
    assert [file.name for file in (state / "versions").iterdir()] == ["000000003.version"]
    assert not [file for file in state.rglob("*") if file.name.startswith(".")]
    assert {file.name for file in state.iterdir()} == {
        "journal.jsonl", "levels", "rejects", "versions",
    }  # fmt: skip
