"""The log of a stream for programs: JSON lines, one per start, batch, change, warning and end.

Fields only ever get added; docs/streaming.md names them. A log that cannot be written does not stop
the stream: it is said once, and lines are missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog

import crossroads
from crossroads.errors import CrossroadsError, OutputError
from crossroads.pipeline.stream.job import Running
from crossroads.pipeline.stream.request import StreamRequest
from crossroads.pipeline.stream.sinkurls import promise_of
from crossroads.pipeline.stream.watching import BatchDone

STDERR = Path("-")


class StreamLog:
    """A watcher; for any thread."""

    wants_counts = False

    def __init__(self, file: BinaryIO, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._is_broken = False
        self._logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
            structlog.BytesLogger(file),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                _rendered,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )

    def started(self, request: StreamRequest, running: Running) -> None:
        batches = running.batches
        self._write(
            "start",
            crossroads=crossroads.__version__,
            pid=os.getpid(),
            source=batches.source.name,
            sink=batches.sink.name,
            promise=promise_of(batches.sink),
            subscriptions=str(request.subscriptions),
            subscription_version=running.following.log.current,
            living=running.following.log.living,
            checkpoint=str(running.checkpoint),
            trigger_ms=None if request.available_now else request.trigger_ms,
        )

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        self._write("batch", **asdict(done))

    def version(self, version: int, what: dict[str, Any]) -> None:
        told = {name: what[name] for name in ("changed", "kind", "file", "content_hash", "living")}
        self._write("subscriptions", subscription_version=version, **what["counts"], **told)

    def warning(self, text: str) -> None:
        self._write("warning", "warning", text=text)

    def stopping(self, reason: str) -> None:
        self._write("stopping", reason=reason)

    def ended(self, summary: dict[str, Any]) -> None:
        self._write("stop", **summary)

    def failed(self, error: BaseException) -> None:
        kind = type(error).__name__
        text = str(error) if isinstance(error, CrossroadsError) else f"{kind}: {error}"
        self._write("error", "error", kind=kind, text=text)

    def _write(self, event: str, level: str = "info", **fields: Any) -> None:
        try:
            getattr(self._logger, level)(event, **fields)
        except OSError as error:
            if not self._is_broken:
                self._is_broken = True
                self._complain(f"the log cannot be written: {error.strerror or error}")


@contextmanager
def opened_log(path: Path, complain: Callable[[str], None]) -> Iterator[StreamLog]:
    """Lines are added to a file that is there; `-` is stderr. `complain` is told of trouble."""
    if path == STDERR:
        yield StreamLog(sys.stderr.buffer, complain)
        return
    try:
        # Unbuffered and appending: a line is whole or missing, and the file may be rotated by
        # copying and cutting it.
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise OutputError(
            f"--log {path}: {error.strerror or error}", hint="choose a file that can be written"
        ) from error
    with file:
        yield StreamLog(file, complain)


def _rendered(logger: Any, method: str, fields: structlog.typing.EventDict) -> bytes:
    first = {name: fields.pop(name) for name in ("time", "level", "event")}
    return msgspec.json.encode({**first, **fields})
