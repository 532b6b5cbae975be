"""A folder of files, picked up as they arrive.

Spark's file source remembers which files were in which batch; it is asked for names and times only.
The files themselves are read as the batch job reads them, so that a broken row has its file and
line, and a file that cannot be read at all is one reject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from crossroads.errors import SourceError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.source import SourceFile, Split, plan_splits, source_file
from crossroads.pipeline.stream.filelog import files_of_last_batch
from crossroads.pipeline.stream.sources import Arrived, Cutting

# Spark forgets files older than a week before the newest one, unread ones too. We read all.
FILE_AGE_MAX = "36500d"
BATCH_BYTES = 256 << 20  # a backlog is taken in batches of about this size
_ROWS = "path string, modificationTime timestamp, length long, content binary"


@dataclass(frozen=True)
class FileSource:
    folder: Path
    schema: Schema
    batch_bytes: int = BATCH_BYTES
    archive: Path | None = None  # files of finished batches are moved there
    spark_log: Path | None = None  # Structured Streaming's checkpoint, where it can be read

    @property
    def name(self) -> str:
        return f"folder {self.folder.absolute()}"

    def check(self) -> None:
        if not self.folder.exists():
            raise SourceError(
                f"the folder of events {self.folder} does not exist",
                hint="make it, even if it is empty for now",
            )
        if not self.folder.is_dir():
            raise UsageError(
                f"{self.folder} is a file",
                hint="a stream reads a folder to which files are added; one file: crossroads match",
            )

    def frame(self, spark: SparkSession) -> DataFrame:
        reader = (
            spark.readStream.format("binaryFile")
            .schema(_ROWS)
            .option("recursiveFileLookup", "true")
            .option("maxFileAge", FILE_AGE_MAX)
            .option("maxBytesPerTrigger", str(self.batch_bytes))
        )
        if self.archive is not None:
            reader = reader.option("cleanSource", "archive").option(
                "sourceArchiveDir", self.archive.absolute().as_uri()
            )
        files = reader.load(self.folder.absolute().as_uri())
        # Not the content: nobody reads it here.
        return files.select("path", "modificationTime", "length")

    def arrived(self, frame: DataFrame, landing: Path, cutting: Cutting) -> Arrived:
        rows = None if self.spark_log is None else files_of_last_batch(self.spark_log)
        if rows is None:
            rows = [(_local(row.path), row.time_ms) for row in _timed(frame).collect()]
        paths = sorted(path for path, _ in rows)
        splits, rejects, files = splits_of(paths, self.schema, cutting)
        return Arrived(splits, rejects, files, min((time for _, time in rows), default=None))


def _timed(frame: DataFrame) -> DataFrame:
    return frame.select("path", F.unix_millis("modificationTime").alias("time_ms"))


def _local(path: str) -> str:
    """Spark writes file:/a or file:///a."""
    if not path.startswith("file:"):
        return path
    bare = path.removeprefix("file:")
    bare = "/" + bare.lstrip("/")
    return bare if Path(bare).exists() else unquote(bare)


def splits_of(
    paths: Sequence[str], schema: Schema, cutting: Cutting
) -> tuple[list[Split], list[Reject], list[SourceFile]]:
    """File by file: one that cannot be read, or is gone, is a reject and not the end."""
    splits: list[Split] = []
    rejects: list[Reject] = []
    files: list[SourceFile] = []
    for path in paths:
        try:
            file = source_file(Path(path))
            if file.size:
                splits += plan_splits(
                    [file], schema, target_bytes=cutting.split_bytes, cores=cutting.cores
                )
                files.append(file)
        except FileNotFoundError:
            rejects.append(Reject(path, 0, "", "the file was removed before it was read"))
        except OSError as error:
            rejects.append(Reject(path, 0, "", f"not readable: {error.strerror or error}"))
        except SourceError as error:
            rejects.append(Reject(path, 0, "", str(error)))
    numbered = [replace(split, number=number) for number, split in enumerate(splits)]
    return numbered, rejects, files
