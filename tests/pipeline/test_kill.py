"""kill -9 and Ctrl-C in the middle of a match: the old output stays whole, a rerun is right.

Real processes on a workload large enough to be caught at work: the test waits for the first files
in the staging folder, then kills.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from crossroads.lab.workloads import stocks, write_workload

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
]

START_SECONDS_MAX = 240  # a JVM, pyspark and numba on a busy machine
EVENTS, SUBSCRIPTIONS = 40_000, 6_000
PAUSE_SECONDS = 0.02  # between looks at what another process does


class Match:
    """A `crossroads match` in a process group of its own."""

    def __init__(self, folder: Path, output: Path, *more: str) -> None:
        words = ["match", "--json", "--format", "csv", *more]  # text takes longer to write
        words += [
            "--schema",
            str(folder / "schema.toml"),
            "--events",
            str(folder / "events.parquet"),
        ]
        words += ["--subscriptions", str(folder / "subscriptions.parquet")]
        self.output = output
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crossroads.cli", *words, "--output", str(output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

    def wait_until_matching(self) -> None:
        """A worker has a part open: it is in the middle of its work."""
        self.wait_for(self.output.parent, f".{self.output.name}.staging-*/notifications/.part-*")

    def wait_for(self, folder: Path, pattern: str) -> None:
        for _ in _looks():
            if any(folder.glob(pattern)):
                return
            assert self.process.poll() is None, self.process.communicate()
        raise AssertionError(f"there was no {pattern}")

    def finish(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=START_SECONDS_MAX)
        return self.process.returncode, out, err

    def processes(self) -> dict[int, tuple[int, str]]:
        """All living ones of its session, also when the driver is gone: parent and command."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                _, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if int(session) == self.process.pid:
                    found[int(entry.name)] = (int(parent), command)
        return found

    def java(self) -> int:
        (found,) = [n for n, (_, line) in self.processes().items() if "SparkSubmit" in line]
        return found

    def worker(self) -> int:
        """A Python worker: a child of the daemon that makes them, which has the same command."""
        every = self.processes()
        daemons = {n for n, (_, line) in every.items() if "pyspark.daemon" in line}
        return next(n for n in daemons if every[n][0] in daemons)

    def stop(self) -> None:
        """Whatever is left of it, and nothing else."""
        for number in self.processes():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        self.process.communicate()


def _looks() -> Iterator[None]:
    """Pauses between looks, until the time is over."""
    for _ in range(int(START_SECONDS_MAX / PAUSE_SECONDS)):
        yield
        select.select([], [], [], PAUSE_SECONDS)


def content(output: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file()
    }


def notifications(output: Path) -> Mapping[str, bytes]:
    return {name: data for name, data in content(output).items() if name != "summary.json"}


def leftovers(output: Path) -> list[str]:
    found = output.parent.glob(f".{output.name}.*")
    return [path.name for path in found if not path.name.endswith(".lock")]


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workload")
    write_workload(stocks(1, EVENTS, SUBSCRIPTIONS), folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(workload: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run gives that nobody kills."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    run = Match(workload, output)
    code, _, err = run.finish()
    assert (code, err) == (0, "")
    return output


@pytest.fixture
def old_output(tmp_path: Path) -> Path:
    """An output of an earlier run, not like what comes."""
    output = tmp_path / "out"
    (output / "notifications").mkdir(parents=True)
    (output / "notifications" / "part-00000.csv").write_text("event_id,subscription_id\nold,old\n")
    (output / "summary.json").write_text(json.dumps({"made_by": "crossroads"}))
    return output


def rerun(workload: Path, output: Path) -> None:
    run = Match(workload, output)
    try:
        code, out, err = run.finish()
    finally:
        run.stop()
    assert (code, err) == (0, "")
    assert json.loads(out)["counts"]["events"] == EVENTS


@pytest.mark.parametrize("victim", ["driver", "java"])
def test_a_killed_run_leaves_the_old_output_whole(
    victim: str, workload: Path, undisturbed: Path, old_output: Path
) -> None:
    before = content(old_output)
    run = Match(workload, old_output)
    try:
        run.wait_until_matching()
        if victim == "driver":
            os.kill(run.process.pid, signal.SIGKILL)
            assert run.finish()[0] == -signal.SIGKILL
            assert leftovers(old_output)  # nobody was there to clean up
        else:
            os.kill(run.java(), signal.SIGKILL)
            code, out, err = run.finish()
            assert (code, out) == (1, "")
            assert err.startswith("error: Spark's Java process ended"), err
            assert len(err.splitlines()) == 1
            assert not leftovers(old_output)
        assert content(old_output) == before
        # At once, while the killed run's workers may still be dying.
        rerun(workload, old_output)
    finally:
        run.stop()
    assert notifications(old_output) == notifications(undisturbed)
    assert not leftovers(old_output)


def test_a_killed_worker_is_survived(workload: Path, undisturbed: Path, old_output: Path) -> None:
    run = Match(workload, old_output)
    try:
        run.wait_until_matching()
        os.kill(run.worker(), signal.SIGKILL)
        code, _, err = run.finish()
    finally:
        run.stop()
    assert (code, err) == (0, "")
    assert notifications(old_output) == notifications(undisturbed)
    assert not leftovers(old_output)


def test_an_index_store_whose_build_is_killed_is_built_again(
    workload: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """All processes at once, as when power is lost: a set without its manifest is none."""
    store, output = tmp_path / "store", tmp_path / "out"
    more = ("--plan", "keyed", "--index-store", str(store))
    run = Match(workload, output, *more)
    try:
        run.wait_for(store, "sets/*/*")  # the first file of a cell, or a part of it
    finally:
        run.stop()
    assert not list(store.glob("sets/*/manifest.json"))
    assert not output.exists()
    made = []
    for _ in range(2):
        again = Match(workload, output, *more)
        try:
            code, out, err = again.finish()
        finally:
            again.stop()
        assert (code, err) == (0, "")
        made.append(json.loads(out)["index"])
        assert pairs_in(output) == pairs_in(undisturbed)
    assert made == ["built", "reused"]
    assert not leftovers(output)


def pairs_in(output: Path) -> list[str]:
    """In any order: tasks of `keyed` are not those of `direct`."""
    parts = (output / "notifications").glob("*.csv")
    return sorted(line for part in parts for line in part.read_text().splitlines()[1:])


def test_an_interrupted_run_says_nothing_of_java(workload: Path, old_output: Path) -> None:
    """Ctrl-C: exit code 130, no trace on the screen, the old output as it was."""
    before = content(old_output)
    run = Match(workload, old_output)
    try:
        run.wait_until_matching()
        os.kill(run.process.pid, signal.SIGINT)
        code, out, err = run.finish()
    finally:
        run.stop()
    assert (code, out) == (130, "")
    assert len(err.splitlines()) <= 1, err
    assert content(old_output) == before
