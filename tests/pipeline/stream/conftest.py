"""A Kafka broker for the tests that need one, and Spark's connector to it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from crossroads.errors import EnvironmentProblem
from crossroads.pipeline.java import find_java
from crossroads.pipeline.stream.kafkaconnector import ensure_connector
from crossroads.testing.kafkabroker import KafkaBroker
from crossroads.testing.kafkajars import broker_jars, connector_jars


def _jars(bring: Callable[[], Path]) -> Path:
    """Where Kafka cannot be had its tests are skipped, and say why; CI is no such place."""
    try:
        return bring()
    except EnvironmentProblem as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Kafka on this machine: {problem}")


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """A folder with the jars of Spark's Kafka connector: for `--jars`."""
    return _jars(connector_jars)


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    jars = _jars(broker_jars)
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(folder, jars, find_java().executable) as broker:
        yield broker


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A name that nobody has used; the topic is the test's to create."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession, kafka_jars: Path) -> SparkSession:
    """The session of all tests, with the connector."""
    ensure_connector(spark, jars=kafka_jars)
    return spark
