"""What goes wrong inside Spark, said in one line of ours.

An error of ours that a worker raises arrives at the driver as text, at the end of a trace through
Python and Java. It is raised again as what it was; anything else keeps its last line. The whole
trace stays behind it as the cause, for `--debug`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from crossroads import errors
from crossroads.errors import CrossroadsError, EnvironmentProblem, OutputError

_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<message>.+)$", re.MULTILINE)
_TRACE = "Traceback (most recent call last)"
_OURS = "crossroads.errors."
_NO_SPACE = "No space left on device"  # as Python and Java say it
_WORKER_DIED = ("Python worker exited unexpectedly", "Python worker process terminated")


@contextmanager
def plainly() -> Iterator[None]:
    """Errors of Spark leave this block as errors of ours."""
    root = logging.getLogger()
    root.addFilter(_not_py4j)
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        raise explained(error) from error
    finally:
        root.removeFilter(_not_py4j)


def _was_interrupted(error: BaseException) -> bool:
    """py4j tidies up after Ctrl-C, which may fail and hide what it was."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            return True
    return False


def _java_died(error: Exception) -> bool:
    if isinstance(error, ConnectionError | EOFError | Py4JNetworkError):
        return True
    # What is left of a call that got no answer; an answer would bring a trace.
    return type(error) is Py4JError and "Trace:" not in str(error)


def _not_py4j(record: logging.LogRecord) -> bool:
    """When Java is gone py4j logs a trace, to the root logger, besides raising it."""
    return "py4j" not in Path(record.pathname).parts


def explained(error: Exception) -> CrossroadsError:
    text = str(error)
    if _java_died(error):
        return EnvironmentProblem(
            "Spark's Java process ended in the middle of the work",
            hint="it was killed, or the machine ran out of memory; run again",
        )
    if any(sign in text for sign in _WORKER_DIED):
        return EnvironmentProblem(
            "a Python worker of Spark died again and again",
            hint="it was killed, or the machine ran out of memory; use fewer cores: --master "
            "local[1]",
        )
    raised = _raised(text)
    if _NO_SPACE in text and (raised is None or not raised[0].startswith(_OURS)):
        return OutputError(
            "a disk is full: No space left on device",
            hint="make room where the output goes and where Spark has its temporary files "
            "(SPARK_LOCAL_DIRS); nothing half-written was left",
        )
    if raised is None:
        first = (text.strip().splitlines() or [type(error).__name__])[0]
        return CrossroadsError(f"Spark failed: {first}", hint="--debug shows the whole trace")
    kind, message = raised
    ours = getattr(errors, kind.removeprefix(_OURS), None)
    if kind.startswith(_OURS) and isinstance(ours, type):
        assert issubclass(ours, CrossroadsError)
        return ours(message)  # its hint is a part of the message already
    return CrossroadsError(
        f"a task failed: {kind.rpartition('.')[2]}: {message}",
        hint="--debug shows the whole trace",
    )


def _raised(text: str) -> tuple[str, str] | None:
    """Kind and message of the exception under the last Python trace of a text."""
    _, found, trace = text.rpartition(_TRACE)
    if not found:
        return None
    # The lines of a trace are indented; what was raised is the first line that is not.
    raised = _RAISED.search(trace)
    if raised is None:
        return None
    # Libraries quote the bytes that they stumbled over.
    message = "".join(c if c.isprintable() else "?" for c in raised["message"].strip())
    return raised["kind"], message
