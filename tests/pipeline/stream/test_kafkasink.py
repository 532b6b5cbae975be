"""Notifications to a real Kafka broker: each once, whoever is killed, and when."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from crossroads.errors import EnvironmentProblem, OutputError, UsageError
from crossroads.pipeline.stream.kafkaledger import NEAR_THE_END
from crossroads.pipeline.stream.kafkaplace import parse_kafka, partitions_of
from crossroads.pipeline.stream.kafkasink import PARTITIONS, KafkaSink
from crossroads.pipeline.stream.sinks import delivery_number, notification_id
from crossroads.testing.kafkabroker import KafkaBroker

PROGRAM = Path(__file__).with_name("kafkadelivery.py")
_spec = spec_from_file_location("kafkadelivery", PROGRAM)
kafkadelivery = module_from_spec(_spec)
_spec.loader.exec_module(kafkadelivery)
delivery, ROWS = kafkadelivery.delivery, kafkadelivery.ROWS


def committed(broker: KafkaBroker, topic: str) -> list[Message]:
    """All that a reader with read_committed sees."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": f"reader-{uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    count = partitions_of(parse_kafka(f"kafka://{broker.servers}/{topic}"))
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
    found, ended = [], set()
    while len(ended) < count:
        message = reader.poll(30)
        assert message is not None, "the broker does not answer"
        if message.error() is None:
            found.append(message)
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
    reader.close()
    return found


def told(messages: list[Message]) -> Counter[str]:
    return Counter(json.loads(message.value())["event_id"] for message in messages)


def once(*batches: int, rows: int = ROWS) -> Counter[str]:
    return Counter(f"{batch}-{at}" for batch in batches for at in range(rows))


@pytest.fixture
def url(kafka_broker: KafkaBroker, topic: str) -> str:
    return f"kafka://{kafka_broker.servers}/{topic}"


def opened(url: str, stream: str = "one", **more: object) -> KafkaSink:
    sink = KafkaSink(url, stream=f"{stream}-{url[-12:]}", **more)
    sink.open()
    return sink


def test_a_delivery_is_told_once_and_remembered(url, kafka_broker, topic, tmp_path) -> None:
    sink = opened(url)
    assert partitions_of(parse_kafka(url)) == PARTITIONS  # created: it was not there
    assert not sink.has(delivery_number(0))
    for batch in (0, 1, 1, 0):
        sink.publish(delivery(tmp_path, batch))
    assert sink.has(delivery_number(0)) and sink.has(delivery_number(1))
    assert not sink.has(delivery_number(1, 1)) and not sink.has(delivery_number(2))
    sink.close()

    messages = committed(kafka_broker, topic)
    assert told(messages) == once(0, 1)
    for message in messages:
        value = json.loads(message.value())
        assert list(value) == [
            *("event_id", "subscription_id", "subscriber", "price", "subscription_version")
        ]
        assert message.key().decode() == value["subscriber"]
        own = notification_id(value["event_id"], value["subscription_id"])
        assert dict(message.headers()) == {"notification_id": own.encode()}
    by_key = {(message.key(), message.partition()) for message in messages}
    assert len(by_key) == 5  # a subscriber's notifications are in one partition, in order

    again = opened(url)
    assert again.has(delivery_number(1))
    again.publish(delivery(tmp_path, 1))
    again.publish(delivery(tmp_path, 2))
    again.close()
    assert told(committed(kafka_broker, topic)) == once(0, 1, 2)

    other = opened(url, "another")
    assert not other.has(delivery_number(0))  # of its own stream it knows
    other.close()


@pytest.mark.parametrize("step", [*kafkadelivery.STEPS, "done"])
def test_a_driver_killed_in_a_transaction(step, url, kafka_broker, topic, tmp_path) -> None:
    sink = opened(url)
    sink.publish(delivery(tmp_path, 0))
    sink.close()
    stream = f"one-{url[-12:]}"
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), url, stream, str(tmp_path / "killed"), step],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as driver:
        assert driver.stdout.readline() == b"waiting\n"
        driver.send_signal(signal.SIGKILL)
    assert driver.returncode == -signal.SIGKILL

    whole = step == "done"
    assert told(committed(kafka_broker, topic)) == (once(0, 1) if whole else once(0))
    sink = opened(url)
    assert sink.has(delivery_number(1)) == whole
    sink.publish(delivery(tmp_path, 1))
    sink.publish(delivery(tmp_path, 2))
    sink.close()
    assert told(committed(kafka_broker, topic)) == once(0, 1, 2)


@pytest.mark.parametrize("step", kafkadelivery.STEPS)
def test_a_broker_killed_in_a_transaction(step, url, kafka_broker, topic, tmp_path) -> None:
    def kill_the_broker() -> None:
        kafka_broker.kill()
        kafka_broker.start()

    sink = KafkaSink(url, stream=f"one-{topic}")
    kafkadelivery.before_step(sink, step, kill_the_broker)
    sink.open()
    sink.publish(delivery(tmp_path, 0))
    sink.publish(delivery(tmp_path, 1))
    sink.close()
    assert told(committed(kafka_broker, topic)) == once(0, 1)


def test_without_transactions_a_delivery_comes_twice(url, kafka_broker, topic, tmp_path) -> None:
    """What exactly-once prevents: the campaign that must find duplicates finds these."""
    sink = opened(url, exactly_once=False)
    sink.publish(delivery(tmp_path, 0))
    assert not sink.has(delivery_number(0))
    sink.publish(delivery(tmp_path, 0))
    sink.close()
    assert told(committed(kafka_broker, topic)) == once(0) + once(0)


def test_a_second_driver_of_a_stream_stops_the_first(url, kafka_broker, topic, tmp_path) -> None:
    first = opened(url)
    second = opened(url)
    second.publish(delivery(tmp_path, 0))
    with pytest.raises(OutputError, match="another process writes to kafka://"):
        first.publish(delivery(tmp_path, 1))
    second.publish(delivery(tmp_path, 1))
    assert told(committed(kafka_broker, topic)) == once(0, 1)
    first.close()
    second.close()


def test_a_number_behind_what_others_have_open(url, kafka_broker, topic, tmp_path) -> None:
    """Streams that share a topic: the ledger is read to its end, past marks of any number."""
    first = opened(url, "first")
    other = Producer(
        {"bootstrap.servers": kafka_broker.servers, "transactional.id": topic, "log_level": 0}
    )
    ledger = first._ledger
    other.init_transactions(60)
    first.publish(delivery(tmp_path, 0, rows=1))
    other.begin_transaction()
    for at in range(2 * NEAR_THE_END):
        number = str(at).encode()
        other.produce(ledger.place.topic, number, b"another", partition=ledger.partition)
    other.flush()
    first.publish(delivery(tmp_path, 1, rows=1))
    with pytest.raises(OutputError, match=r"another stream .* has a transaction open"):
        ledger.last(wait_seconds=2)
    other.commit_transaction(60)
    assert ledger.last(wait_seconds=60) == delivery_number(1)
    for _ in range(NEAR_THE_END):
        other.begin_transaction()
        other.produce(ledger.place.topic, b"1", b"another", partition=ledger.partition)
        other.abort_transaction(60)
    assert ledger.last(wait_seconds=60) == delivery_number(1)
    first.close()


def test_more_notifications_than_the_client_holds_at_once(
    url, kafka_broker, topic, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(
        KafkaSink,
        "_producing",
        lambda self, real=KafkaSink._producing: {**real(self), "queue.buffering.max.messages": 100},
    )
    sink = opened(url)
    sink.publish(delivery(tmp_path, 0, rows=5_000))
    sink.close()
    assert told(committed(kafka_broker, topic)) == once(0, rows=5_000)


def test_an_empty_delivery_is_remembered(url, tmp_path) -> None:
    sink = opened(url)
    sink.publish(delivery(tmp_path, 3, rows=0))
    assert sink.has(delivery_number(3))
    sink.close()


def test_nobody_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentProblem, match=rf"no Kafka broker answers at 127.*{port}"):
            KafkaSink(f"kafka://127.0.0.1:{port}/out", stream="x").open()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("kafka://host/topic", "'host' is not HOST:PORT"),
        ("kafka://host:99999/topic", "is not HOST:PORT"),
        ("kafka://:9092/topic", "is not HOST:PORT"),
        ("kafka://a:1,,b:2/topic", "'' is not HOST:PORT"),
        ("kafka://host:9092", "names no topic"),
        ("kafka://host:9092/", "names no topic"),
        ("kafka://host:9092/a/b", "is no name for a topic"),
        ("kafka://host:9092/..", "is no name for a topic"),
        ("kafka://me:secret@host:9092/t", "no room for a user or a password"),
        ("kafka:host:9092/t", "does not begin with kafka://"),
    ],
)
def test_addresses_that_are_none(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_kafka(url)


def test_addresses() -> None:
    assert parse_kafka("KAFKA://[::1]:9092,b.example:1/a.b-c_1").servers == "[::1]:9092,b.example:1"
    assert str(parse_kafka("kafka://a:1/t")) == "kafka://a:1/t"
