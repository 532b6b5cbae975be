"""Spark's own logs, read: what they say is what Spark's DataFrame says, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from crossroads.model.schema import Schema
from crossroads.pipeline.stream.filelog import COMPACTED_BYTES_MAX, files_of_last_batch
from crossroads.pipeline.stream.filesource import FileSource

SCHEMA = Schema.from_mapping({"id": "id", "attributes": {"id": "string"}})


def write_offset(spark: Path, batch: int, end: object, version: str = "v1") -> None:
    (spark / "offsets").mkdir(parents=True, exist_ok=True)
    text = f"{version}\n{json.dumps({'conf': {}})}\n{json.dumps({'logOffset': end})}"
    (spark / "offsets" / str(batch)).write_text(text)


def write_entry(spark: Path, name: str, *files: tuple[str, int]) -> None:
    log = spark / "sources" / "0"
    log.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"path": path, "timestamp": 5, "batchId": entry}, ensure_ascii=False)
        for path, entry in files
    )
    (log / name).write_text("\n".join(["v1", *lines]))


def test_the_files_of_the_last_batch(tmp_path: Path) -> None:
    for batch, end in ((0, 0), (1, 3)):
        write_offset(tmp_path, batch, end)
    (tmp_path / "offsets" / ".1.crc").write_text("")
    write_entry(tmp_path, "0", ("file:///in/old.csv", 0))
    write_entry(tmp_path, "1", ("file:///in/a%20b%2520.csv", 1), ("file:///in/ü.csv", 1))
    write_entry(tmp_path, "2")
    write_entry(tmp_path, "3.compact", ("file:///in/old.csv", 0), ("file:///in/c.csv", 3))
    assert files_of_last_batch(tmp_path) == [
        ("/in/a b%20.csv", 5),
        ("/in/ü.csv", 5),
        ("/in/c.csv", 5),
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda spark: (spark / "offsets" / "0").unlink(),
        lambda spark: write_offset(spark, 1, 1, version="v2"),
        lambda spark: write_offset(spark, 1, {"files": 1}),
        lambda spark: (spark / "sources" / "0" / "1").unlink(),
        lambda spark: (spark / "sources" / "0" / "1").write_text("v1\n{"),
        lambda spark: (spark / "sources" / "0" / "1").write_text('v1\n{"batchId": 1}'),
        lambda spark: (spark / "sources" / "0" / "1").write_text('v1\n["batchId"]'),
        lambda spark: write_entry(spark, "1", ("hdfs://host/in/a.csv", 1)),
        lambda spark: write_entry(spark, "1", ("file:///in/%FF.csv", 1)),
        lambda spark: write_entry(spark, "1", ("file:///in/a.csv", 2)),
    ],
)
def test_what_is_not_as_we_know_it_is_not_guessed_at(tmp_path: Path, spoil: object) -> None:
    for batch in (0, 1):
        write_offset(tmp_path, batch, batch)
        write_entry(tmp_path, str(batch), (f"file:///in/{batch}.csv", batch))
    assert files_of_last_batch(tmp_path) == [("/in/1.csv", 5)]
    spoil(tmp_path)  # type: ignore[operator]
    assert files_of_last_batch(tmp_path) is None


def test_a_long_compacted_log_is_left_to_spark(tmp_path: Path) -> None:
    write_offset(tmp_path, 0, 0)
    write_entry(tmp_path, "0.compact", ("file:///in/" + "x" * COMPACTED_BYTES_MAX, 0))
    assert files_of_last_batch(tmp_path) is None


@pytest.mark.spark
def test_as_spark_itself_says(spark: SparkSession, tmp_path: Path) -> None:
    """Batch by batch, over two compactions and a restart."""
    folder, checkpoint = tmp_path / "in", tmp_path / "spark"
    folder.mkdir()
    told: list[int] = []

    def compare(frame: DataFrame, batch: int) -> None:
        rows = frame.selectExpr("path", "unix_millis(modificationTime) AS time").collect()
        listed = {(row.path.removeprefix("file:"), row.time) for row in rows}
        assert set(files_of_last_batch(checkpoint) or ()) == listed, batch
        told.append(len(listed))

    def run() -> None:
        # A file a batch: a byte is less than any of them has.
        frame = FileSource(folder, SCHEMA, batch_bytes=1).frame(spark)
        writer = frame.writeStream.foreachBatch(compare).trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()

    for count in (12, 21):
        for number in range(count):
            (folder / f"{number} of {count}.jsonl").write_text('{"id": "1"}\n')
        run()
    assert told == [1] * 33
    assert list((checkpoint / "sources" / "0").glob("*.compact"))
