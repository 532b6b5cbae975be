"""The same stream through a real broker: events from a topic, notifications to another.

    python -m bench.streamkafka feed|listen X.json

Latency is from when an event is handed to Kafka's client to when a reader with `read_committed`
has the notification: the broker, a client on each side and the transaction are in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, Producer

from bench.streamlatency import percentiles
from bench.streamload import Given, draw, matches_of, told_to_stop, write_pool
from bench.streamours import Ours
from bench.streamparts import SOON_MS
from bench.streamrun import ROOT, Side
from bench.streamsizes import CORES, StreamSizes
from bench.streamwatch import disturbance, thirds
from crossroads.errors import EnvironmentProblem
from crossroads.pipeline.java import find_java
from crossroads.testing.kafkabroker import KafkaBroker
from crossroads.testing.kafkajars import broker_jars, connector_jars

PARTITIONS = 2
BURST_SECONDS = 0.02
EVENTS, NOTIFICATIONS = "events", "notifications"
QUIET_SECONDS = 30.0  # after which nothing more will come
AFTER_SECONDS = 1.0  # in which one too many would come
JOIN_SECONDS = 3.0  # for the reader to be there before the first event


@dataclass(frozen=True)
class Talk:
    """What feeder and reader are told."""

    servers: str
    rate: int
    seconds: float
    result: str
    expected: int = 0  # notifications


class _Notification(msgspec.Struct):
    event_id: str


def feed(talk: Talk) -> None:
    """Bursts of a few events; `result` has when each was sent."""
    burst = round(talk.rate * BURST_SECONDS)
    turns = round(talk.seconds / BURST_SECONDS)
    values = [json.dumps(row).encode() for row in draw(1, burst * turns).to_pylist()]
    producer = Producer({"bootstrap.servers": talk.servers, "linger.ms": 5, "log_level": 0})
    sent = np.zeros(turns)
    begun = time.time()
    for turn in range(turns):
        time.sleep(max(0.0, begun + turn * BURST_SECONDS - time.time()))
        sent[turn] = time.time()
        for value in values[turn * burst : (turn + 1) * burst]:
            producer.produce(EVENTS, value=value)
        producer.poll(0)
    producer.flush()
    np.save(talk.result, sent)


def listen(talk: Talk) -> None:
    """Until a line comes; `result` has the event of each notification and when it was seen."""
    stop = told_to_stop()
    reader = Consumer(
        {
            "bootstrap.servers": talk.servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    reader.subscribe([NOTIFICATIONS])
    print("READY", flush=True)
    decode = msgspec.json.Decoder(_Notification).decode
    events: list[int] = []
    seen: list[float] = []
    last = time.monotonic()
    while not stop.is_set() or time.monotonic() - last < (
        QUIET_SECONDS if len(seen) < talk.expected else AFTER_SECONDS
    ):
        found = reader.consume(2_000, timeout=0.02)
        values = [one.value() for one in found if one.error() is None]
        if values:
            last, now = time.monotonic(), time.time()
            events += [int(decode(value).event_id) for value in values if value]
            seen += [now] * len(values)
    reader.close()
    np.save(talk.result, np.array([events, seen]))


def through_kafka(folder: Path, given: Given, sizes: StreamSizes, seconds: float) -> dict[str, Any]:
    folder.mkdir(parents=True)
    try:
        broker_at, connector_at = broker_jars(), connector_jars()
    except EnvironmentProblem as problem:
        return {"not_measured": str(problem)}
    (folder / "broker").mkdir()
    total = sizes.warm_seconds + seconds
    burst = round(sizes.rate * BURST_SECONDS)
    pool = write_pool(folder / "pool", 1, burst * round(total / BURST_SECONDS))
    expected = sum(matches_of(given, pool))
    with KafkaBroker(folder / "broker", broker_at, find_java().executable) as broker:
        for topic in (EVENTS, NOTIFICATIONS):
            broker.create_topic(topic, PARTITIONS)
        ours = Ours(
            schema=str(given.schema),
            subscriptions=str(given.subscriptions),
            events=f"kafka://{broker.servers}/{EVENTS}",
            output=f"kafka://{broker.servers}/{NOTIFICATIONS}",
            checkpoint=str(folder / "checkpoint"),
            cores=CORES,
            trigger_ms=SOON_MS,
            jars=[str(jar) for jar in sorted(connector_at.glob("*.jar"))],
        )
        sent_at, seen_at = folder / "sent.npy", folder / "seen.npy"
        with Side(ours, folder) as side:
            reader = _process(
                "listen", Talk(broker.servers, sizes.rate, total, str(seen_at), expected)
            )
            time.sleep(JOIN_SECONDS)
            feeder = _process("feed", Talk(broker.servers, sizes.rate, total, str(sent_at)))
            feeder.wait()
            side.check()
            assert reader.stdin is not None
            reader.stdin.close()
            reader.wait()
    since = float(np.load(sent_at)[0]) + sizes.warm_seconds
    return _latencies(sizes, np.load(sent_at), np.load(seen_at)) | {
        "seconds": seconds,
        "expected": expected,
        "memory": thirds(side.samples, since),
        "disturbance": disturbance(side.samples, since),
        "spark_ms": side.progress(),
        "complete": int(np.load(seen_at).shape[1]) == expected,
    }


def _latencies(sizes: StreamSizes, sent: Any, seen: Any) -> dict[str, Any]:
    events, when = seen[0].astype(np.int64), seen[1]
    arrived = sent[(events - 1) // round(sizes.rate * BURST_SECONDS)]
    counted = arrived >= sent[0] + sizes.warm_seconds
    return {
        "rate": sizes.rate,
        "notifications": int(events.size),
        "latency": percentiles((when - arrived)[counted].tolist()),
    }


def _process(what: str, talk: Talk) -> subprocess.Popen[bytes]:
    path = Path(talk.result).with_suffix(".json")
    path.write_text(json.dumps(asdict(talk)))
    command = [sys.executable, "-m", "bench.streamkafka", what, str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    {"feed": feed, "listen": listen}[sys.argv[1]](Talk(**json.loads(Path(sys.argv[2]).read_text())))
