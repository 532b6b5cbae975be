"""A stream tells what the batch job tells; late events, changes and crashes are as a model says."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from tests.kill.places import read_folder, rejects_in
from tests.kill.world import World, active_filters

from crossroads.errors import CheckpointError, OutputError
from crossroads.model.schema import Schema
from crossroads.pipeline.job import MatchRequest, run_match
from crossroads.pipeline.source import SourceFile
from crossroads.pipeline.stream.job import Running, run_stream
from crossroads.pipeline.stream.journal import Journal, Record
from crossroads.pipeline.stream.matchbatch import ALONE_BYTES, ALONE_NOTIFICATIONS, fits_alone
from crossroads.pipeline.stream.request import StreamRequest
from crossroads.pipeline.stream.seen import UNLIMITED

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

PLANS = ("direct", "indexed", "naive", "sql", "keyed")
ALONE = "alone"  # plan direct, in the driver; everything else here is left to Spark's workers
FILES = 6  # two of each format


def way_of(plan: str) -> dict[str, Any]:
    if plan == ALONE:
        return {"plan": "direct", "alone_bytes": ALONE_BYTES}
    return {"plan": plan, "alone_bytes": 0}


def request_of(world: World, plan: Any = "direct", **more: Any) -> StreamRequest:
    base = StreamRequest(
        schema=world.folder / "schema.toml",
        subscriptions=world.changes,
        events=str(world.events),
        output=str(world.folder / "out"),
        checkpoint=world.checkpoint,
        available_now=True,
        **way_of(plan),
        duplicate_window_ms=UNLIMITED,
    )
    return replace(base, **more)


def check(world: World) -> None:
    """Every pair with its version, and every reject, as the definition has them."""
    expected = world.expected()
    assert not expected.unread and expected.told
    assert read_folder(world.folder / "out") == expected.told
    assert rejects_in(world.folder / "out") == expected.rejects


# -- stream = batch --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batch_output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `crossroads match` makes of all files at once."""
    folder = tmp_path_factory.mktemp("batch")
    world = World(folder / "world", seed=3)
    for _ in range(FILES):
        world.publish()
    subscriptions = folder / "subscriptions.csv"
    subscriptions.write_text((world.changes / "000001.csv").read_text().replace("upsert,", ","))
    run_match(
        MatchRequest(
            schema=world.folder / "schema.toml",
            subscriptions=subscriptions,
            events=world.events,
            output=folder / "out",
            plan="direct",
        )
    )
    return folder / "out"


def pairs_of(folder: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for part in folder.rglob("part-*.parquet"):
        table = pq.ParquetFile(part).read(["event_id", "subscription_id"])
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


def reasons_of(folder: Path) -> list[tuple[str, int, str]]:
    parts = folder.rglob("part-*.parquet")
    rows = [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]
    return sorted((Path(row["file"]).name, row["line"], row["reason"]) for row in rows)


@pytest.mark.parametrize("plan", [ALONE, *PLANS])
def test_a_stream_tells_what_the_batch_job_tells(
    plan: str, batch_output: Path, tmp_path: Path
) -> None:
    """In several batches: some files are there, others come later, and those are two batches."""
    world = World(tmp_path / "world", seed=3)
    for _ in range(FILES // 2):
        world.publish()
    run_stream(request_of(world, plan))
    for _ in range(FILES // 2):
        world.publish()
    size = sum(path.stat().st_size for path in sorted(world.events.iterdir())[FILES // 2 :])
    summary = run_stream(request_of(world, plan, batch_bytes=size * 2 // 3))
    assert summary["batches"] == 2
    out = world.folder / "out"
    told = pairs_of(out / "notifications")
    assert told and told == pairs_of(batch_output / "notifications")
    assert reasons_of(out / "rejected_events") == reasons_of(batch_output / "rejected_events")
    check(world)


# -- without a job of Spark's ----------------------------------------------------------------------


def test_small_batches_need_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a job")

    world = World(tmp_path / "world", seed=7)
    world.publish()
    monkeypatch.setattr(SparkContext, "parallelize", refused)
    run_stream(request_of(world, ALONE))
    check(world)
    world.publish()
    with pytest.raises(AssertionError, match="a job"):
        run_stream(request_of(world, ALONE, alone_bytes=10))


def test_batches_of_the_driver_and_of_workers_take_turns(tmp_path: Path) -> None:
    world = World(tmp_path / "world", seed=8)
    for alone_bytes in (ALONE_BYTES, 0, 0, ALONE_BYTES):
        world.publish()
        run_stream(request_of(world, "direct", alone_bytes=alone_bytes))
    check(world)


def test_what_fits_the_driver() -> None:
    def file(size: int, *, compressed: bool = False) -> SourceFile:
        return SourceFile(path="", format="jsonl", compressed=compressed, size=size)

    assert fits_alone([file(400), file(600)], 0, most=1000)
    assert not fits_alone([file(400), file(601)], 0, most=1000)
    assert not fits_alone([file(400, compressed=True)], 0, most=1000)
    assert not fits_alone([file(1)], ALONE_NOTIFICATIONS + 1, most=1000)
    assert not fits_alone([file(1)], 0, most=0)


# -- subscriptions that change ---------------------------------------------------------------------


@pytest.mark.parametrize("plan", [ALONE, "direct", "indexed"])
def test_changes_take_effect_with_the_next_batch(plan: str, tmp_path: Path) -> None:
    world = World(tmp_path / "world", seed=5)
    for _ in range(4):
        world.publish()
        run_stream(request_of(world, plan))
        world.change(now_ms=0)
        world.change(now_ms=1 << 42)  # some of these last until then
    versions = {version for _, _, version in read_folder(world.folder / "out")}
    assert versions == {1, 3, 5, 7}
    check(world)


def test_a_thousand_changes_take_effect_within_two_triggers(tmp_path: Path) -> None:
    """Every trigger has a batch; the third one to begin after the change has it at the latest."""
    (tmp_path / "in").mkdir()
    (tmp_path / "changes").mkdir()

    def change(number: int, rows: range) -> int:
        lines = [f"upsert,s{one},u,v = {one % 7}" for one in rows]
        (tmp_path / ".next").write_text("\n".join(["op,id,subscriber,filter", *lines]) + "\n")
        (tmp_path / ".next").rename(tmp_path / "changes" / f"{number:06d}.csv")
        return time.time_ns() // 1_000_000

    change(1, range(5_000))
    changed_ms: list[int] = []
    published = 0

    def look(_: Running) -> bool:
        nonlocal published
        (tmp_path / ".event").write_text(f"id,v\n{published},1\n")
        (tmp_path / ".event").rename(tmp_path / "in" / f"{published:06d}.csv")
        published += 1
        begun = [one.started_ms for one in records()]
        if not changed_ms and len(begun) >= 3:
            changed_ms.append(change(2, range(4_500, 5_500)))
        return bool(changed_ms) and sum(one > changed_ms[0] for one in begun) >= 5

    def records() -> list[Record]:
        journal = Journal(tmp_path / "state" / "batches")
        found = (journal.record(number) for number in range(published))
        return [one for one in found if one is not None]

    request = StreamRequest(
        schema=Schema.from_mapping({"id": "id", "attributes": {"id": "string", "v": "int"}}),
        subscriptions=tmp_path / "changes",
        events=str(tmp_path / "in"),
        output=str(tmp_path / "out"),
        checkpoint=tmp_path / "state",
        trigger_ms=1_000,
    )
    run_stream(request, look=look)
    after = [one.subscription_version for one in records() if one.started_ms > changed_ms[0]]
    assert after.count(1) <= 2 and after[-1] == 2, after


def test_a_file_of_subscriptions_is_compared_with_the_one_before(tmp_path: Path) -> None:
    world = World(tmp_path / "world", seed=6)
    snapshot = tmp_path / "subscriptions.csv"
    for version in (1, 2):
        world.publish()
        rows = [f'{name},u,"{text}"' for name, text in active_filters(world.tables[version])]
        snapshot.write_text("\n".join(["id,subscriber,filter", *rows]) + "\n")
        run_stream(request_of(world, subscriptions=snapshot))
        if version == 1:
            world.change(now_ms=0)
    check(world)


# -- crashes, without a process to kill ------------------------------------------------------------


def undo(world: World, what: str) -> None:
    """The checkpoint as a crash at that moment of the last batch would have left it."""
    last = max(int(path.name) for path in (world.checkpoint / "spark" / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (world.checkpoint / "spark" / "commits" / name).unlink()
    if what == "delivered":
        return
    shutil.rmtree(world.folder / "out" / "notifications" / f"batch={last:09d}")
    if what == "sink":
        return
    (world.checkpoint / "batches" / f"{last:09d}.done.json").unlink()
    if what == "rejects":
        return
    shutil.rmtree(world.folder / "out" / "rejected_events" / f"batch={last:09d}")
    if what == "claimed":
        return
    for path in (world.checkpoint / "seen").glob(f"{last:09d}-*"):
        path.unlink()
    (world.checkpoint / "scratch" / "staging" / "notifications").mkdir(parents=True)
    (world.checkpoint / "scratch" / "staging" / "notifications" / "part-00099.parquet").touch()


@pytest.mark.parametrize("what", ["delivered", "sink", "rejects", "claimed", "planned"])
def test_a_replay_tells_the_same_with_the_recorded_version(what: str, tmp_path: Path) -> None:
    world = World(tmp_path / "world", seed=8)
    for _ in range(2):
        for _ in range(3):
            world.publish()
        run_stream(request_of(world))
    undo(world, what)
    world.change(now_ms=0)
    world.publish()
    run_stream(request_of(world))
    assert {version for _, _, version in read_folder(world.folder / "out")} == {1, 2}
    check(world)


def test_without_idempotence_a_replay_tells_twice(tmp_path: Path) -> None:
    world = World(tmp_path / "world", seed=8)
    world.publish()
    plain = request_of(world, delivery="at-least-once")
    run_stream(plain)
    undo(world, "delivered")
    run_stream(plain)
    expected = world.expected().told
    assert read_folder(world.folder / "out") == expected + expected


def test_another_folder_or_another_checkpoint_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path / "world", seed=8)
    world.publish()
    run_stream(request_of(world))
    with pytest.raises(OutputError, match="another stream"):
        run_stream(request_of(world, checkpoint=tmp_path / "other"))
    with pytest.raises(CheckpointError, match="writes to"):
        run_stream(request_of(world, output=str(tmp_path / "elsewhere")))


# -- late events -----------------------------------------------------------------------------------

TIMED = Schema.from_mapping({"id": "id", "attributes": {"id": "int", "at": "timestamp"}})
START = datetime(2024, 5, 1)
DELAY_MINUTES = 10
NOW, FAR = 10**8, 10**9  # the machine's time, and a clock that is far ahead of it
# Minutes after the start, by file; a file is a batch. None: the event does not say when it was.
MINUTES: list[list[float | None]] = [
    [0, 100, -500],  # the first batch: nobody knows what time it is
    [90, 89.99, 95, None],  # 90 is at the limit
    [300, 90, 10],  # the batch that moves time on is judged by what was before it
    [290, 289, None, 400],
    [FAR, 390, 389],
    [395, NOW],  # a clock that is ahead makes others late, but not those of this minute
]


def written(minutes: float | None) -> str:
    if minutes is None:
        return ""
    if minutes == FAR:
        return "2999-01-01 00:00:00"
    moment = datetime.now(UTC) if minutes == NOW else START + timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def late_by_the_model() -> set[tuple[int, int]]:
    """Batch and place of those that come too late."""
    late: set[tuple[int, int]] = set()
    latest = -math.inf
    for batch, minutes in enumerate(MINUTES):
        times = [math.inf if one is None else one for one in minutes]
        late |= {(batch, at) for at, one in enumerate(times) if one < latest - DELAY_MINUTES}
        latest = min(NOW, max(latest, *(one for one in times if one < math.inf)))
    return late


@pytest.mark.parametrize("plan", [ALONE, "direct", "indexed"])
def test_late_events_are_rejected(plan: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "subscriptions.csv").write_text("id,subscriber,filter\nall,ann,TRUE\n")
    request = StreamRequest(
        schema=TIMED,
        subscriptions=tmp_path / "subscriptions.csv",
        events=str(tmp_path / "in"),
        output=str(tmp_path / "out"),
        checkpoint=tmp_path / "state",
        available_now=True,
        **way_of(plan),
        event_time="at",
        max_delay_ms=DELAY_MINUTES * 60_000,
    )
    number = 0
    names: dict[str, tuple[int, int]] = {}
    for batch, minutes in enumerate(MINUTES):
        lines = ["id,at"]
        for at, one in enumerate(minutes):
            lines.append(f"{number},{written(one)}")
            names[str(number)] = (batch, at)
            number += 1
        (tmp_path / "in" / f"{batch}.csv").write_text("\n".join(lines) + "\n")
        run_stream(request)
    told = {names[event] for event, _ in pairs_of(tmp_path / "out" / "notifications")}
    reasons = reasons_of(tmp_path / "out" / "rejected_events")
    late = {(int(Path(file).stem), line - 2) for file, line, _ in reasons}
    assert late == late_by_the_model()
    assert told == set(names.values()) - late
    assert all(reason.startswith("late: at is before") for _, _, reason in reasons)
