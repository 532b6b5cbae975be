"""How far Spark is, from its own status tracker."""

from __future__ import annotations

from pyspark import SparkContext


def finished_tasks(context: SparkContext) -> int:
    """Finished tasks of the stages that are running now."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
