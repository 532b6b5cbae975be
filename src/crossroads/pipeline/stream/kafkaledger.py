"""Which deliveries of a stream a Kafka topic has: a record of each, in its own transaction.

They are in a topic beside it, `TOPIC.deliveries`, which is compacted: of each stream the last one
stays for good. (An offset committed in the transaction would need no topic. But brokers forget
offsets after a week, and the client hangs when it commits one to a broker that came back:
librdkafka issues 5456 and 5511.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from zlib import crc32

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from crossroads.errors import OutputError
from crossroads.pipeline.stream.kafkaplace import (
    ANSWER_SECONDS,
    KafkaPlace,
    client_settings,
    create_topic,
    partitions_of,
    unreachable,
)

SUFFIX = ".deliveries"
PARTITIONS = 16  # streams that share a topic should rarely wait for one another
SETTINGS = {
    "cleanup.policy": "compact",
    # Small, or a quiet stream's would never be compacted: only full segments are.
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "3600000",  # the marks of transactions; a day of them by default
}
NEAR_THE_END = 64  # records that are looked at first; others' and given up ones are among them


class KafkaLedger:
    """Read after a take-over only: before, a transaction of a killed driver may still be open."""

    def __init__(self, place: KafkaPlace, stream: str, settings: Mapping[str, str]) -> None:
        self.place = KafkaPlace(place.servers, place.topic + SUFFIX)
        self.key = stream.encode()
        self.partition = 0
        self._settings = settings

    def open(self) -> None:
        count = partitions_of(self.place, self._settings)
        if count is None:
            create_topic(self.place, PARTITIONS, self._settings, SETTINGS)
            count = partitions_of(self.place, self._settings) or PARTITIONS
        self.partition = crc32(self.key) % count

    def last(self, wait_seconds: float) -> int:
        """The number of the last delivery that is in; -1 if there is none."""
        deadline = time.monotonic() + wait_seconds
        try:
            # To the very end: what is committed may lie behind what another has not finished yet.
            with self._reader("read_uncommitted") as reader:
                bounds = self._bounds(reader)
            with self._reader("read_committed") as reader:
                return self._search(reader, *bounds, deadline)
        except KafkaException as error:
            raise unreachable(self.place, error) from error

    def _bounds(self, reader: Consumer) -> tuple[int, int]:
        """The first offset and the one after the last."""
        place = TopicPartition(self.place.topic, self.partition)
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return reader.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
            except KafkaException:  # a topic that is new has nobody to answer for it yet
                if time.monotonic() > deadline:
                    raise
                reader.poll(0.1)

    @contextmanager
    def _reader(self, isolation: str) -> Iterator[Consumer]:
        reader = Consumer(
            {
                **client_settings(self.place, self._settings),
                "group.id": "crossroads",  # the client wants one; nothing is committed for it
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        try:
            yield reader
        finally:
            reader.close()

    def _search(self, reader: Consumer, begin: int, end: int, deadline: float) -> int:
        """From the end backwards, in steps that grow: it is among the last, or there is none."""
        distance = NEAR_THE_END
        while True:
            start = max(begin, end - distance)
            found = self._read(reader, start, end, deadline)
            if found is not None or start == begin:
                return -1 if found is None else found
            distance *= 16

    def _read(self, reader: Consumer, start: int, end: int, deadline: float) -> int | None:
        """The last number of this stream from `start` on, if any."""
        reader.assign([TopicPartition(self.place.topic, self.partition, start)])
        found: int | None = None
        while start < end:
            message = reader.poll(max(0.0, min(1.0, deadline - time.monotonic())))
            problem = None if message is None else message.error()
            if message is not None and problem is None:
                start = (message.offset() or 0) + 1
                if message.key() == self.key:
                    found = int(message.value() or b"-1")
            elif message is not None and problem is not None and _is_end(problem):
                start = message.offset() or 0  # what comes next, if others' transactions hide it
            if start < end and time.monotonic() > deadline:
                if problem is not None and not _is_end(problem):
                    raise KafkaException(problem)
                raise OutputError(
                    f"{self.place.topic} cannot be read to its end: another stream that writes to "
                    "this topic has a transaction open",
                    hint="start that stream again, or wait until its transaction times out",
                )
        return found


def _is_end(problem: KafkaError) -> bool:
    return problem.code() == KafkaError._PARTITION_EOF
