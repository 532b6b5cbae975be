"""Our side of the streaming benchmark, in a process of its own: `bench.streamours X.json`.

Says READY when its query runs and ends when a line comes on its standard input, or with
`available_now` when everything is read. What happened is in `batches.jsonl` and `progress.json`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.streamload import told_to_stop
from crossroads.pipeline.session import existing_session
from crossroads.pipeline.stream.filesource import BATCH_BYTES
from crossroads.pipeline.stream.job import Running, started
from crossroads.pipeline.stream.request import TRIGGER_MS, StreamRequest
from crossroads.pipeline.stream.watching import BatchDone


@dataclass(frozen=True)
class Ours:
    schema: str
    subscriptions: str
    events: str
    output: str
    checkpoint: str
    cores: int
    trigger_ms: int = TRIGGER_MS
    duplicate_window_ms: int = 0
    available_now: bool = False
    batch_bytes: int = BATCH_BYTES
    jars: list[str] = field(default_factory=list)  # of Spark's Kafka connector
    heap_after: float | None = None  # seconds after the start, and at the end: what Java has in use

    def request(self) -> StreamRequest:
        return StreamRequest(
            schema=self.schema,
            subscriptions=self.subscriptions,
            events=self.events,
            output=self.output,
            checkpoint=self.checkpoint,
            trigger_ms=self.trigger_ms,
            duplicate_window_ms=self.duplicate_window_ms,
            available_now=self.available_now,
            batch_bytes=self.batch_bytes,
            jars=tuple(self.jars),
            master=f"local[{self.cores},4]",
        )


class Log:
    """A line per batch and version, with the time at which it was told."""

    wants_counts = False

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._lock = threading.Lock()

    def write(self, what: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps({"at": time.time(), **what}) + "\n")

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        self.write({"what": "batch", **asdict(done)})

    def version(self, version: int, what: dict[str, Any]) -> None:
        self.write({"what": "version", "version": version})

    def warning(self, text: str) -> None:
        self.write({"what": "warning", "text": text})


def java_in_use() -> int:
    """Bytes of the heap that are needed: its size only says how seldom Java tidies up."""
    session = existing_session()
    assert session is not None
    session._jvm.java.lang.System.gc()
    runtime = session._jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def main() -> None:
    ours = Ours(**json.loads(Path(sys.argv[1]).read_text()))
    folder = Path(ours.checkpoint).parent
    log = Log(folder / "batches.jsonl")
    stop = told_to_stop()
    with started(ours.request(), watchers=[log]) as running:
        log.write({"what": "started"})
        print("READY", flush=True)
        heap_due = None if ours.heap_after is None else time.monotonic() + ours.heap_after

        def look(_: Running) -> bool:
            nonlocal heap_due
            if heap_due is not None and time.monotonic() >= heap_due:
                heap_due = None
                log.write({"what": "heap", "bytes": java_in_use()})
            return stop.is_set()

        running.await_end(look)
        log.write({"what": "ended"})
        if ours.heap_after is not None:
            log.write({"what": "heap", "bytes": java_in_use()})
        progress = [json.loads(one.json) for one in running.query.recentProgress]
        (folder / "progress.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main()
