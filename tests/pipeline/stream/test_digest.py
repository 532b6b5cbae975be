"""Digests: who is told when, against a plain twin; and nothing lost or doubled by any crash."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.notify import NOTIFICATIONS, Notify
from crossroads.pipeline.output import write_part
from crossroads.pipeline.stream.callbacksink import CallbackSink, Told
from crossroads.pipeline.stream.digest import MESSAGE_COLUMNS, Digest, messages, parted
from crossroads.pipeline.stream.digestlog import arrived
from crossroads.pipeline.stream.digestsink import DigestSink
from crossroads.pipeline.stream.foldersink import FolderSink, emptied
from crossroads.pipeline.stream.sinks import Delivery, Sink, delivery_number
from crossroads.pipeline.stream.sqlitesink import SQLiteSink

NOTIFY = Notify(Schema.from_mapping({"id": ["event"], "attributes": {"event": "string"}}))
Row = tuple[str, str]  # event, subscriber


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "event_id": pa.array([event for event, _ in rows], pa.string()),
            "subscription_id": pa.array([f"s of {who}" for _, who in rows], pa.string()),
            "subscriber": pa.array([who for _, who in rows], pa.string()).dictionary_encode(),
            "subscription_version": pa.array([1] * len(rows), pa.int64()),
        }
    )


# -- the machine ---------------------------------------------------------------------------------


def plain_step(
    waiting: list[tuple[str, str, int]], digest: Digest, now_ms: int
) -> tuple[list[list[str]], list[tuple[str, str, int]]]:
    """The definition, subscriber by subscriber: the events of each message, and the rest."""
    told, rest = [], []
    for who in dict.fromkeys(subscriber for _, subscriber, _ in waiting):
        own = [row for row in waiting if row[1] == who]
        late = any(not now_ms - digest.delay_ms < at <= now_ms for _, _, at in own)
        leave = len(own) if late else len(own) - len(own) % digest.size
        events = [event for event, _, _ in own]
        told += [events[at : min(at + digest.size, leave)] for at in range(0, leave, digest.size)]
        rest += own[leave:]
    return told, sorted(rest, key=waiting.index)


@given(
    st.lists(st.tuples(st.text("abc", max_size=7), st.integers(-5, 15)), max_size=8),
    st.integers(0, 30),
    st.integers(1, 4),
)
def test_who_is_told_when_is_the_definition(batches, delay_ms, size) -> None:
    digest = Digest(delay_ms, size)
    now_ms, table, plain = 100, None, []
    for number, (subscribers, passes_ms) in enumerate(batches):
        now_ms += passes_ms  # also backwards, as clocks are set
        rows = [(f"{number}.{at}", who) for at, who in enumerate(subscribers)]
        plain += [(event, who, now_ms) for event, who in rows]
        new = table_of(rows)
        new = new.set_column(2, "subscriber", new["subscriber"].cast(pa.string()))
        table = arrived(table, new, number, now_ms)
        if table is None:
            continue
        told = digest.told(table, now_ms)
        leaving, table = parted(table, told)
        sent = messages(leaving, size, number).to_pylist()
        expected, plain = plain_step(plain, digest, now_ms)
        assert [[n["event_id"] for n in json.loads(m["notifications"])] for m in sent] == expected
        assert table["event_id"].to_pylist() == [event for event, _, _ in plain]
        assert not digest.is_due(table, now_ms)
        assert digest.due_ms(table) == min((at + delay_ms for _, _, at in plain), default=None)


def test_a_message_says_what_it_holds() -> None:
    new = table_of([("e1", "ann"), ("e2", "bob"), ("e3", "ann")])
    new = new.set_column(2, "subscriber", new["subscriber"].cast(pa.string()))
    sent = messages(arrived(None, new, 3, 50), 10, 3)
    assert sent.schema == MESSAGE_COLUMNS
    ann = sent.to_pylist()[0]
    assert len(ann.pop("message_id")) == 32
    assert ann == {
        "subscriber": "ann",
        "notification_count": 2,
        "first_ms": 50,
        "last_ms": 50,
        "notifications": '[{"event_id":"e1","subscription_id":"s of ann","subscription_version":1},'
        '{"event_id":"e3","subscription_id":"s of ann","subscription_version":1}]',
    }


@pytest.mark.parametrize(("delay_ms", "size"), [(-1, 1), (0, 0), (0, 10_001)])
def test_a_digest_that_makes_no_sense_is_refused(delay_ms, size) -> None:
    with pytest.raises(UsageError):
        Digest(delay_ms, size)


def test_waiting_cuts_messages_strongly_and_most_of_it_early() -> None:
    """The shape of CHORD C10 (Fig. 9a), on batches; docs/streaming-digest.md has the figures of a
    real stream."""
    batches = runs_of_matches(batches=15, sources=1_000, run=10)
    none, one, two, five = (messages_per_notification(batches, d) for d in (0, 1, 2, 5))
    assert none > 0.95  # nothing to join within a batch
    assert five < 0.3 and none > one > two > five
    assert none - one > 0.5 * (none - five)


def runs_of_matches(batches: int, sources: int, run: int) -> list[pa.Table]:
    """A source notifies one of many subscribers with every batch, for a run of them the same."""
    chance = np.random.default_rng(1)
    subscriber = chance.integers(0, 100_000, sources)
    found = []
    for batch in range(batches):
        moves = chance.random(sources) < 1 / run
        subscriber = np.where(moves, chance.integers(0, 100_000, sources), subscriber)
        names = [f"u{one}" for one in subscriber.tolist()]
        events = [f"{batch}.{source}" for source in range(sources)]
        found.append(pa.table({"event_id": events, "subscription_id": names, "subscriber": names}))
    return found


def messages_per_notification(batches: list[pa.Table], periods: int) -> float:
    digest = Digest(periods * 100)
    waiting: pa.Table | None = None
    sent = 0
    for number, rows in enumerate(batches):
        waiting = arrived(waiting, rows, number, number * 100)
        last = number == len(batches) - 1
        told = digest.told(waiting, number * 100, everything=last)
        leaving, waiting = parted(waiting, told)
        sent += messages(leaving, digest.size, number).num_rows
    assert waiting is not None and waiting.num_rows == 0
    return sent / sum(rows.num_rows for rows in batches)


# -- crashes -------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone: nothing that it would do afterwards happens."""


class Machine:
    """Dies at the given step of the disk, before or after it takes effect."""

    STEPS = ((os, "fsync"), (Path, "replace"), (Path, "rename"), (Path, "unlink"), (Path, "mkdir"))

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None  # half steps until the crash
        # A process that dies loses nothing it has written, only a machine does: syncing is a step
        # without effect here, and a disk that many tests share is spared.
        monkeypatch.setattr(os, "fsync", lambda _: None)
        for owner, name in self.STEPS:
            monkeypatch.setattr(owner, name, self.breakable(getattr(owner, name)))

    def breakable(self, step: Callable) -> Callable:
        def broken(*args, **settings):
            self.passes()
            done = step(*args, **settings)
            self.passes()
            return done

        return broken

    def passes(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            raise Crash

    @contextmanager
    def dying_after(self, half_steps: int | None) -> Iterator[None]:
        self.left = half_steps
        try:
            yield
        finally:
            self.left = None


# Who is told in each batch: one subscriber who is told all the time, others now and then.
BATCHES = ["aaaab", "", "aac", "aaaaaaa", "d", "", "ab", "aaa"]
PERIOD_MS, DIGEST = 10, Digest(delay_ms=25, size=3)
ALL = Counter(f"{batch}.{at}" for batch, who in enumerate(BATCHES) for at in range(len(who)))


class Stream:
    """As the real one: a batch that is not in Spark's log of commits is handed over again."""

    def __init__(self, folder: Path, make: Callable[[Path], Sink]) -> None:
        self.folder = emptied(folder)
        self.make = make
        inner = make(self.folder)  # the output is there: how it is made is not what is tested here
        inner.open()
        inner.close()
        self.committed = 0
        self.now_ms = 1_000

    def run(self) -> None:
        sink = DigestSink(
            self.make(self.folder),
            self.folder / "digest",
            DIGEST,
            notify=NOTIFY,
            staging=self.folder / "messages",
            clock=lambda: self.now_ms,
        )
        sink.open()
        try:
            while self.committed < len(BATCHES):
                number = delivery_number(self.committed)
                if not sink.has(number):
                    sink.publish(self.delivery(number))
                assert sink.has(number) or not BATCHES[self.committed]
                self.committed += 1
                self.now_ms += PERIOD_MS
                if sink.due(self.now_ms):
                    assert sink.flush(self.now_ms)
            sink.flush(self.now_ms, everything=True)
            assert sink.waiting == 0
        finally:
            sink.close()

    def delivery(self, number: int) -> Delivery:
        batch = self.committed
        rows = [(f"{batch}.{at}", who) for at, who in enumerate(BATCHES[batch])]
        staging = emptied(self.folder / "staging")
        write_part(staging / NOTIFICATIONS, 0, table_of(rows), "parquet")
        return Delivery(number, staging, NOTIFY, len(rows))


def in_folder(folder: Path) -> Iterator[dict]:
    for part in sorted(folder.glob("out/notifications/batch=*/part-*.parquet")):
        with pq.ParquetFile(part) as file:
            yield from file.read().to_pylist()


def in_sqlite(folder: Path) -> Iterator[dict]:
    connection = apsw.Connection(str(folder / "out.db"))
    names = MESSAGE_COLUMNS.names
    for row in connection.execute(f"SELECT {', '.join(names)} FROM notifications"):
        yield dict(zip(names, row, strict=True))
    connection.close()


class UnsyncedSQLite(SQLiteSink):
    """As `Machine` has it: what dies is a process, so syncing has no effect but on the clock."""

    def open(self) -> None:
        super().open()
        self._opened.pragma("synchronous", "off")


MAKERS = {
    "folder": (lambda folder: FolderSink(folder / "out"), in_folder),
    "sqlite": (lambda folder: UnsyncedSQLite(folder / "out.db", MESSAGE_COLUMNS), in_sqlite),
}
# Of some 430 half steps; odd, so that crashes fall before steps as well as after them. With 1 it is
# every one of them, which takes minutes.
STRIDES = {"folder": 7, "sqlite": 17}


def events_told(sent: list[dict]) -> Counter[str]:
    assert all(1 <= message["notification_count"] <= DIGEST.size for message in sent)
    assert len({message["message_id"] for message in sent}) == len(sent)
    told = [json.loads(message["notifications"]) for message in sent]
    assert [len(each) for each in told] == [message["notification_count"] for message in sent]
    return Counter(each["event_id"] for some in told for each in some)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_crash_loses_and_doubles_nothing(kind, tmp_path, monkeypatch) -> None:
    make, read = MAKERS[kind]
    machine = Machine(monkeypatch)
    crashes = 0
    while True:
        stream = Stream(tmp_path / str(crashes), make)
        try:
            with machine.dying_after(crashes * STRIDES[kind]):
                stream.run()
            break  # it came to its end before that step
        except Crash:
            stream.now_ms += 3  # replays see another clock
            stream.run()
        assert events_told(list(read(stream.folder))) == ALL, crashes
        crashes += 1
    assert crashes >= 20
    assert events_told(list(read(stream.folder))) == ALL


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=12))
def test_crash_after_crash_loses_and_doubles_nothing(tmp_path_factory, crashes) -> None:
    make, read = MAKERS["folder"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine(monkeypatch)
        stream = Stream(tmp_path_factory.mktemp("stream"), make)
        for half_steps, passes_ms in crashes:
            try:
                with machine.dying_after(half_steps):
                    stream.run()
            except Crash:
                stream.now_ms += passes_ms
        stream.run()
    assert events_told(list(read(stream.folder))) == ALL


def test_what_is_not_needed_any_more_is_removed(tmp_path) -> None:
    stream = Stream(tmp_path / "stream", MAKERS["folder"][0])
    stream.run()
    names = sorted(path.name for path in (stream.folder / "digest").iterdir())
    assert len(names) == 2 and names[1] == "published"


def test_a_function_gets_the_notifications_as_a_list(tmp_path) -> None:
    seen: list[dict] = []

    def tell(told: Told) -> None:
        seen.extend(told)

    Stream(tmp_path / "stream", lambda _: CallbackSink(tell)).run()
    assert Counter(n["event_id"] for m in seen for n in m["notifications"]) == ALL


def test_json_lines_hold_lists_too(tmp_path) -> None:
    stream = Stream(tmp_path / "stream", MAKERS["folder"][0])
    lines = DigestSink(
        FolderSink(tmp_path / "out"),
        tmp_path / "digest",
        Digest(0),
        notify=Notify(NOTIFY.schema, format="jsonl"),
        staging=tmp_path / "messages",
        clock=lambda: 5,
    )
    lines.open()
    lines.publish(stream.delivery(0))
    (part,) = (tmp_path / "out").glob("notifications/batch=*/part-*.jsonl")
    ann, bob = (json.loads(line) for line in part.read_text().splitlines())
    assert [each["event_id"] for each in ann["notifications"]] == ["0.0", "0.1", "0.2", "0.3"]
    assert bob["notification_count"] == 1
