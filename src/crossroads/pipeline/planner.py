"""Which plan: the one asked for, or the fastest that is safe here.

`direct` needs input and output paths that every executor sees under the same names. That is certain
on one machine; on a cluster only whoever runs it can know, so there `auto` takes `indexed`, which
ships the index and lets Spark write.
"""

from __future__ import annotations

from typing import Literal

from pyspark.sql import SparkSession

from crossroads.pipeline.session import is_local

Plan = Literal["auto", "direct", "indexed", "naive"]
PLANS: tuple[Plan, ...] = ("auto", "direct", "indexed", "naive")


def choose_plan(asked: Plan, spark: SparkSession) -> Plan:
    if asked != "auto":
        return asked
    return "direct" if is_local(str(spark.sparkContext.master)) else "indexed"
