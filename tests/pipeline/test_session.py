"""The session we start: its settings, its limits, and what it leaves alone."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossroads.errors import EnvironmentProblem, TooLittleMemory, UsageError
from crossroads.pipeline.java import Java
from crossroads.pipeline.machine import available_memory, usable_cores
from crossroads.pipeline.session import (
    HEAP_MAX,
    HEAP_MIN,
    MIB,
    checked_master,
    heap_bytes,
    is_loopback,
    refuse_unreachable,
    session_settings,
    standalone_hosts,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_too_little_memory_is_one_line_that_says_what_to_do() -> None:
    with pytest.raises(TooLittleMemory, match="1024 MiB of free memory, 300 MiB are") as caught:
        heap_bytes(300 * MIB)
    assert isinstance(caught.value, EnvironmentProblem)
    assert "\n" not in str(caught.value)


def test_the_heap_stays_within_its_bounds() -> None:
    assert heap_bytes(1024 * MIB) == HEAP_MIN
    assert heap_bytes(10_000 * MIB) == 4_000 * MIB
    assert heap_bytes(1_000_000 * MIB) == HEAP_MAX


def test_a_cluster_keeps_its_own_memory_and_address() -> None:
    java = Java(Path("java"), "17.0.1", "PATH")
    assert "spark.driver.memory" not in session_settings("spark://host:7077", java)
    assert "spark.driver.host" not in session_settings("yarn", java)
    assert session_settings("local[2]", java)["spark.driver.host"] == "127.0.0.1"


def test_limits_of_a_container_count(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) >= 1  # no files: another system
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("2000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 500000\n")
    assert available_memory(tmp_path) == 1_500_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert available_memory(tmp_path) > 1_500_000


@pytest.mark.spark
def test_an_active_session_is_used_as_it_is(spark: SparkSession) -> None:
    from crossroads.pipeline.session import spark_session

    assert spark_session("local[7]", "another name") is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.spark
def test_the_process_environment_is_put_back(spark: SparkSession) -> None:
    assert "crossroads" not in os.environ.get("JAVA_HOME", "")
    assert "SPARK_LOCAL_IP" not in os.environ or os.environ["SPARK_LOCAL_IP"] != "127.0.0.1"


@pytest.mark.spark
def test_workers_run_this_python(spark: SparkSession) -> None:
    workers = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert workers == [sys.executable]


@pytest.mark.parametrize("master", ["nonsense", "local[0]", "local[x]", "spark://", "local[2", " "])
def test_a_nonsense_master_is_a_usage_error(master: str) -> None:
    with pytest.raises(UsageError, match="is not a Spark master"):
        checked_master(master)


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[2,3]",
        "local-cluster[2,1,2048]",
        "yarn",
        "spark://host:7077",
        "spark://a:1,b:2",
        "k8s://https://host:6443",
    ],
)
def test_what_spark_takes_as_a_master_passes(master: str) -> None:
    assert checked_master(master) == master


# -- a standalone cluster ------------------------------------------------------------------------


def test_the_addresses_of_a_standalone_cluster() -> None:
    assert standalone_hosts("spark://one:7077,two") == [("one", 7077), ("two", 7077)]
    assert standalone_hosts("spark://[::1]:7") == [("::1", 7)]
    assert standalone_hosts("local[2]") == standalone_hosts("yarn") == []
    with pytest.raises(UsageError, match="'x' is not a port"):
        standalone_hosts("spark://one:x")


def test_a_cluster_on_this_machine_needs_no_network() -> None:
    assert is_loopback("spark://127.0.0.1:7077") and is_loopback("spark://localhost:7077")
    assert not is_loopback("spark://localhost:7077,elsewhere:7077") and not is_loopback("yarn")
    java = Java(Path("java"), "17.0.1", "PATH")
    assert session_settings("spark://localhost:7077", java)["spark.driver.host"] == "127.0.0.1"


def test_one_master_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refuse_unreachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    refuse_unreachable("local[2]")
    with pytest.raises(EnvironmentProblem, match=r"no Spark master answers at 127\.0\.0\.1:1: "):
        refuse_unreachable("spark://127.0.0.1:1")
