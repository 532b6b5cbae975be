"""The sinks under attack: where a stream writes, and what is found there afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pyarrow.parquet as pq
from tests.kill.world import Told

COLUMNS = ("event_id", "subscription_id", "subscription_version")
KAFKA_ANSWER_SECONDS = 30.0
TOPIC = "notifications"
SINKS = ("folder", "sqlite", "jdbc", "kafka")


@dataclass(frozen=True)
class Place:
    output: str  # as `--output` has it
    read: Callable[[], Told]
    last: dict[str, Any] = field(default_factory=dict)  # settings of the last run only


@contextmanager
def place_of(sink: str, folder: Path) -> Iterator[Place]:
    folder.mkdir(parents=True, exist_ok=True)
    match sink:
        case "folder":
            yield Place(str(folder / "out"), lambda: read_folder(folder / "out"))
        case "sqlite":
            yield Place(f"sqlite:{folder / 'out.db'}", lambda: _sqlite(folder / "out.db"))
        case "jdbc":
            dump = folder / "dump.json"
            url = f"jdbc:derby:{folder / 'derby'};create=true"
            yield Place(url, lambda: _dumped(dump), {"dump": str(dump)})
        case "kafka":
            (folder / "broker").mkdir()
            # Here: whoever needs no Kafka need not have its client.
            from crossroads.pipeline.java import find_java
            from crossroads.testing.kafkabroker import KafkaBroker
            from crossroads.testing.kafkajars import broker_jars

            with KafkaBroker(folder / "broker", broker_jars(), find_java().executable) as broker:
                url = f"kafka://{broker.servers}/{TOPIC}"
                yield Place(url, lambda: _kafka(broker.servers))
        case _:
            raise ValueError(f"no sink {sink!r}: {', '.join(SINKS)}")


def read_folder(output: Path) -> Told:
    found: Told = Counter()
    for part in sorted(output.glob("notifications/batch=*/part-*.parquet")):
        table = pq.ParquetFile(part).read(list(COLUMNS))
        found.update(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))
    return found


def _sqlite(path: Path) -> Told:
    connection = apsw.Connection(str(path))
    rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM notifications").fetchall()
    connection.close()
    return Counter((str(event), str(name), int(version)) for event, name, version in rows)


def _dumped(path: Path) -> Told:
    return Counter(
        (event, name, int(version)) for event, name, version in json.loads(path.read_text())
    )


def _kafka(servers: str) -> Told:
    """All that was committed, to the end of every partition."""
    from confluent_kafka import Consumer, TopicPartition

    found: Told = Counter()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(TOPIC, KAFKA_ANSWER_SECONDS).topics[TOPIC].partitions
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in partitions])
        open_partitions = set(partitions)
        while open_partitions:
            record = consumer.poll(KAFKA_ANSWER_SECONDS)
            assert record is not None, "the broker does not answer"
            if record.error() is not None:
                open_partitions.discard(record.partition())  # its end
                continue
            row = json.loads(record.value())
            found[str(row[COLUMNS[0]]), str(row[COLUMNS[1]]), int(row[COLUMNS[2]])] += 1
    finally:
        consumer.close()
    return found


def rejects_in(folder: Path) -> Counter[tuple[str, int]]:
    """File and line of every event that was rejected."""
    found: Counter[tuple[str, int]] = Counter()
    for part in sorted(folder.glob("rejected_events/batch=*/part-*.parquet")):
        table = pq.ParquetFile(part).read(["file", "line"])
        names = (Path(name).name for name in table["file"].to_pylist())
        found.update(zip(names, table["line"].to_pylist(), strict=True))
    return found


def rejected_changes(folder: Path) -> set[int]:
    """Numbers of the files of changes that had a broken row; all of ours but the first have one."""
    names = (path.name for path in folder.glob("rejected_subscriptions/change=*"))
    return {int(name.removeprefix("change=")) for name in names}
