"""The physical plans by name: each takes a run whose input is known and reports what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crossroads.pipeline.direct import Done, Task, run_direct

if TYPE_CHECKING:
    from crossroads.pipeline.job import Run


def direct(run: Run) -> list[Done]:
    assert run.index is not None
    task = Task(
        run.notify, str(run.index), str(run.output.staging), run.request.keep_duplicates
    )
    return run_direct(run.spark.sparkContext, run.splits, task)


RUN: dict[str, Callable[[Run], list[Done]]] = {"direct": direct}
