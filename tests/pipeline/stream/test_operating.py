"""Operating a stream: signals, the screen, the log, what Prometheus is told."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from crossroads.cli.streamscreen import Screen
from crossroads.pipeline.stream.busiest import Busiest
from crossroads.pipeline.stream.metrics import Metrics
from crossroads.pipeline.stream.operating import operated
from crossroads.pipeline.stream.request import StreamRequest
from crossroads.pipeline.stream.streamlog import opened_log
from crossroads.pipeline.stream.watching import BatchDone

SCHEMA = 'id = "id"\n[attributes]\nid = "int"\ncity = "string"\n'
LIMA = "id,subscriber,filter\ns1,ann,city = 'Lima'\n"
CUSCO = LIMA + "s2,bob,city = 'Cusco'\n"
SECONDS_MAX = 1_200  # a JVM, pyspark and numba on a busy machine; waits end when they are satisfied
LOOK_SECONDS = 0.05
DONE = BatchDone(
    batch=7,
    events=100,
    rejected=3,
    repeated=2,
    notifications=40,
    subscription_version=5,
    seconds=0.3,
    lag_seconds=0.4,
    replayed=True,
    stages={"record": 0.01, "input": 0.04, "match": 0.2, "publish": 0.05},
)


def looks() -> Iterator[None]:
    nothing = threading.Event()
    for _ in range(int(SECONDS_MAX / LOOK_SECONDS)):
        yield
        nothing.wait(LOOK_SECONDS)


def events(folder: Path, name: str, ids: range) -> None:
    """Odd ones are from Lima, even ones from Cusco; the file appears whole."""
    lines = (json.dumps({"id": n, "city": "Lima" if n % 2 else "Cusco"}) for n in ids)
    hidden = folder / f".{name}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / name)


def lines_of(log: Path, event: str) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in found if line["event"] == event]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "subs.csv").write_text(LIMA)
    (tmp_path / "in").mkdir()
    return tmp_path


# -- a real process --------------------------------------------------------------------------------


class Process:
    """`crossroads stream` in a session of its own, with a terminal as its stderr."""

    def __init__(self, place: Path, log: Path, *more: object) -> None:
        self.log = log
        words = [
            *("--schema", place / "schema.toml", "--subscriptions", place / "subs.csv"),
            *("--events", place / "in", "--output", place / "out", "--checkpoint", place / "ck"),
            *("--log", log, "--master", "local[2,4]", *more),
        ]
        master, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crossroads.cli", "stream", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=terminal,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        os.close(terminal)
        self.screen = io.BytesIO()
        self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self._reader.start()

    def _read(self, master: int) -> None:
        try:
            while piece := os.read(master, 65_536):
                self.screen.write(piece)
        except OSError:
            pass  # nobody writes to the terminal any more
        os.close(master)

    def wait_for(self, event: str, **fields: object) -> dict[str, Any]:
        for _ in looks():
            for line in lines_of(self.log, event):
                if fields.items() <= line.items():
                    return line
            assert self.process.poll() is None, self.said()
        raise AssertionError(f"no {event} with {fields}")

    def said(self) -> str:
        self._reader.join(LOOK_SECONDS)
        return self.screen.getvalue().decode()

    def finish(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, out.decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def scraped(port: int) -> dict[tuple[str, str], float]:
    """By name and by the value of the only label."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS_MAX) as answer:
        text = answer.read().decode()
    return {
        (sample.name.removeprefix("crossroads_stream_"), ",".join(sample.labels.values())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def told(place: Path) -> Counter[tuple[str, str]]:
    table = ds.dataset(place / "out" / "notifications", partitioning="hive").to_table()
    return Counter(
        zip(*(table[n].to_pylist() for n in ("event_id", "subscription_id")), strict=True)
    )


@pytest.mark.spark
def test_a_stream_is_watched_stopped_and_goes_on(place: Path) -> None:
    """SIGTERM goes to all processes, as supervisors send it: Java and its workers get it too."""
    port, log = free_port(), place / "log.jsonl"
    events(place / "in", "a.jsonl", range(10))
    stream = Process(place, log, "--trigger", "50ms", "--metrics", port)
    try:
        stream.wait_for("batch", events=10, notifications=5)
        fresh = place / ".subs.csv"
        fresh.write_text(CUSCO)
        fresh.rename(place / "subs.csv")
        stream.wait_for("subscriptions", subscription_version=2, added=1, living=2)
        events(place / "in", "b.jsonl", range(10, 20))
        stream.wait_for("batch", events=10, notifications=10, subscription_version=2)
        found = scraped(port)
        events(place / "in", "c.jsonl", range(20, 20_020))
        for _ in looks():
            if (place / "ck" / "scratch" / "staging").exists():
                break  # a batch is at work
        os.killpg(stream.process.pid, signal.SIGTERM)
        code, out = stream.finish()
    finally:
        if stream.process.poll() is None:
            stream.process.kill()
    assert code == 0, stream.said()
    assert out.startswith("ended (SIGTERM): ") and "exactly once" in stream.said()
    assert "events/s" in stream.said() and "Traceback" not in stream.said()

    assert found["events_total", ""] == 20 and found["notifications_total", ""] == 15
    assert found["subscription_version", ""] == found["subscriptions", ""] == 2
    assert found["seen_ids", ""] == 20 and found["batch_seconds_count", "match"] == 2
    assert found["subscription_notifications_total", "s1"] == 10
    assert found["subscription_notifications_total", "s2"] == 5

    # What was begun was committed: the next run has nothing to do again, and nothing is twice.
    finished = [line["batch"] for line in lines_of(log, "batch")]
    assert (place / "ck" / "spark" / "commits" / str(max(finished))).exists()
    events(place / "in", "d.jsonl", range(20_020, 20_030))
    again = Process(place, place / "again.jsonl", "--available-now")
    code, out = again.finish()
    assert code == 0 and out.startswith("ended (all read): "), again.said()
    assert not any(line["replayed"] for line in lines_of(again.log, "batch"))
    expected = {(str(n), "s1" if n % 2 else "s2") for n in range(20_030) if n % 2 or n >= 10}
    assert told(place) == Counter(expected)
    (stop,) = lines_of(again.log, "stop")
    assert stop["ended"] == "all read" and stop["subscription_version"] == 2


# -- within this process ---------------------------------------------------------------------------


class Impatient(Screen):
    """Sends a signal as soon as the first batch is delivered, from the thread that did it."""

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        if done.batch == 0:  # a second signal would end the tests
            os.kill(os.getpid(), signal.SIGINT)


def request_for(place: Path, **more: Any) -> StreamRequest:
    return StreamRequest(
        schema=place / "schema.toml",
        subscriptions=place / "subs.csv",
        events=str(place / "in"),
        output=str(place / "out"),
        checkpoint=place / "ck",
        **more,
    )


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_ctrl_c_finishes_the_batch(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (place / "subs.csv").write_text(LIMA + "s3,cid,nope = 1\n")
    events(place / "in", "a.jsonl", range(10))
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    request = request_for(place, format="jsonl", trigger_ms=20)
    with Impatient(request) as screen:
        summary = operated(request, screen, metrics_port=0, log=place / "log.jsonl")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert summary["ended"] == "SIGINT" and summary["notifications"] == 5
    screen.end(summary)
    said = capfd.readouterr()
    assert said.out.startswith("ended (SIGINT): 1 batches, 10 events, 5 notifications")
    # Nobody draws on what is no terminal: the start, what is wrong, the end.
    assert [line.split(":")[0] for line in said.err.splitlines()] == [
        "warning",
        f"stream from folder {place / 'in'} to folder {place / 'out'}",
        "SIGINT",
    ]
    assert [json.loads(line)["event"] for line in (place / "log.jsonl").open()] == [
        *("subscriptions", "start", "batch", "stopping", "stop")
    ]
    (start,) = lines_of(place / "log.jsonl", "start")
    assert start["promise"].startswith("each notification arrives exactly once")
    assert start["subscription_version"] == 1 and start["living"] == 1


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_notifications_on_the_terminal_have_stdout(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    events(place / "in", "a.jsonl", range(4))
    request = request_for(place, available_now=True, console_json=True)
    request = StreamRequest(**{**vars(request), "output": "-"})
    with Screen(request, as_json=True) as screen:
        summary = operated(request, screen)
    screen.end(summary)
    said = capfd.readouterr()
    assert [json.loads(line)["event_id"] for line in said.out.splitlines()] == ["1", "3"]
    start, end = said.err.splitlines()
    assert "to the terminal: at least once" in start
    assert json.loads(end)["ended"] == "all read"


@pytest.mark.spark
def test_what_the_stream_failed_of_is_logged(spark: SparkSession, place: Path) -> None:
    events(place / "in", "a.jsonl", range(4))

    def tell(told: object) -> None:
        raise RuntimeError("no space for letters")

    request = StreamRequest(**{**vars(request_for(place, available_now=True)), "output": tell})
    with Screen(request, silent=True) as screen, pytest.raises(RuntimeError, match="letters"):
        operated(request, screen, log=place / "log.jsonl")
    (error,) = lines_of(place / "log.jsonl", "error")
    assert error["level"] == "error" and error["text"] == "RuntimeError: no space for letters"


def test_a_second_signal_leaves_at_once() -> None:
    """Also when the first one is still being obeyed."""
    program = (
        "import os, signal, sys\n"
        "from crossroads.pipeline.stream.operating import Signals\n"
        "class Nobody:\n"
        "    def abandon(self): sys.stderr.write('abandoned'); sys.stderr.flush()\n"
        "with Signals(Nobody()) as signals:\n"
        "    signals.wait_for_batches()\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    assert signals.asked == 'SIGTERM'\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + 15, "", "abandoned")


# -- metrics and log by themselves -----------------------------------------------------------------


def test_metrics_over_http() -> None:
    metrics = Metrics()
    with metrics.served(0) as port:
        metrics.batch(DONE, {"s|1": 30, 'say "hi"\n': 10})
        metrics.batch(DONE, None)
        metrics.version(6, {"changed": True})
        metrics.warning("careful")
        found = scraped(port)
    assert found["events_total", ""] == 200 and found["notifications_total", ""] == 80
    assert found["rejected_total", ""] == 6 and found["repeated_total", ""] == 4
    assert found["batches_total", ""] == found["batches_replayed_total", ""] == 2
    assert found["lag_seconds", ""] == 0.4
    assert found["batch_seconds_count", "publish"] == found["batch_seconds_count", "all"] == 2
    assert found["subscription_notifications_total", "s|1"] == 30
    assert found["subscription_notifications_total", 'say "hi"\n'] == 10
    assert found["subscription_notifications_uncounted_total", ""] == 40
    assert found["subscription_changes_total", ""] == found["warnings_total", ""] == 1


def test_two_streams_in_one_process_do_not_share_metrics() -> None:
    one, other = Metrics(), Metrics()
    one.batch(DONE, {})
    with one.served(0) as port, other.served(0) as other_port:
        assert scraped(port)["batches_total", ""] == 1
        assert scraped(other_port)["batches_total", ""] == 0


def test_no_more_than_a_hundred_subscriptions_are_exported() -> None:
    metrics = Metrics()
    metrics.batch(DONE, {f"s{n}": n + 1 for n in range(5_000)})
    with metrics.served(0) as port:
        found = scraped(port)
    named = [label for name, label in found if name == "subscription_notifications_total"]
    assert len(named) == 100 and "s4999" in named
    assert found["subscription_notifications_floor", ""] == 4_000


@given(
    batches=st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 50))),
    kept=st.integers(1, 9),
)
def test_the_busiest_are_right_within_their_error(batches: list[dict[str, int]], kept: int) -> None:
    table, exact = Busiest(kept), Counter[str]()
    shown: dict[str, int] = {}
    for batch in batches:
        table.add(batch)
        exact.update(batch)
        top = table.top(kept)
        for busy in top:
            assert busy.count - busy.error <= exact[busy.subscription] <= busy.count
            assert busy.error <= table.floor
            assert busy.count >= shown.get(busy.subscription, 0)  # a counter never falls
            shown[busy.subscription] = busy.count
        missing = exact.keys() - {busy.subscription for busy in top}
        assert all(exact[name] <= table.floor for name in missing)
        assert table.floor * (kept + 1) <= exact.total()
        assert table.floor == 0 or len(exact) > kept


def test_a_log_that_fails_is_complained_of_once() -> None:
    complaints: list[str] = []
    with opened_log(Path("/dev/full"), complaints.append) as log:
        log.batch(DONE, None)
        log.warning("again")
    assert complaints == ["the log cannot be written: No space left on device"]


def test_a_log_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        with opened_log(path, pytest.fail) as log:
            log.batch(DONE, {"s1": 40})
    first, second = map(json.loads, path.read_text().splitlines())
    assert list(first)[:3] == ["time", "level", "event"] and first["time"].endswith("Z")
    fields = {name: value for name, value in second.items() if name not in ("time", "level")}
    assert fields == {"event": "batch", **vars(DONE)}
