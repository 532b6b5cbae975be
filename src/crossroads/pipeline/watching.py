"""How far Spark is, and whether anybody works for it, from its own status tracker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from crossroads.errors import EnvironmentProblem
from crossroads.pipeline.session import is_local

if TYPE_CHECKING:
    from crossroads.pipeline.job import Reporter

LOOK_SECONDS = 0.25  # often enough for the eye, seldom enough for the scheduler


def finished_tasks(context: SparkContext) -> int:
    """Finished tasks of the stages that are running now; 0 when Spark does not answer any more,
    which whoever runs the work finds out and reports."""
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (Py4JError, OSError, EOFError):
        return 0
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


@contextmanager
def watched(
    context: SparkContext,
    total: int,
    reporter: Reporter,
    also: Callable[[], int] = lambda: 0,
) -> Iterator[None]:
    """Report finished tasks while the block runs; `also` counts what else shows that some are."""
    stop = threading.Event()

    def watch() -> None:
        most = 0  # there may be several stages; what is drawn never goes back
        while not stop.wait(LOOK_SECONDS):
            most = max(most, min(max(finished_tasks(context), also()), total))
            reporter.progress(most, total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        reporter.progress(total, total)


@contextmanager
def attended(session: Future[SparkSession], most_seconds: float) -> Iterator[None]:
    """Give up a block whose work waits for longer than that without a single executor.

    Spark itself would wait for ever. The session may still be starting.
    """
    stop, abandoned = threading.Event(), threading.Event()

    def attend() -> None:
        seen = time.monotonic()
        while not stop.wait(LOOK_SECONDS):
            if not session.done() or session.exception() is not None:
                continue
            context = session.result().sparkContext
            if is_local(str(context.master)) or not _waits(context):
                seen = time.monotonic()
            elif time.monotonic() - seen > most_seconds:
                abandoned.set()
                context.cancelAllJobs()

    thread = threading.Thread(target=attend, daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        if not abandoned.is_set():
            raise
        raise EnvironmentProblem(
            f"the Spark cluster has had no executor for {most_seconds:.0f} seconds",
            hint="its workers are gone, or others use all their cores or memory; its Master knows",
        ) from error
    finally:
        stop.set()
        thread.join()


def _waits(context: SparkContext) -> bool:
    """There is work and nobody to do it."""
    try:
        tracker = context._jsc.sc().statusTracker()
        # The driver is in the list of executors too.
        return len(tracker.getActiveJobIds()) > 0 and len(tracker.getExecutorInfos()) <= 1
    except (Py4JError, OSError, EOFError):
        return False  # Spark is gone: whoever runs the work finds out
