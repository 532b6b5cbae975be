"""Errors of Spark become one line of ours."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from crossroads.errors import CrossroadsError, EnvironmentProblem, OutputError, SourceError
from crossroads.pipeline.failures import explained, plainly

TRACE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "reading.py", line 2, in read
    raise SourceError("x: y")
{raised}
 SQLSTATE: 38000
\tat org.apache.spark.Executor.run(Executor.scala:1)
Caused by: java.lang.Nothing: else
"""


def test_an_error_of_ours_is_what_it_was() -> None:
    text = TRACE.format(raised="crossroads.errors.SourceError: cannot read a.csv: gone")
    found = explained(PySparkException(text))
    assert type(found) is SourceError
    assert str(found) == "cannot read a.csv: gone"


def test_another_error_keeps_its_last_line() -> None:
    text = TRACE.format(raised="OSError: [Errno 5] Input/output error\x0f")
    found = explained(PySparkException(text))
    assert str(found).startswith("a task failed: OSError: [Errno 5] Input/output error? (")


@pytest.mark.parametrize(
    "text",
    [
        TRACE.format(raised="OSError: [Errno 28] No space left on device"),
        "Job aborted.\nCaused by: java.io.IOException: No space left on device\n\tat java.io",
    ],
)
def test_a_full_disk_is_said_to_be_one(text: str) -> None:
    found = explained(PySparkException(text))
    assert type(found) is OutputError
    assert str(found).startswith("a disk is full: No space left on device (make room")
    assert "\n" not in str(found)


def test_what_has_no_python_in_it_keeps_its_first_line() -> None:
    found = explained(PySparkException("Out of luck.\n\tat org.apache"))
    assert type(found) is CrossroadsError
    assert str(found).startswith("Spark failed: Out of luck. (")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "refused"),
        EOFError(),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o1.collect"),
        PySparkException("Job aborted: Python worker exited unexpectedly (crashed)"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_processes_that_died(error: Exception) -> None:
    found = explained(error)
    assert isinstance(found, EnvironmentProblem)
    assert "\n" not in str(found)


def test_errors_of_ours_pass_through() -> None:
    with pytest.raises(SourceError, match="mine"), plainly():
        raise SourceError("mine")


def test_an_interrupt_stays_one_though_tidying_up_fails() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ConnectionResetError(104, "reset") from None

    with pytest.raises(KeyboardInterrupt), plainly():
        interrupted()
