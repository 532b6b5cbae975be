"""Subscriptions that change under a stream: versions equal a plain dict, whatever happens between.

The model is a dict of id → subscriber, filter, valid_until, paused; what a version serves is
compared with the definition, also after restarts and for versions long past.
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crossroads.errors import InputError, OtherSchema
from crossroads.matching.classes import TooDense
from crossroads.matching.definition import matches
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.pipeline.stream.effect import EXPIRED_KEPT_MS
from crossroads.pipeline.stream.subscriptionlog import SubscriptionLog
from crossroads.testing.strategies import event_table

SCHEMA = Schema.from_mapping(
    {"id": "n", "attributes": {"n": "bigint", "price": "double", "name": "string"}}
)
EVENTS = [
    {"n": n, "price": price, "name": name}
    for n, (price, name) in enumerate(
        (price, name) for price in (None, 1.0, 5.0, 20.0) for name in (None, "ab", "cab", "")
    )
]
TABLE = event_table(SCHEMA, EVENTS)
FILTERS = ("price > 4", "price BETWEEN 1 AND 5", "name = 'ab'", "contains(name, 'a')", "TRUE")
BAD = ("price >", "cost > 1")
IDS = [f"s{number}" for number in range(5)]
NOW = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
SECOND = 1_000


@dataclass(frozen=True)
class One:
    subscriber: str
    filter: str
    until: int | None = None
    paused: bool = False

    def lives(self, now: int) -> bool:
        return not self.paused and (self.until is None or self.until > now)


Model = Mapping[str, One]


def moment(ms: int | None) -> str:
    if ms is None:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def csv(path: Path, header: str, rows: Iterable[Iterable[str]]) -> Path:
    """Written beside its place and renamed, as users are told to."""
    lines = [",".join(f'"{cell}"' if cell else "" for cell in row) for row in rows]
    half = path.with_name(f".{path.name}")
    half.write_text("\n".join([header, *lines, ""]))
    return half.replace(path)


def found(log: SubscriptionLog, version: int, now: int) -> dict[int, list[tuple[str, str]]]:
    """By event: the subscriptions and subscribers that a worker would tell."""
    served = pickle.loads(pickle.dumps(log.served(version, now))).open()
    assert served.version == version
    pairs = served.index.match_batch(TABLE, most=10_000)
    ids, subscribers = served.ids.to_pylist(), served.subscribers.to_pylist()
    return {
        event: sorted((ids[at], subscribers[at]) for at in pairs.of(event).tolist())
        for event in range(len(EVENTS))
    }


def expected(model: Model, now: int) -> dict[int, list[tuple[str, str]]]:
    living = [(name, one.subscriber, parse(one.filter, SCHEMA)) for name, one in model.items()
              if one.lives(now)]  # fmt: skip
    return {
        at: sorted((name, who) for name, who, filter_ in living if matches(filter_, event))
        for at, event in enumerate(EVENTS)
    }


def check(log: SubscriptionLog, version: int, model: Model, now: int) -> None:
    assert found(log, version, now) == expected(model, now)
    rows = log.table_at(version, now).to_pylist()
    assert {row["id"]: (row["subscriber"], row["filter"]) for row in rows} == {
        name: (one.subscriber, one.filter) for name, one in model.items() if one.lives(now)
    }


# -- a life of changes ---------------------------------------------------------------------------

changes = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "upsert", "", "remove", "pause", "resume"]),
        st.sampled_from(IDS),
        st.sampled_from("uv"),
        st.sampled_from(FILTERS + BAD),
        st.sampled_from([None, None, NOW + 2 * SECOND, NOW + 9 * SECOND]),
    ),
    max_size=7,
)


class Life(RuleBasedStateMachine):
    """`log` where the subscriptions are a folder of changes, or `snapshot`, a file."""

    kind = "log"

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="crossroads-test-"))
        self.source = self.root / ("changes" if self.kind == "log" else "table.csv")
        if self.kind == "log":
            self.source.mkdir()
        self.model: dict[str, One] = {}
        self.past: dict[int, Model] = {0: {}}
        self.files = 0
        self.now = NOW
        self.log = self.reopened(None)
        self.version = 0
        self.entries = 0

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    def reopened(self, version: int | None) -> SubscriptionLog:
        return SubscriptionLog.open(self.source, SCHEMA, self.root / "state", version=version)

    @rule(rows=changes)
    def change(self, rows: list[tuple[str, str, str, str, int | None]]) -> None:
        before = dict(self.model)
        rejected = self.applied(rows) if self.kind == "log" else self.rewritten(rows)
        committed = self.log.poll(self.now)
        self.version += self.model != before
        self.past[self.version] = dict(self.model)
        assert self.log.current == self.version
        if committed:  # nothing, if the snapshot is word for word what it was
            (one,) = committed
            self.entries += 1
            assert one.entry.number == self.entries
            assert (one.version, one.entry.changed) == (self.version, self.model != before)
            assert len(one.rejects) == one.counts.rejected == rejected
            assert one.counts.added == len(self.model.keys() - before.keys())
            assert one.counts.removed == len(before.keys() - self.model.keys())
            assert one.entry.living == sum(it.lives(self.now) for it in self.model.values())
        assert self.log.poll(self.now) == []

    def applied(self, rows: list[tuple[str, str, str, str, int | None]]) -> int:
        """The next file of changes, in files and in the model; returns how many are rejected."""
        rejected = 0
        for op, name, who, text, until in rows:
            if op in ("upsert", ""):
                if text in BAD:
                    rejected += 1
                else:
                    self.model[name] = One(who, text, until)
            elif name not in self.model:
                rejected += 1
            elif op == "remove":
                del self.model[name]
            else:
                self.model[name] = replace(self.model[name], paused=op == "pause")
        cells = [[*row[:4], moment(row[4])] for row in rows]
        header = "op,id,subscriber,filter,valid_until"
        csv(self.source / f"{self.files:06d}.csv", header, cells)
        self.files += 1
        return rejected

    def rewritten(self, rows: list[tuple[str, str, str, str, int | None]]) -> int:
        """The table as these rows make it, each one as it would be written in a snapshot."""
        wanted = [row for row in rows if row[0] in ("upsert", "")]
        names = [row[1] for row in wanted]
        usable = [row for row in wanted if names.count(row[1]) == 1 and row[3] not in BAD]
        self.model = {name: One(who, text, until) for _, name, who, text, until in usable}
        cells = [[*row[1:4], moment(row[4])] for row in wanted]
        csv(self.source, "id,subscriber,filter,valid_until", cells)
        return len(wanted) - len(usable)

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule()
    def restart(self) -> None:
        self.log = self.reopened(None)
        assert self.log.current == self.version
        # Nothing is applied again. What was rejected, and what came after the version, is told
        # again: nobody can know whether it was told.
        for one in self.log.poll(self.now):
            assert one.rejects or not one.entry.changed
        assert (len(list(self.log.history())), self.log.current) == (self.entries, self.version)

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Back to the version of a batch that was recorded; then on."""
        version = data.draw(st.sampled_from(sorted(self.past)))
        self.log = self.reopened(version)
        assert self.log.current == version
        check(self.log, version, self.past[version], self.now)
        told = [one for one in self.log.poll(self.now) if one.entry.changed]
        later = [one.version for one in told if one.version > version]
        assert later == list(range(version + 1, self.version + 1))
        assert all(one.rejects for one in told if one.version <= version)
        assert self.log.current == self.version

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        below = data.draw(st.sampled_from(sorted(self.past)))
        self.log.release(below)
        self.log.poll(self.now)
        self.past = {version: one for version, one in self.past.items() if version >= below}
        if below:
            with pytest.raises(InputError, match=f"version {below - 1} "):
                self.log.served(below - 1, self.now)

    @invariant()
    def every_version_is_the_model_of_its_time(self) -> None:
        for version in sorted(getattr(self, "past", {}))[-3:]:
            check(self.log, version, self.past[version], self.now)


class LifeOfASnapshot(Life):
    kind = "snapshot"


Life.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
LifeOfASnapshot.TestCase.settings = settings(max_examples=30, stateful_step_count=10, deadline=None)
TestLife = Life.TestCase
TestLifeOfASnapshot = LifeOfASnapshot.TestCase


# -- one thing at a time -------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "changes"
    path.mkdir()
    csv(path / "a.csv", "id,subscriber,filter", [["x", "ann", "price > 4"], ["y", "bo", "TRUE"]])
    return path


def opened(path: Path, schema: Schema = SCHEMA) -> SubscriptionLog:
    return SubscriptionLog.open(path, schema, path.parent / "state")


def taken_up(path: Path) -> SubscriptionLog:
    log = opened(path)
    assert [one.version for one in log.poll(NOW)] == [1]
    return log


def ids(log: SubscriptionLog, now: int = NOW) -> set[str]:
    return set(log.table_at(log.current, now)["id"].to_pylist())


def test_an_empty_folder_is_a_table_without_subscriptions(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    log = opened(tmp_path / "changes")
    assert log.poll(NOW) == [] and log.current == 0
    assert found(log, 0, NOW) == expected({}, NOW)


def test_rows_of_a_file_apply_in_order(folder: Path) -> None:
    log = taken_up(folder)
    rows = [
        ["upsert", "z", "cy", "TRUE"],
        ["pause", "z", "", ""],  # of the row before
        ["pause", "x", "", ""],
        ["resume", "x", "", ""],  # nothing is left of it
        ["remove", "y", "", ""],
        ["upsert", "y", "bo", "TRUE"],  # what it was
    ]
    csv(folder / "b.csv", "op,id,subscriber,filter", rows)
    (one,) = log.poll(NOW)
    counts = one.counts
    assert (counts.added, counts.paused, counts.applied) == (1, 1, 2)
    assert ids(log) == {"x", "y"}


def test_an_upsert_ends_a_pause(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "b.csv", "op,id", [["pause", "x"]])
    csv(folder / "c.csv", "op,id,subscriber,filter", [["upsert", "x", "ann", "price > 4"]])
    paused, resumed = log.poll(NOW)
    assert (paused.counts.paused, resumed.counts.resumed, resumed.counts.replaced) == (1, 1, 0)
    assert log.current == 3 and ids(log) == {"x", "y"}


def test_a_pause_outlives_restarts_and_other_changes(folder: Path) -> None:
    csv(folder / "b.csv", "op,id", [["pause", "x"]])
    opened(folder).poll(NOW)
    csv(folder / "c.csv", "id,subscriber,filter", [["z", "cy", "TRUE"]])
    log = opened(folder)
    log.poll(NOW)
    assert (log.current, ids(log)) == (3, {"y", "z"})
    csv(folder / "d.csv", "op,id", [["resume", "x"]])
    log = opened(folder)
    (one,) = log.poll(NOW)
    assert (one.counts.resumed, ids(log)) == (1, {"x", "y", "z"})


def test_every_fault_of_a_row_is_named_with_its_line(folder: Path) -> None:
    log = taken_up(folder)
    rows = [
        ["upsert", "x", "ann", "price >", ""],
        ["drop", "x", "", "", ""],
        ["remove", "nobody", "", "", ""],
        ["remove", "", "", "", ""],
        ["upsert", "q", "", "TRUE", ""],
        ["upsert", "q", "cy", "TRUE", "tomorrow"],
        ["upsert", "w", "cy", "TRUE", "2030-01-01"],
    ]
    csv(folder / "b.csv", "op,id,subscriber,filter,valid_until", rows)
    (one,) = log.poll(NOW)
    reasons = {reject.line: reject.reason for reject in one.rejects}
    assert reasons[2].startswith("subscription x:")
    assert reasons[3] == "unknown op 'drop': expected upsert, remove, pause, resume"
    assert reasons[4] == "there is no subscription 'nobody' to remove"
    assert reasons[5] == "the id is missing"
    assert reasons[6] == "the subscriber is missing"
    assert reasons[7].startswith("valid_until: 'tomorrow'")
    assert {reject.file for reject in one.rejects} == {str(folder / "b.csv")}
    assert ids(log) == {"w", "x", "y"}  # x as it was
    # They are kept with the entry, for whoever restarts before they were reported.
    assert [each.rejects for each in opened(folder).history(after=1)] == [one.rejects]


@pytest.mark.parametrize(
    ("name", "text"),
    [("b.csv", "name,filter\na,TRUE\n"), ("b.txt", "a"), ("b.csv", ""), ("b.parquet", "PAR1")],
)
def test_a_file_that_cannot_be_used_is_one_reject(folder: Path, name: str, text: str) -> None:
    log = taken_up(folder)
    (folder / name).write_text(text)
    csv(folder / "c.csv", "op,id", [["remove", "y"]])
    broken, after = log.poll(NOW)
    assert [reject.file for reject in broken.rejects] == [str(folder / name)]
    assert not broken.entry.changed and after.entry.changed
    assert ids(log) == {"x"}
    assert log.drain_warnings() and not log.drain_warnings()
    again = opened(folder)
    assert again.poll(NOW) == [broken]  # the reject is told again, under its number
    assert again.poll(NOW) == [] and len(list(again.history())) == 3


def test_a_change_that_changes_nothing_is_no_version(folder: Path) -> None:
    log = taken_up(folder)
    shutil.copy(folder / "a.csv", folder / "b.csv")
    (one,) = log.poll(NOW)
    assert (one.version, one.entry.changed, log.current) == (1, False, 1)


def test_hidden_names_are_not_data(folder: Path) -> None:
    log = taken_up(folder)
    (folder / ".half.csv").write_text("id")
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part.csv").write_text("id")
    assert log.poll(NOW) == [] and log.drain_warnings() == []


def test_files_in_folders_are_taken_up_in_the_order_of_their_paths(folder: Path) -> None:
    log = taken_up(folder)
    for day in ("day=2", "day=1"):
        (folder / day).mkdir()
        csv(folder / day / "c.csv", "id,subscriber,filter", [["x", day, "TRUE"]])
    assert [one.entry.file for one in log.poll(NOW)] == ["day=1/c.csv", "day=2/c.csv"]


def test_a_late_file_is_applied_and_spoken_of(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "0.csv", "op,id", [["remove", "x"]])
    (one,) = log.poll(NOW)
    assert (one.version, ids(log)) == (2, {"y"})
    (warning,) = log.drain_warnings()
    assert "sorts before a.csv" in warning


def test_files_that_changed_or_vanished_are_not_applied_again(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "b.csv", "id,subscriber,filter", [["z", "cy", "TRUE"]])
    log.poll(NOW)
    csv(folder / "b.csv", "id,subscriber,filter", [["z", "other", "price > 1"]])
    (folder / "a.csv").unlink()
    for log in (log, opened(folder)):  # noqa: B020 (the same, and one that starts anew)
        assert log.poll(NOW) == []
        told = " ".join(log.drain_warnings())
        assert "a.csv" in told and "gone" in told
        assert "b.csv has changed since it was applied" in told
        assert log.poll(NOW) == [] and log.drain_warnings() == []
        assert ids(log) == {"x", "y", "z"}


def test_it_expires_by_the_time_of_the_batch_and_is_dropped_a_day_later(folder: Path) -> None:
    log = taken_up(folder)
    rows = [["z", "cy", "TRUE", moment(NOW + 5)], ["v", "cy", "TRUE", "2023-11-14T22:13:21Z"]]
    csv(folder / "b.csv", "id,subscriber,filter,valid_until", rows)
    log.poll(NOW)
    assert [ids(log, NOW + ms) - {"x", "y"} for ms in (4, 5, 999, 1000)] == [
        {"z", "v"}, {"v"}, {"v"}, set()
    ]  # fmt: skip
    # A file that changes nothing else is no reason to drop them.
    csv(folder / "c.csv", "op,id", [["resume", "x"]])
    later = NOW + 5 + EXPIRED_KEPT_MS
    (one,) = log.poll(later)
    assert not one.entry.changed and one.counts.expired == 0
    csv(folder / "d.csv", "op,id", [["remove", "x"]])
    (one,) = log.poll(later)
    assert (one.counts.expired, one.counts.removed) == (1, 1)
    assert ids(log, NOW) == {"y", "v"}
    assert ids(opened(folder), NOW) == {"y", "v"}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_valid_until_may_be_a_timestamp_of_parquet(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    moments = pa.array([NOW, None], pa.timestamp("ms", zone)).cast(pa.timestamp(unit, zone))
    table = pa.table(
        {
            "id": ["x", "y"],
            "subscriber": ["ann", "bo"],
            "filter": ["TRUE", "TRUE"],
            "valid_until": moments,
        }
    )
    pq.write_table(table, tmp_path / "table.parquet")
    log = opened(tmp_path / "table.parquet")
    (one,) = log.poll(NOW - 1)
    assert one.rejects == []
    assert (ids(log, NOW - 1), ids(log, NOW)) == ({"x", "y"}, {"y"})


# -- a snapshot ----------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [["x", "ann", "price > 4"], ["y", "bo", "TRUE"], ["z", "cy", "name = 'ab'"]]
    return csv(tmp_path / "table.csv", "id,subscriber,filter", rows)


def test_a_snapshot_is_compared_with_the_one_before(table: Path) -> None:
    log = taken_up(table)
    rows = [["x", "ann", "price > 4"], ["y", "bea", "TRUE"], ["w", "di", "TRUE"]]
    csv(table, "id,subscriber,filter", rows)
    (one,) = log.poll(NOW)
    counts = one.counts
    assert (counts.added, counts.replaced, counts.removed, log.current) == (1, 1, 1, 2)
    assert ids(log) == {"x", "y", "w"}


def test_a_snapshot_in_another_order_is_no_version(table: Path) -> None:
    log = taken_up(table)
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([header, *reversed(rows), ""]))
    (one,) = log.poll(NOW)
    assert (one.entry.changed, log.current) == (False, 1)
    table.touch()
    assert log.poll(NOW) == []


def test_a_snapshot_without_rows_removes_all_and_a_broken_one_nothing(table: Path) -> None:
    log = taken_up(table)
    table.write_text("")  # whoever writes it has only begun
    (one,) = log.poll(NOW)
    assert not one.entry.changed and "empty" in one.rejects[0].reason
    assert ids(log) == {"x", "y", "z"}
    table.unlink()
    assert log.poll(NOW) == []
    (warning,) = [text for text in log.drain_warnings() if "cannot read" in text]
    assert "the subscriptions stay" in warning
    csv(table, "id,subscriber,filter", [])
    (one,) = log.poll(NOW)
    assert (one.counts.removed, ids(log), log.current) == (3, set(), 2)


def test_a_compressed_snapshot_that_breaks_off_removes_nobody(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    rows = "".join(f"s{number},ann,price > {number}\n" for number in range(2_000))
    whole = gzip.compress(f"id,subscriber,filter\n{rows}".encode())
    path.write_bytes(whole)
    log = taken_up(path)
    path.write_bytes(whole[: len(whole) // 2])
    (one,) = log.poll(NOW)
    assert "truncated gzip" in one.rejects[0].reason
    assert len(ids(log)) == 2_000 and log.current == 1


def test_an_id_that_occurs_twice_in_a_snapshot_is_rejected(table: Path) -> None:
    log = taken_up(table)
    with table.open("a") as file:
        file.write('"x","ann","price > 4"\n')  # even though one of them is known
    (one,) = log.poll(NOW)
    assert [reject.line for reject in one.rejects] == [2, 5]
    assert ids(log) == {"y", "z"}


# -- what is on the disk -------------------------------------------------------------------------


def test_levels_are_folded_and_old_files_go(folder: Path) -> None:
    log = taken_up(folder)
    for number in range(40):
        csv(folder / f"n{number:03d}.csv", "id,subscriber,filter", [[f"n{number}", "u", "TRUE"]])
        log.poll(NOW)
    state = folder.parent / "state"
    assert len(list((state / "levels").iterdir())) > 40
    before = found(log, log.current, NOW)
    log.release(log.current)
    log.poll(NOW)
    assert [file.name for file in (state / "versions").iterdir()] == ["000000041.version"]
    assert len(list((state / "levels").iterdir())) <= 8
    log = opened(folder)
    assert found(log, 41, NOW) == before


def test_a_line_of_the_journal_that_was_not_finished_was_never_committed(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "b.csv", "op,id", [["remove", "x"]])
    log.poll(NOW)
    journal = folder.parent / "state" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-10])
    log = opened(folder)
    assert (log.current, ids(log)) == (1, {"x", "y"})
    assert [one.version for one in log.poll(NOW)] == [2]
    assert ids(log) == {"y"}
    assert [json.loads(line)["number"] for line in journal.read_text().splitlines()] == [1, 2]


def test_a_version_that_is_not_there_is_refused(folder: Path) -> None:
    log = taken_up(folder)
    with pytest.raises(InputError, match="version 2 of the subscriptions is not in"):
        log.served(2, NOW)
    with pytest.raises(InputError, match="it has 0 to 1"):
        SubscriptionLog.open(folder, SCHEMA, folder.parent / "state", version=7)


def test_another_schema_is_refused_with_what_changed(folder: Path) -> None:
    taken_up(folder)
    other = Schema.from_mapping({"id": "n", "attributes": {"n": "bigint", "price": "double"}})
    with pytest.raises(OtherSchema, match="name"):
        opened(folder, other)


def test_a_disk_that_fails_leaves_the_version_before(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "b.csv", "id,subscriber,filter", [["z", "cy", "TRUE"]])
    versions = folder.parent / "state" / "versions"
    moved = versions.rename(versions.with_name("elsewhere"))
    with pytest.raises(InputError, match="cannot write"):
        log.poll(NOW)
    moved.rename(versions)
    assert (log.current, ids(log)) == (1, {"x", "y"})
    assert [one.version for one in log.poll(NOW)] == [2]
    assert ids(log) == {"x", "y", "z"}


def test_too_many_matches_at_a_time_are_refused_over_all_levels(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "b.csv", "id,subscriber,filter", [["z", "cy", "TRUE"]])
    log.poll(NOW)
    index = log.served(2, NOW).open().index
    many = pa.concat_tables([TABLE] * 200)
    total = index.match_batch(many).ordinals.size
    with pytest.raises(TooDense):
        index.match_batch(many, most=total - 1)
    assert index.match_batch(many, most=total).ordinals.size == total
    assert index.match_batch(TABLE.slice(0, 1), most=1).ordinals.size == 2  # one event may


def test_a_version_is_opened_once_while_nobody_expires(folder: Path) -> None:
    log = taken_up(folder)
    csv(folder / "b.csv", "id,subscriber,filter,valid_until", [["z", "cy", "TRUE", moment(NOW)]])
    log.poll(NOW - 9)
    first = log.served(2, NOW - 5).open()
    assert log.served(2, NOW - 4).open() is first
    assert log.served(2, NOW).open() is not first


def test_batches_are_served_while_changes_are_taken_up(folder: Path) -> None:
    log = taken_up(folder)
    models: dict[int, Model] = {1: {"x": One("ann", "price > 4"), "y": One("bo", "TRUE")}}
    for version in range(2, 31):
        filter_ = FILTERS[version % len(FILTERS)]
        models[version] = {**models[version - 1], f"s{version % 7}": One(str(version), filter_)}
        row = [f"s{version % 7}", str(version), filter_]
        csv(folder / f"v{version:02d}.csv", "id,subscriber,filter", [row])
    failures: list[BaseException] = []
    done = threading.Event()

    def serve() -> None:
        try:
            last = False
            while not last:
                last = done.is_set()
                version = log.current
                check(log, version, models[version], NOW)
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=serve) for _ in range(2)]
    for reader in readers:
        reader.start()
    assert [one.version for one in log.poll(NOW)] == list(range(2, 31))
    done.set()
    for reader in readers:
        reader.join()
    assert not failures, failures[0]
