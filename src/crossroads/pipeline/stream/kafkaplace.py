"""A topic as people write it, `kafka://host:9092,host:9092/topic`, and asking brokers about it."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from crossroads.errors import CrossroadsError, EnvironmentProblem, UsageError

PREFIX = "kafka://"
FORM = "kafka://HOST:PORT/TOPIC, with commas between several HOST:PORT"
ANSWER_SECONDS = 8.0  # for a broker; the client itself would try for ever
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule
_NO_ANSWER = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
)

# The client reports what it stumbles over here too; what matters is raised.
_SILENT = logging.getLogger("crossroads.kafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    servers: str  # host:port,host:port
    topic: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.servers}/{self.topic}"


def is_kafka(url: str) -> bool:
    return url.lower().startswith(PREFIX)


def parse_kafka(url: str) -> KafkaPlace:
    """
    >>> parse_kafka("kafka://a:9092,b:9092/quotes")
    KafkaPlace(servers='a:9092,b:9092', topic='quotes')
    """
    if not is_kafka(url):
        raise UsageError(f"{url!r} does not begin with {PREFIX}", hint=f"use {FORM}")
    servers, _, topic = url[len(PREFIX) :].partition("/")
    if "@" in servers:
        raise UsageError(
            "a kafka:// address has no room for a user or a password",
            hint="they are settings of the Kafka client",
        )
    for server in servers.split(","):
        found = _SERVER.fullmatch(server)
        if found is None or not 0 < int(found[1]) < 1 << 16:
            raise UsageError(f"{url!r}: {server!r} is not HOST:PORT", hint=f"use {FORM}")
    if not topic:
        raise UsageError(f"{url!r} names no topic", hint=f"use {FORM}")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise UsageError(
            f"{url!r}: {topic!r} is no name for a topic",
            hint="up to 249 letters, digits, dots, dashes and underscores",
        )
    return KafkaPlace(servers, topic)


def client_settings(place: KafkaPlace, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """For every client of ours: where, and that it keeps quiet."""
    # 0: connections that come and go are no news, and what fails is raised.
    return {"bootstrap.servers": place.servers, "log_level": 0, "logger": _SILENT, **(more or {})}


def partitions_of(place: KafkaPlace, settings: Mapping[str, str] | None = None) -> int | None:
    """How many partitions the topic has; None if there is no such topic."""
    _refuse_silence(place)
    admin = AdminClient(client_settings(place, settings))
    try:
        # Of all topics: asking for one by name would create it where brokers allow that.
        topics = admin.list_topics(timeout=ANSWER_SECONDS).topics
    except KafkaException as error:
        raise unreachable(place, error) from error
    found = topics.get(place.topic)
    return None if found is None else len(found.partitions)


def _refuse_silence(place: KafkaPlace) -> None:
    """At once, where nobody listens: the client would ask again until its time is up."""
    problems = []
    for server in place.servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS):
                return
        except OSError as error:
            problems.append(error.strerror or str(error))
    raise _no_answer(place, "; ".join(dict.fromkeys(problems)))


def create_topic(
    place: KafkaPlace,
    partitions: int,
    settings: Mapping[str, str] | None = None,
    of_topic: Mapping[str, str] | None = None,
) -> None:
    """With as many copies as the brokers make by default. One that is there already is left."""
    admin = AdminClient(client_settings(place, settings))
    asked = NewTopic(place.topic, num_partitions=partitions, config=dict(of_topic or {}))
    made = admin.create_topics(
        [asked], operation_timeout=ANSWER_SECONDS, request_timeout=2 * ANSWER_SECONDS
    )
    try:
        made[place.topic].result()
    except KafkaException as error:
        if kafka_error(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise EnvironmentProblem(
                f"cannot create the topic {place.topic}: {kafka_error(error).str()}",
                hint="create it, or let this user create it",
            ) from error


def kafka_error(error: KafkaException) -> KafkaError:
    found = error.args[0]
    assert isinstance(found, KafkaError), found
    return found


def unreachable(place: KafkaPlace, error: KafkaException) -> CrossroadsError:
    problem = kafka_error(error)
    if problem.code() not in _NO_ANSWER:
        return EnvironmentProblem(
            f"the Kafka broker at {place.servers} refuses: {problem.str()}",
            hint="check its settings and the rights of this user",
        )
    return _no_answer(place, problem.str())


def _no_answer(place: KafkaPlace, problem: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"no Kafka broker answers at {place.servers} ({problem})",
        hint="check the address, and that the broker runs and can be reached from here",
    )
