"""A stream as a process: watched while it runs, and stopped by signals as operators expect.

    SIGTERM, SIGINT     the batch at work is finished and committed, then the process leaves with 0
    once more           it leaves at once; the next start does the batch again

Before the first batch there is nothing to finish, and one signal is enough to leave.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol, Self

from crossroads.pipeline.java import OUTLIVES_TERM
from crossroads.pipeline.stream.job import Running, started
from crossroads.pipeline.stream.metrics import Metrics
from crossroads.pipeline.stream.request import StreamRequest
from crossroads.pipeline.stream.streamlog import StreamLog, opened_log
from crossroads.pipeline.stream.watching import Watcher

ALL_READ = "all read"  # why a stream ended that was not told to
HEARD = (signal.SIGTERM, signal.SIGINT)


class Display(Watcher, Protocol):
    """What the operator sees."""

    def started(self, running: Running) -> None: ...

    def stopping(self, reason: str) -> None: ...

    def abandon(self) -> None:
        """The process is about to leave without a word: from a signal handler, so take no lock."""


def operated(
    request: StreamRequest,
    display: Display,
    *,
    metrics_port: int | None = None,
    log: Path | None = None,
) -> dict[str, Any]:
    """Until everything is read or a signal comes; what was done, and why it `ended`."""
    with ExitStack() as stack:
        signals = stack.enter_context(Signals(display))
        stack.enter_context(_warnings_shown_once())
        written = None
        if log is not None:
            written = stack.enter_context(opened_log(log, display.warning))
        metrics = None
        if metrics_port is not None:
            metrics = Metrics()
            stack.enter_context(metrics.served(metrics_port))
        try:
            summary = _run(request, display, signals, metrics, written)
        except BaseException as error:
            if written is not None:
                written.failed(error)
            raise
        if written is not None:
            written.ended(summary)
        return summary


def _run(
    request: StreamRequest,
    display: Display,
    signals: Signals,
    metrics: Metrics | None,
    log: StreamLog | None,
) -> dict[str, Any]:
    watchers: list[Watcher] = [one for one in (display, metrics, log) if one is not None]

    def look(running: Running) -> bool:
        if signals.asked is None:
            return False
        display.stopping(signals.asked)
        if log is not None:
            log.stopping(signals.asked)
        return True

    try:
        with started(request, watchers=watchers) as running:
            signals.wait_for_batches()
            if metrics is not None:
                metrics.follow(running)
            if log is not None:
                log.started(request, running)
            display.started(running)
            running.await_end(look)
            return {**running.summary(), "ended": signals.asked or ALL_READ}
    except KeyboardInterrupt:
        if signals.is_at_work:
            raise
        return {"batches": 0, "ended": signals.asked or signal.SIGINT.name}


class Signals:
    """Of the process; where it is not the main thread that runs the stream, they are let be."""

    def __init__(self, display: Display) -> None:
        self.asked: str | None = None  # the name of the signal
        self.is_at_work = False
        self._display = display
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in HEARD}
            os.environ[OUTLIVES_TERM] = "1"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.environ.pop(OUTLIVES_TERM, None)

    def wait_for_batches(self) -> None:
        """From now on there may be one to finish. pyspark takes SIGINT for itself when it starts:
        it would cancel what is at work."""
        self.is_at_work = True
        for number in self._before:
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            self._leave(number)
        self.asked = signal.Signals(number).name
        if not self.is_at_work:
            raise KeyboardInterrupt

    def _leave(self, number: int) -> NoReturn:
        """Like a kill: everything on disk is made for that, and nothing else may hold us up.
        Spark's Java process ends when it hears no more of us."""
        self._display.abandon()
        os._exit(128 + number)


@contextmanager
def _warnings_shown_once() -> Iterator[None]:
    """They reach the display; Python would print those of our loggers to stderr besides."""
    logger, nobody = logging.getLogger("crossroads"), logging.NullHandler()
    logger.addHandler(nobody)
    try:
        yield
    finally:
        logger.removeHandler(nobody)
