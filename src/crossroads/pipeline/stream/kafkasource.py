"""Events from a Kafka topic: Spark's connector decides which offsets make a batch, workers land it.

Landed means: written as JSON lines into a folder (`kafkalanding`), from where every plan reads it
as it reads files. A reject then names `kafka:TOPIC/PARTITION` and, as its line, the offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from crossroads.errors import CrossroadsError, InputNotShared, SourceError
from crossroads.pipeline.failures import plainly
from crossroads.pipeline.output import replacing
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.source import SPLIT_BYTES, SourceFile, Split
from crossroads.pipeline.stream.kafkacloudevents import MARK
from crossroads.pipeline.stream.kafkaconnector import ensure_connector
from crossroads.pipeline.stream.kafkalanding import RAW_CHARACTERS_MAX, REPORT, LandingFile
from crossroads.pipeline.stream.kafkaplace import KafkaPlace, parse_kafka, partitions_of
from crossroads.pipeline.stream.sources import Arrived, Cutting

RECORD_BYTES_MAX = 1 << 20  # Kafka's own limit of a record, unless brokers are told otherwise
OFFSETS_PER_BATCH = 1_000_000  # a backlog is taken in batches of this many records
_DATA_LOSS = ("KAFKA_DATA_LOSS", "data may have been lost", "OffsetOutOfRangeException")


@dataclass(frozen=True)
class KafkaSource:
    place: KafkaPlace
    starting: str = "earliest"  # or latest; only where a stream begins, not where it goes on
    offsets_per_batch: int = OFFSETS_PER_BATCH
    record_bytes_max: int = RECORD_BYTES_MAX
    packages: str | None = None  # coordinates of the connector, if not the usual ones
    jars: Path | None = None  # a folder with the connector's jars instead
    settings: Mapping[str, str] = field(default_factory=dict)  # of the Kafka client: TLS, SASL

    @staticmethod
    def of(
        url: str,
        *,
        starting: str = "earliest",
        offsets_per_batch: int = OFFSETS_PER_BATCH,
        record_bytes_max: int = RECORD_BYTES_MAX,
        packages: str | None = None,
        jars: Path | None = None,
    ) -> KafkaSource:
        return KafkaSource(
            parse_kafka(url), starting, offsets_per_batch, record_bytes_max, packages, jars
        )

    @property
    def name(self) -> str:
        return str(self.place)

    def check(self) -> None:
        # Security settings of Java's client mean nothing to this one: then Spark asks.
        if not self.settings and partitions_of(self.place) is None:
            raise SourceError(
                f"there is no topic {self.place.topic!r} at {self.place.servers}",
                hint="create it, or correct the name",
            )

    def frame(self, spark: SparkSession) -> DataFrame:
        ensure_connector(spark, packages=self.packages, jars=self.jars)
        options = {
            "kafka.bootstrap.servers": self.place.servers,
            "subscribe": self.place.topic,
            "startingOffsets": self.starting,
            "maxOffsetsPerTrigger": str(self.offsets_per_batch),
            "includeHeaders": "true",  # CloudEvents may have all but their data there
            # What is gone unread is an error to be looked at, not a silence.
            "failOnDataLoss": "true",
            "groupIdPrefix": "crossroads",
            # Records of a transaction that was given up were never published.
            "kafka.isolation.level": "read_committed",
        }
        options |= {f"kafka.{name}": value for name, value in self.settings.items()}
        return spark.readStream.format("kafka").options(**options).load()

    def arrived(self, frame: DataFrame, landing: Path, cutting: Cutting) -> Arrived:
        try:
            return land(
                frame,
                landing,
                record_bytes_max=self.record_bytes_max,
                split_bytes=cutting.split_bytes,
            )
        except CrossroadsError as error:
            raise explained_loss(error.__cause__ or error, self.place) or error from error


def land(
    frame: DataFrame,
    folder: Path,
    *,
    record_bytes_max: int = RECORD_BYTES_MAX,
    split_bytes: int = SPLIT_BYTES,
) -> Arrived:
    """A batch of Kafka records as splits of JSON lines. The same batch always gives the same."""
    write = partial(
        _land_partition, folder=folder, record_bytes_max=record_bytes_max, split_bytes=split_bytes
    )
    with plainly():
        rows = (
            _selected(frame, record_bytes_max)
            .mapInArrow(write, from_arrow_schema(REPORT))
            .collect()
        )
    rows.sort(key=lambda row: (row.topic, row.partition, row.first))
    landed = [row for row in rows if row.reason is None]
    return Arrived(
        splits=[_split(number, row, folder) for number, row in enumerate(landed)],
        rejects=[
            Reject(_called(row), row.first, row.raw, row.reason)
            for row in rows
            if row.reason is not None
        ],
        files=_files(folder, sorted({row.file for row in landed})),
        oldest_ms=min((row.oldest_ms for row in landed), default=None),
    )


def _selected(frame: DataFrame, record_bytes_max: int) -> DataFrame:
    """What `LandingFile` takes. Of a value that is too large only the beginning leaves the JVM."""
    size = F.length("value")
    beginning = F.substring("value", 1, 4 * RAW_CHARACTERS_MAX)
    is_cloud_event = F.exists("headers", lambda header: header["key"] == MARK)
    return frame.select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("time_ms"),
        size.alias("bytes"),
        F.when(size > record_bytes_max, beginning).otherwise(F.col("value")).alias("value"),
        F.when(is_cloud_event, F.col("headers")).alias("headers"),
    )


def _land_partition(
    batches: Iterator[pa.RecordBatch], *, folder: Path, record_bytes_max: int, split_bytes: int
) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None
    # Named after the task: a second attempt replaces what the first one left.
    path = folder / f"part-{context.partitionId():05d}.jsonl"
    with replacing(path) as file:
        landing = LandingFile(file, path.name, record_bytes_max, split_bytes)
        for batch in batches:
            landing.add(batch)
    yield landing.finish()


def _called(row: Row) -> str:
    return f"kafka:{row.topic}/{row.partition}"


def _split(number: int, row: Row, folder: Path) -> Split:
    return Split(
        number=number,
        path=_called(row),
        place=str(folder / row.file),
        format="jsonl",
        compressed=False,
        start=row.start,
        end=row.stop,
        first_line=row.first,
    )


def _files(folder: Path, names: list[str]) -> list[SourceFile]:
    try:
        return [
            SourceFile(str(folder / name), "jsonl", False, (folder / name).stat().st_size)
            for name in names
        ]
    except FileNotFoundError as error:
        raise InputNotShared(
            f"what workers wrote to {folder} is not there where the driver runs",
            hint="put --checkpoint on a file system that all machines share",
        ) from error


def explained_loss(error: BaseException, place: KafkaPlace) -> SourceError | None:
    """The error of the connector that an operator has to decide about; None if it is another."""
    if not any(sign in str(error) for sign in _DATA_LOSS):
        return None
    return SourceError(
        f"{place} no longer has records that this stream had not read yet",
        hint="they were deleted, or kept too short; start with a new --checkpoint to go on with "
        "what is there",
    )
