"""What tests share: one Spark session, started by the first test that asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline: the first example of a kernel compiles it, and machines are shared.
# `too_slow` counts the same compilation; a test that is slow by itself shows in --durations.
_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "print_blob": True,  # a failure in CI can be replayed at home
}
settings.register_profile("default", max_examples=100, **_COMMON)
settings.register_profile("fuzz", max_examples=5_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

SPARK_SETTINGS = {
    # Small: tests hold thousands of rows, and xdist may run several sessions side by side.
    "spark.driver.memory": "1g",
    # Two partitions: enough to show what breaks across partitions, few enough to be quick.
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Code generation costs more than it saves on a few rows.
    "spark.sql.codegen.wholeStage": "false",
    # A task that fails should fail its test at once.
    "spark.task.maxFailures": "1",
    # Status of finished jobs that no test looks at.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores with the product's own settings, smaller; about five seconds to start."""
    from crossroads.pipeline.session import spark_session

    session = spark_session("local[2]", "crossroads tests", SPARK_SETTINGS)
    yield session
    session.stop()
