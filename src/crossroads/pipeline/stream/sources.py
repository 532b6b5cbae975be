"""Where events come from: Spark says which of them make a batch, a source makes splits of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from crossroads.pipeline.raw import Reject
from crossroads.pipeline.source import SourceFile, Split


@dataclass(frozen=True)
class Arrived:
    """The input of one batch; the same whenever it is asked for again."""

    splits: list[Split]
    rejects: list[Reject] = field(default_factory=list)  # what never became part of a split
    files: list[SourceFile] = field(default_factory=list)  # that workers must see
    oldest_ms: int | None = None  # when the first of it came, since 1970


@dataclass(frozen=True)
class Cutting:
    """Into which pieces; recorded with the batch, so that a replay cuts alike."""

    split_bytes: int
    cores: int


class Source(Protocol):
    @property
    def name(self) -> str:
        """For messages, and to tell one stream's checkpoint from another's."""

    def check(self) -> None:
        """Refuse what cannot work, before Spark is started."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame."""

    def arrived(self, frame: DataFrame, landing: Path, cutting: Cutting) -> Arrived:
        """The batch that Spark hands over. `landing` is an empty folder for whoever needs one."""
