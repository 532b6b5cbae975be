"""Notifications to a Kafka topic: one record each, keyed by subscriber, exactly once.

A delivery is one transaction over all partitions of the topic, and its number is recorded in the
same transaction (`kafkaledger`): either the records are there and the number says so, or neither. A
driver that starts takes over the transactional id, which ends what a killed one left open, and then
reads the last number. Readers must ask for `isolation.level=read_committed`, or they see records
that were given up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from crossroads.errors import CrossroadsError, OutputError
from crossroads.pipeline.stream.consolesink import NOTIFICATION_ID, identified
from crossroads.pipeline.stream.kafkaledger import KafkaLedger
from crossroads.pipeline.stream.kafkaplace import (
    client_settings,
    create_topic,
    kafka_error,
    parse_kafka,
    partitions_of,
    unreachable,
)
from crossroads.pipeline.stream.sinkcolumns import MESSAGE_ID, is_digest, json_line, plain_rows
from crossroads.pipeline.stream.sinks import Delivery

PARTITIONS = 6  # of a topic that we create: subscribers are spread over them
# A transaction must end within it: at 50,000 notifications a second, 15 million. It is also how
# long readers wait behind a driver that was killed and does not come back.
TRANSACTION_SECONDS = 300
ATTEMPTS = 3  # at a delivery, when a broker goes away in the middle of it
ANSWER_SECONDS = 30.0  # for each step of a transaction: a broker may be starting again
ABORT_SECONDS = 5.0  # then the next producer's take-over does it
RECORDS_PER_POLL = 1_000  # reports of delivery pile up until somebody takes them
MESSAGE_BYTES_MAX = 64 << 20  # of the client: the topic's own limit is the one that counts

# The broker has given our transactional id to somebody else, or taken it from us for being slow.
_TAKEN_OVER = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)


class KafkaSink:
    """`exactly_once=False` sends without transactions, again whenever it is asked to."""

    def __init__(
        self,
        url: str,
        *,
        stream: str,
        exactly_once: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.place = parse_kafka(url)
        self.exactly_once = exactly_once
        self._identity = f"crossroads-{stream}"
        self._settings = dict(settings or {})
        self._ledger = KafkaLedger(self.place, stream, self._settings)
        self._last = -1  # delivery that is in; nobody else adds to them while the id is ours
        self._producer: Producer | None = None
        self._problem: KafkaError | None = None  # of a record that could not be sent

    @property
    def name(self) -> str:
        return str(self.place)

    def open(self) -> None:
        """A topic that is not there is created. From here on this driver is the only one."""
        if partitions_of(self.place, self._settings) is None:
            create_topic(self.place, PARTITIONS, self._settings)
        if self.exactly_once:
            self._ledger.open()
        self._connect()

    def has(self, number: int) -> bool:
        return self.exactly_once and number <= self._last

    def publish(self, delivery: Delivery) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            if self.has(delivery.number):
                return
            try:
                self._send(delivery)
                return
            except KafkaException as error:
                problem = self._given_up(kafka_error(error))
                if problem.code() in _TAKEN_OVER or attempt == ATTEMPTS:
                    raise self._failure(problem) from error
                self._connect()

    def close(self) -> None:
        # What is sent is flushed or committed already; the rest was given up.
        if self._producer is not None:
            self._producer.purge()
        self._producer = None

    def _connect(self) -> None:
        self.close()
        self._producer = Producer(client_settings(self.place, self._settings) | self._producing())
        if self.exactly_once:
            self._take_over()
            self._last = self._ledger.last(TRANSACTION_SECONDS)

    def _producing(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "on_delivery": self._sent,
            "delivery.report.only.error": True,
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
        }
        if self.exactly_once:
            settings |= {
                "transactional.id": self._identity,
                "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            }
        return settings

    def _send(self, delivery: Delivery) -> None:
        producer = self._producer_now
        self._problem = None
        if self.exactly_once:
            producer.begin_transaction()
        records = _records(delivery)
        while some := list(islice(records, RECORDS_PER_POLL)):
            for key, value, mark in some:
                self._produce(key, value, mark)
            producer.poll(0)
            self._raise_problem()
        self._wait_until_sent()
        if self.exactly_once:
            self._mark(delivery.number)
            self._commit()
            self._last = delivery.number

    def _produce(self, key: bytes, value: bytes, mark: bytes) -> None:
        producer = self._producer_now
        headers: dict[str, str | bytes | None] = {NOTIFICATION_ID: mark}
        while True:
            try:
                producer.produce(self.place.topic, key=key, value=value, headers=headers)
                return
            except BufferError:  # the queue is full: what is on its way goes first
                producer.poll(0.1)
                self._raise_problem()

    def _wait_until_sent(self) -> None:
        # Not flush(): when another driver has taken over it fails without saying so.
        deadline = time.monotonic() + TRANSACTION_SECONDS
        while len(self._producer_now):
            self._producer_now.poll(0.1)
            self._raise_problem()
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _take_over(self) -> None:
        """The transactional id is ours: what another process had open under it is given up."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._producer_now.init_transactions(ANSWER_SECONDS)
                return
            except KafkaException as error:
                if not kafka_error(error).retriable() or attempt == ATTEMPTS:
                    raise unreachable(self.place, error) from error

    def _mark(self, number: int) -> None:
        ledger, value = self._ledger, str(number).encode()
        self._producer_now.produce(
            ledger.place.topic, key=ledger.key, value=value, partition=ledger.partition
        )

    def _given_up(self, problem: KafkaError) -> KafkaError:
        """The reason behind a failure: what fails first is often a record, for no reason of its
        own. A driver that was replaced must learn it here, and not take over in its turn."""
        if self.exactly_once:
            try:
                self._producer_now.abort_transaction(ABORT_SECONDS)
            except KafkaException as error:
                return kafka_error(error) if kafka_error(error).fatal() else problem
        return problem

    def _commit(self) -> None:
        # Without an answer nobody knows: whoever asks again takes over first, then looks.
        self._producer_now.commit_transaction(ANSWER_SECONDS)

    def _sent(self, problem: KafkaError | None, record: object) -> None:
        if problem is not None and self._problem is None:
            self._problem = problem

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise KafkaException(self._problem)

    def _failure(self, problem: KafkaError) -> CrossroadsError:
        if problem.code() in _TAKEN_OVER:
            return OutputError(
                f"another process writes to {self.place} for this stream",
                hint="run a stream once: the later one goes on; or this batch took longer than "
                f"{TRANSACTION_SECONDS} seconds to send",
            )
        return OutputError(
            f"cannot send to {self.place}: {problem.str()}",
            hint="what was sent of this batch is not visible; it is sent again by the next run",
        )

    @property
    def _producer_now(self) -> Producer:
        assert self._producer is not None, "open() comes first"
        return self._producer


def _records(delivery: Delivery) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Key, value and id of each notification."""
    for table in delivery.tables():
        ids, keys = _ids(identified(table)), _texts(table, "subscriber")
        for key, row, mark in zip(keys, plain_rows(table), ids, strict=True):
            yield key.encode(), json_line(row).encode(), mark.encode()


def _ids(table: pa.Table) -> list[str]:
    return _texts(table, MESSAGE_ID if is_digest(table.column_names) else NOTIFICATION_ID)


def _texts(table: pa.Table, name: str) -> list[str]:
    found: list[str] = table[name].cast(pa.string()).to_pylist()
    return found
