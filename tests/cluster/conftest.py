"""A cluster of real Spark processes, and one driver process that all its tests talk to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from crossroads.lab.cluster import Cluster

WORKERS = 2
SETTINGS = {
    # Code generation costs more than it saves on a few rows.
    "spark.sql.codegen.wholeStage": "false",
    # Two executors, one core each; a part that one of them holds may as well be read by the other.
    "spark.sql.shuffle.partitions": "2",
    "spark.locality.wait": "0",
}


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Driver:
    """`crossroads … --master` in a process of its own; its Spark session lives as long as it."""

    def __init__(self, master: str, folder: Path) -> None:
        self.master = master
        self._waited_for = False
        self.errors = folder / "driver.log"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("driver.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                    "SPARK_CONF_DIR": str(self._settings(folder)),
                },
            )

    @staticmethod
    def _settings(folder: Path) -> Path:
        (folder / "spark-defaults.conf").write_text(
            "".join(f"{name} {value}\n" for name, value in SETTINGS.items())
        )
        return folder

    def start(self, words: Sequence[object], **limits: float) -> None:
        assert self.process.stdin is not None
        if self._waited_for:
            self.finish()  # of a test that has failed in the middle
        self._waited_for = True
        self._seen = self.errors.stat().st_size
        asked = {"words": [*map(str, words), "--master", self.master], "limits": limits}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def finish(self) -> Said:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            if line.startswith("exit "):
                self._waited_for = False
                err = self.errors.read_bytes()[self._seen :].decode(errors="replace")
                return Said(int(line.removeprefix("exit ")), "".join(lines), err)
            lines.append(line)
        raise AssertionError(f"the driver ended: {self.errors.read_text()[-2000:]}")

    def run(self, words: Sequence[object], **limits: float) -> Said:
        self.start(words, **limits)
        return self.finish()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # it leaves by itself, and Spark with it
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        for _ in range(WORKERS):
            started.start_worker()
        started.wait_for_workers(WORKERS)
        yield started


@pytest.fixture(scope="session")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    started = Driver(cluster.master, tmp_path_factory.mktemp("driver"))
    yield started
    started.stop()
