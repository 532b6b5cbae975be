"""Deliveries for the Kafka sink; as a program, a driver that waits in the middle of one.

python kafkadelivery.py URL STREAM FOLDER STEP says `waiting` before the given step of a delivery
(or after the last) and does nothing more, so that whoever started it can kill it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from crossroads.model.schema import Schema
from crossroads.pipeline.notify import NOTIFICATIONS, Notify
from crossroads.pipeline.output import write_part
from crossroads.pipeline.stream.kafkasink import KafkaSink
from crossroads.pipeline.stream.sinkcolumns import notification_columns
from crossroads.pipeline.stream.sinks import Delivery, delivery_number

SCHEMA = Schema.from_toml("""
name = "quotes"
id = ["event"]
[attributes]
event = "string"
price = "double"
""")
NOTIFY = Notify(SCHEMA, include=("price",), version=0)
ROWS = 300
STEPS = ("_mark", "_commit")  # of KafkaSink, after all records of a delivery have been sent


def delivery(folder: Path, batch: int, rows: int = ROWS) -> Delivery:
    """The same rows for the same batch, in two parts."""
    number = delivery_number(batch)
    staging = folder / f"staging-{number}"
    table = pa.table(
        {
            "event_id": [f"{batch}-{at}" for at in range(rows)],
            "subscription_id": [f"s{at % 7}" for at in range(rows)],
            "subscriber": [f"who{at % 5}" for at in range(rows)],
            "price": [at / 2 for at in range(rows)],
            "subscription_version": [3] * rows,
        },
        schema=notification_columns(NOTIFY),
    )
    staging.mkdir(parents=True, exist_ok=True)
    write_part(staging / NOTIFICATIONS, 0, table.slice(0, rows // 2), "parquet")
    write_part(staging / NOTIFICATIONS, 1, table.slice(rows // 2), "parquet")
    return Delivery(number, staging, NOTIFY, rows)


def before_step(sink: KafkaSink, step: str, act) -> None:
    """Have `act` called once, before the given step; all records have reached the broker then."""
    real = getattr(sink, step)

    def stopping(*arguments: object) -> None:
        setattr(sink, step, real)
        act()
        real(*arguments)

    setattr(sink, step, stopping)


def wait_to_be_killed() -> None:
    sys.stdout.write("waiting\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    url, stream, folder, step = sys.argv[1:]
    sink = KafkaSink(url, stream=stream)
    if step in STEPS:
        before_step(sink, step, wait_to_be_killed)
    sink.open()
    sink.publish(delivery(Path(folder), 1))
    wait_to_be_killed()
