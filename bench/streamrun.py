"""The processes of a streaming benchmark: a side, and its feeder."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.measure import thread_limits
from bench.streamjoin import Join
from bench.streamload import FILE_SECONDS, Feed
from bench.streamours import Ours
from bench.streamwatch import Sample, look

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 180.0  # for Spark on a busy machine; ten on an idle one
STOP_SECONDS = 60.0
SAMPLE_SECONDS = 1.0


class SideFailed(Exception):
    """The last line the side said."""


class Side:
    """A stream at work, from READY until the end of the block."""

    def __init__(self, what: Ours | Join, folder: Path) -> None:
        self.what = what
        self.folder = folder
        self.samples: list[Sample] = []
        self._said = folder / "said.txt"
        self._sampling = threading.Event()

    def __enter__(self) -> Self:
        given = self.folder / "side.json"
        given.write_text(json.dumps(asdict(self.what)))
        module = "bench.streamours" if isinstance(self.what, Ours) else "bench.streamjoin"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(given)],
            cwd=ROOT,
            env={**os.environ, **thread_limits(self.what.cores)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said.open("wb"),
        )
        self._await_ready()
        threading.Thread(target=self._sample, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sampling.set()
        if kind is not None:
            self._process.kill()
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        if kind is None and self._process.returncode:
            raise SideFailed(self._last_words())

    def await_end(self, seconds: float) -> None:
        self._process.wait(seconds)

    def progress(self) -> dict[str, float]:
        """Medians of what Spark says of the last hundred batches, in ms."""
        file = self.folder / "progress.json"
        batches = [one for one in json.loads(file.read_text()) if "addBatch" in one["durationMs"]]
        names = {name for one in batches for name in one["durationMs"]}
        return {
            name: sorted(one["durationMs"].get(name, 0) for one in batches)[len(batches) // 2]
            for name in sorted(names)
        }

    def check(self) -> None:
        if self._process.poll() is not None:
            raise SideFailed(self._last_words())

    def _await_ready(self) -> None:
        assert self._process.stdout is not None
        until = time.monotonic() + START_SECONDS
        timer = threading.Timer(START_SECONDS, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:
                if line.strip() == b"READY":
                    return
        finally:
            timer.cancel()
        self._process.wait()
        if time.monotonic() >= until:
            raise SideFailed(f"did not start within {START_SECONDS:.0f} s")
        raise SideFailed(self._last_words())

    def _last_words(self) -> str:
        lines = self._said.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _sample(self) -> None:
        while not self._sampling.wait(SAMPLE_SECONDS):
            self.samples.append(look(self._process.pid))


@contextlib.contextmanager
def feeding(feed: Feed, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = feed.save(folder / f"feed-{feed.first}.json")
    command = [sys.executable, "-m", "bench.streamload", "feed", str(path)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def files_for(seconds: float) -> int:
    return max(1, round(seconds / FILE_SECONDS))
