"""Events from a real Kafka broker by Spark's own connector."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from crossroads.errors import EnvironmentProblem, SourceError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.stream.kafkaconnector import ensure_connector
from crossroads.pipeline.stream.kafkalanding import TOMBSTONE
from crossroads.pipeline.stream.kafkasource import KafkaSource, explained_loss
from crossroads.pipeline.stream.sources import Arrived, Cutting
from crossroads.testing.kafkabroker import KafkaBroker

pytestmark = pytest.mark.spark

SCHEMA = Schema.from_toml("""
name = "quotes"
id = ["source", "id"]
[attributes]
id = "string"
source = "string"
type = "string"
"data.price" = "double"
""")
CUTTING = Cutting(split_bytes=1 << 20, cores=2)
LARGE = 2_000
STRUCTURED = {"specversion": "1.0", "id": "s", "source": "/q", "type": "t", "data": {"price": 1.5}}
BINARY = {
    "ce_specversion": "1.0",
    "ce_id": "b",
    "ce_source": "/q",
    "ce_type": "t",
    "content-type": "application/json",
}


def event(name: str, partition: int) -> bytes:
    return json.dumps({"id": name, "source": str(partition), "data": {"price": 2}}).encode()


def send(broker: KafkaBroker, topic: str, partition: int, *values: object, **more: object) -> None:
    """Values, or pairs of value and headers; `end` is how their transaction ends, if any."""
    end = more.get("end")
    settings = {"bootstrap.servers": broker.servers, "log_level": 0}
    producer = Producer(settings | ({"transactional.id": topic} if end else {}))
    if end:
        producer.init_transactions(60)
        producer.begin_transaction()
    for value in values:
        data, headers = value if isinstance(value, tuple) else (value, None)
        producer.produce(topic, value=data, headers=headers, partition=partition)
    producer.flush()
    if end == "commit":
        producer.commit_transaction(60)
    elif end == "abort":
        producer.abort_transaction(60)


def stream(
    spark: SparkSession, source: KafkaSource, folder: Path, take: Callable[[DataFrame, int], None]
) -> None:
    """Everything that is there, batch by batch."""
    query = (
        source.frame(spark)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read_back(arrived: Arrived) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int], str]]:
    """Events and rejects, each by what the reader calls its file and line."""
    events: dict[tuple[str, int], str] = {}
    rejects = {(reject.file, reject.line): reject.reason for reject in arrived.rejects}
    for split in arrived.splits:
        for batch in read_split(split, SCHEMA):
            lines = zip(batch.lines.tolist(), batch.ids.to_pylist(), strict=True)
            events |= {(split.path, line): name for line, name in lines}
            rejects |= {(reject.file, reject.line): reject.reason for reject in batch.rejects}
    return events, rejects


@pytest.fixture
def source(kafka_broker: KafkaBroker, kafka_jars: Path, topic: str) -> KafkaSource:
    kafka_broker.create_topic(topic, partitions=3)
    return KafkaSource.of(
        f"kafka://{kafka_broker.servers}/{topic}", record_bytes_max=LARGE, jars=kafka_jars
    )


def test_a_topic_of_everything(kafka_spark, kafka_broker, source, topic, tmp_path) -> None:
    send(kafka_broker, topic, 0, event("a", 0), event("b", 0).replace(b",", b",\n"), event("c", 0))
    send(kafka_broker, topic, 1, json.dumps(STRUCTURED).encode(), (b'{"price":1.5}', BINARY))
    send(
        *(kafka_broker, topic, 2),
        *(None, b"no JSON", b"\xff\xfe", event("x" * LARGE, 2), event("d", 2)),
    )
    send(kafka_broker, topic, 0, event("never", 0), end="abort")
    send(kafka_broker, topic, 0, event("e", 0), end="commit")
    batches: list[Arrived] = []

    def take(frame: DataFrame, number: int) -> None:
        landing = tmp_path / f"landing-{number}"
        landing.mkdir()
        batches.append(source.arrived(frame, landing, CUTTING))
        # A replay lands the same, byte by byte.
        before = {path.name: path.read_bytes() for path in landing.iterdir()}
        assert source.arrived(frame, landing, CUTTING) == batches[-1]
        assert {path.name: path.read_bytes() for path in landing.iterdir()} == before

    stream(kafka_spark, source, tmp_path, take)
    (batch,) = batches
    events, rejects = read_back(batch)
    name = f"kafka:{topic}"
    assert events == {
        (f"{name}/0", 0): "0|a",
        (f"{name}/0", 1): "0|b",
        (f"{name}/0", 2): "0|c",
        (f"{name}/0", 5): "0|e",  # 3 was given up, 4 is the mark of that
        (f"{name}/1", 0): "/q|s",
        (f"{name}/1", 1): "/q|b",
        (f"{name}/2", 4): "2|d",
    }
    assert rejects.pop((f"{name}/2", 0)) == TOMBSTONE
    assert rejects.pop((f"{name}/2", 1)).startswith("not valid JSON")
    assert rejects.pop((f"{name}/2", 2)).startswith("not valid")
    assert rejects.pop((f"{name}/2", 3)).startswith("oversize: 2,0")
    assert not rejects
    assert [split.number for split in batch.splits] == [0, 1, 2]
    assert [split.path for split in batch.splits] == [f"{name}/{n}" for n in range(3)]
    assert batch.oldest_ms is not None
    table = next(read_split(batch.splits[1], SCHEMA)).table
    assert table["data.price"].to_pylist() == [1.5, 1.5]  # both modes of CloudEvents
    assert table["type"].to_pylist() == ["t", "t"]


def test_a_backlog_is_taken_in_batches(kafka_spark, kafka_broker, source, topic, tmp_path) -> None:
    for partition in range(3):
        send(kafka_broker, topic, partition, *(event(str(at), partition) for at in range(20)))
    seen: dict[tuple[str, int], str] = {}
    sizes = []
    limited = KafkaSource(source.place, offsets_per_batch=24, jars=source.jars)

    def take(frame: DataFrame, number: int) -> None:
        landing = tmp_path / f"landing-{number}"
        landing.mkdir()
        events, rejects = read_back(limited.arrived(frame, landing, CUTTING))
        assert not rejects and not seen.keys() & events.keys()
        seen.update(events)
        sizes.append(len(events))

    stream(kafka_spark, limited, tmp_path, take)
    assert len(seen) == 60 and len(sizes) > 1 and max(sizes) <= 24
    expected = {(f"kafka:{topic}/{p}", at): f"{p}|{at}" for p in range(3) for at in range(20)}
    assert seen == expected
    # Started again, there is nothing that was not taken.
    stream(kafka_spark, limited, tmp_path, take)
    assert sum(sizes) == 60


def test_records_that_are_gone_are_an_error(
    kafka_spark, kafka_broker, source, topic, tmp_path
) -> None:
    send(kafka_broker, topic, 0, event("a", 0))
    stream(kafka_spark, source, tmp_path, lambda frame, number: None)
    send(kafka_broker, topic, 0, event("b", 0), event("c", 0))
    admin = kafka_broker.admin()
    for done in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        done.result(60)
    lost: list[str] = []

    def take(frame: DataFrame, number: int) -> None:
        with pytest.raises(SourceError) as error:
            source.arrived(frame, tmp_path / "landing", CUTTING)
        lost.append(str(error.value))

    stream(kafka_spark, source, tmp_path, take)
    (said,) = lost
    assert said.startswith(f"{source.place} no longer has records")
    assert explained_loss(ValueError("something else"), source.place) is None


def test_what_cannot_be_read(kafka_broker) -> None:
    nowhere = KafkaSource.of(f"kafka://{kafka_broker.servers}/no-such-topic")
    with pytest.raises(SourceError, match="there is no topic 'no-such-topic' at 127"):
        nowhere.check()
    with pytest.raises(EnvironmentProblem, match=r"no Kafka broker answers at 127\.0\.0\.1:1 "):
        KafkaSource.of("kafka://127.0.0.1:1/topic").check()


def test_connectors_that_are_none(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "crossroads.pipeline.stream.kafkaconnector.has_connector", lambda spark: False
    )
    with pytest.raises(UsageError, match=r"no \.jar files there"):
        ensure_connector(spark, jars=tmp_path)
    with pytest.raises(UsageError, match="'a:b' are no coordinates"):
        ensure_connector(spark, packages="org.x:y:1, a:b")
    (tmp_path / "one.jar").write_bytes(b"")
    with pytest.raises(EnvironmentProblem, match="there is no Kafka connector in"):
        ensure_connector(spark, jars=tmp_path)
