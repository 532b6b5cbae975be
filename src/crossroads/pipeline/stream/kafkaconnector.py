"""Spark's own Kafka connector, which pyspark comes without: brought into a session that runs.

It is added to the session as jars are by `ADD JAR`: from a folder of jars, or by the coordinates of
its package, which Spark downloads once with all that belongs to it and keeps. Executors get it from
the driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from crossroads.errors import EnvironmentProblem, UsageError

# A connector belongs to its Spark: the same release, built for the same Scala.
CONNECTOR_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def ensure_connector(
    spark: SparkSession, *, packages: str | None = None, jars: Path | None = None
) -> None:
    """Afterwards `format("kafka")` works in this session; one that has it already is left alone.

    `packages`: coordinates with commas between them. `jars`: a folder, for machines that may not
    download.
    """
    if has_connector(spark):
        return
    coordinates = () if jars is not None else _coordinates(packages or CONNECTOR_PACKAGE)
    try:
        _add(spark, _jars_in(jars) if jars is not None else _downloaded(spark, coordinates))
    except (Py4JError, PySparkException) as error:
        raise EnvironmentProblem(
            f"Spark's Kafka connector could not be had: {_first_line(error)}",
            hint=f"needed: {CONNECTOR_PACKAGE} and what it depends on; name another with "
            "--packages, or a folder of jars with --jars",
        ) from error
    if not has_connector(spark):
        raise EnvironmentProblem(
            f"there is no Kafka connector in {jars or packages}",
            hint=f"needed: {CONNECTOR_PACKAGE} and what it depends on",
        )


def has_connector(spark: SparkSession) -> bool:
    jvm = spark._jvm
    assert jvm is not None
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource("kafka", spark._jsparkSession.sessionState().conf())
    except (Py4JError, PySparkException):
        return False
    return True


def _add(spark: SparkSession, jars: Sequence[str]) -> None:
    jvm = spark._jvm
    assert jvm is not None
    # Where Java looks first. Without it the driver cannot read what a task of the connector says
    # went wrong ("UnknownReason"): only the session would know the connector's classes.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if "MutableURLClassLoader" in str(loader.getClass().getName()):
        for jar in jars:
            loader.addURL(jvm.java.io.File(jar).toURI().toURL())
    session = spark._jsparkSession.sessionState().resourceLoader()
    for jar in jars:
        session.addJar(jar)  # executors too


def _downloaded(spark: SparkSession, coordinates: Sequence[str]) -> Sequence[str]:
    jvm = spark._jvm
    assert jvm is not None
    found: list[str] = []
    for one in coordinates:
        address = jvm.java.net.URI(f"ivy://{one}")
        paths = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(address)
        found += [paths.apply(at) for at in range(paths.size())]
    return found


def _jars_in(folder: Path) -> Sequence[str]:
    found = sorted(folder.glob("*.jar"))
    if not found:
        raise UsageError(f"--jars {folder}: no .jar files there")
    return [str(jar.absolute()) for jar in found]


def _coordinates(packages: str) -> Sequence[str]:
    listed = [one.strip() for one in packages.split(",")]
    for one in listed:
        if not _COORDINATES.fullmatch(one):
            raise UsageError(
                f"--packages: {one!r} are no coordinates",
                hint=f"use GROUP:ARTIFACT:VERSION, for example {CONNECTOR_PACKAGE}",
            )
    return listed


def _first_line(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage()).splitlines()[0]
    return (str(error).splitlines() or [type(error).__name__])[0]
