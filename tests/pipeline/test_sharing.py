"""Files between driver and workers: what is seen, what is done about it, what is brought."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from crossroads.errors import InputNotShared, OutputNotShared
from crossroads.pipeline import delivery, sharing
from crossroads.pipeline.beacon import Beacon, Sight, stamp
from crossroads.pipeline.delivery import Written, write_partitions
from crossroads.pipeline.sharing import Sharing, run_shared
from crossroads.pipeline.source import SourceFile, list_files, plan_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 1 << 20


def folder_of(path: Path, name: str) -> Path:
    found = path / name
    found.mkdir()
    return found


def csv(folder: Path) -> SourceFile:
    (folder / "events.csv").write_text("id,x\na,1\n")
    (file,) = list_files(folder / "events.csv")
    return file


# -- what is seen --------------------------------------------------------------------------------


def test_a_beacon_is_not_mistaken_for_that_of_another_run(tmp_path: Path) -> None:
    beacon = Beacon.put(tmp_path)
    assert beacon.is_seen()
    assert Beacon.put(tmp_path).is_seen() and beacon.is_seen()
    Path(beacon.path).write_text("of another machine")
    assert not beacon.is_seen()
    Path(beacon.path).write_bytes(b"\xff\xfe")
    assert not beacon.is_seen()
    Path(beacon.path).unlink()
    assert not beacon.is_seen()


def test_a_file_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    file = csv(tmp_path)
    (split,) = plan_splits([file], None)
    (placed,) = Sharing(stamped=True).placed([split])
    assert placed.here().opened == file.path
    Path(file.path).write_text("id,x\nb,22\n")
    with pytest.raises(InputNotShared, match=r"does not see the input file .*events\.csv"):
        placed.here()


def test_a_relative_path_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv(tmp_path)
    monkeypatch.chdir(tmp_path)
    (split,) = plan_splits(list_files("events.csv"), None)
    (placed,) = Sharing(stamped=True).placed([split])
    monkeypatch.chdir(folder_of(tmp_path, "elsewhere"))
    assert placed.here().opened == str(tmp_path / "events.csv")
    assert placed.here().path == "events.csv"  # as rejects name it


def test_what_is_seen_is_told_without_an_error(tmp_path: Path) -> None:
    file = csv(tmp_path)
    known = Sight(Beacon.put(tmp_path), {file.path: stamp(file.path)})
    assert known.look(0) == (True, True)
    os.utime(file.path, (1, 1))
    assert known.look(0) == (True, False)
    assert stamp("\0") is None


# -- what is done about it -----------------------------------------------------------------------


@pytest.mark.spark
def test_a_worker_that_joins_later_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers were asked and saw everything; then a task runs on one that does not."""
    monkeypatch.setattr(sharing, "is_local", lambda master: False)
    file, staging = csv(tmp_path), folder_of(tmp_path, "staging")
    attempts: list[Sharing] = []

    def plan(how: Sharing) -> str:
        attempts.append(how)
        lost: type[Exception] | None = None
        if not how.brought:
            lost = OutputNotShared
        elif not how.shipped:
            lost = InputNotShared

        def task(_: int) -> None:
            if lost is not None:
                raise lost("a worker does not see it")

        spark.sparkContext.parallelize([0], 1).foreach(task)
        return "done"

    assert run_shared(spark, staging, [file], plan, ship=True) == "done"
    assert [(how.brought, bool(how.shipped)) for how in attempts] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    notes = attempts[-1].notes([file])
    assert "workers do not see the input: 9 bytes" in notes[0] and len(notes) == 2


@pytest.mark.spark
def test_folders_that_must_be_shared(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "is_local", lambda master: False)
    monkeypatch.setattr(Beacon, "put", lambda folder: Beacon(str(folder / "elsewhere"), "word"))
    with pytest.raises(OutputNotShared, match="--plan indexed"):
        run_shared(spark, tmp_path, [csv(tmp_path)], lambda how: None, ship=False)


# -- what is brought -----------------------------------------------------------------------------


def files_of(batches: Iterable[pa.RecordBatch], folder: Path, number: int) -> tuple[int, int]:
    rows = sum(batch.num_rows for batch in batches)
    (folder / "notifications").mkdir(exist_ok=True)
    (folder / "notifications" / f"part-{number}").write_bytes(bytes([number]) * (4 * MIB + number))
    (folder / "events").mkdir(exist_ok=True)
    (folder / "events" / f"part-{number}").write_bytes(b"")
    return rows, number


@pytest.mark.spark
@pytest.mark.parametrize("how", ["seen", "looked for", "brought"])
def test_the_files_of_every_partition_arrive(
    how: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "CHUNKS_AT_A_TIME", 2)  # several fetches of a part
    nowhere = Beacon(str(tmp_path / "nowhere" / "beacon"), "word")
    ways = {
        "seen": Sharing(),
        "looked for": Sharing(beacon=Beacon.put(tmp_path)),
        "brought": Sharing(beacon=nowhere, brought=True),
    }
    frame = spark.range(0, 10, 1, 3)
    written = write_partitions(frame, tmp_path, files_of, ways[how])
    assert sorted(written, key=lambda one: one.part) == [
        Written(0, 3, 0),
        Written(1, 3, 1),
        Written(2, 4, 2),
    ]
    for number in range(3):
        found = (tmp_path / "notifications" / f"part-{number}").read_bytes()
        assert found == bytes([number]) * (4 * MIB + number)
        assert (tmp_path / "events" / f"part-{number}").read_bytes() == b""
    assert not list(tmp_path.rglob(".*"))
