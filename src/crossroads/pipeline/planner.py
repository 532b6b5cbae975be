"""Which plan: the one asked for, or the fastest that is safe here.

`direct` needs input and output paths that every executor sees under the same names. That is certain
on one machine; on a cluster only whoever runs it can know, so there `auto` takes `indexed`, which
ships the index and lets Spark write.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from crossroads.pipeline.session import is_local


def choose_plan(asked: str, spark: SparkSession) -> str:
    if asked != "auto":
        return asked
    return "direct" if is_local(spark.sparkContext.master) else "indexed"
