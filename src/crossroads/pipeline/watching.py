"""How far Spark is, from its own status tracker."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark import SparkContext


def finished_tasks(context: SparkContext) -> int:
    """Finished tasks of the stages that are running now; 0 when Spark does not answer any more,
    which whoever runs the work finds out and reports."""
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (Py4JError, OSError, EOFError):
        return 0
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
