"""Files between driver and workers: shared folders are used, where there are none Spark carries.

On one machine everyone sees the same files. On a cluster nobody can tell beforehand, and a folder
of the same name may be another folder. So the workers are asked (`beacon`): the input files must
have the size and time that the driver sees, and the output folder must hold a file that the driver
has just put there. Where they do not,

- the input files are shipped to every host once, by Spark, and read there under their own names;
- the files of each partition are brought to the driver, by Spark (`delivery`).

Not every worker can be asked: one may join later. So every task looks for itself too; one that does
not find its files fails with InputNotShared or OutputNotShared, and the plan is run again the other
way. `direct` is for shared folders only: there the error is final, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from crossroads.errors import InputNotShared, NotShared, OutputNotShared
from crossroads.pipeline.beacon import Beacon, Sight, Stamp, stamp
from crossroads.pipeline.failures import explained
from crossroads.pipeline.indexed import lasting_copy
from crossroads.pipeline.session import is_local
from crossroads.pipeline.source import SourceFile, Split

ASKED_PER_CORE = 2  # so many tasks that each executor gets one, most probably
FILES_ASKED_MAX = 1_000  # input files that are asked about: more say nothing more


# -- in a worker ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlacedSplit:
    """A split and how a worker comes to its file; small, and pickled with the task."""

    split: Split
    beacon: Beacon | None = None  # of the output folder: better missed before the work than after
    stamp: Stamp | None = None  # None: there is nothing to doubt
    shipped: str | None = None  # under this name among the files that Spark brought

    def here(self) -> Split:
        """The split with a path that can be opened where this is called."""
        require_seen(self.beacon)
        if self.shipped is not None:
            return replace(self.split, place=SparkFiles.get(self.shipped))
        if self.stamp is not None and stamp(self.split.opened) != self.stamp:
            raise _unseen_input(self.split.path)
        return self.split


def require_seen(beacon: Beacon | None) -> None:
    if beacon is not None and not beacon.is_seen():
        raise _unseen_output(beacon)


def _unseen_input(path: str) -> InputNotShared:
    return InputNotShared(
        f"a worker does not see the input file {path}",
        hint="put it where all machines see it under one name, or use --plan indexed",
    )


def _unseen_output(beacon: Beacon) -> OutputNotShared:
    return OutputNotShared(
        f"a worker does not see the output folder {beacon.folder.parent}",
        hint="choose one that all machines see under one name, or use --plan indexed",
    )


# -- in the driver -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sharing:
    """How one run passes files. As it is made by default: everything is on one machine."""

    beacon: Beacon | None = None  # None: there is nothing to doubt
    stamped: bool = False
    shipped: tuple[tuple[str, str], ...] = ()  # input files and the names Spark knows them by
    brought: bool = False  # parts come to the driver through Spark

    @staticmethod
    def of(spark: SparkSession, staging: Path) -> Sharing:
        if is_local(spark.sparkContext.master or ""):
            return Sharing()
        return Sharing(beacon=Beacon.put(staging), stamped=True)

    def placed(self, splits: Sequence[Split]) -> list[PlacedSplit]:
        names = dict(self.shipped)
        stamps = {one.path: stamp(one.opened) for one in splits} if self.stamped else {}
        beacon = None if self.brought else self.beacon
        return [
            PlacedSplit(
                replace(one, place=str(Path(one.opened).absolute())),  # workers start elsewhere
                beacon,
                stamps.get(one.path),
                names.get(one.path),
            )
            for one in splits
        ]

    def without(
        self, problem: NotShared, spark: SparkSession, files: Sequence[SourceFile]
    ) -> Sharing | None:
        """What to do about it; None if that was done already and did not help."""
        if isinstance(problem, InputNotShared) and not self.shipped:
            return replace(self, shipped=tuple((file.path, _ship(spark, file)) for file in files))
        if isinstance(problem, OutputNotShared) and not self.brought:
            return replace(self, brought=True)
        return None

    def notes(self, files: Sequence[SourceFile]) -> list[str]:
        """What the summary should say, since it costs time."""
        said = []
        if self.shipped:
            size = sum(file.size for file in files)
            said.append(f"workers do not see the input: {size:,} bytes were sent to every host")
        if self.brought:
            said.append("workers do not see the output folder: their parts came through Spark")
        return said


def _problems(
    spark: SparkSession, sharing: Sharing, files: Sequence[SourceFile]
) -> list[NotShared]:
    """What the workers there are now do not see, by a small job that asks them."""
    if sharing.beacon is None:
        return []
    asked = [str(Path(file.path).absolute()) for file in files[:FILES_ASKED_MAX]]
    sight = Sight(sharing.beacon, {path: stamp(path) for path in asked})
    context = spark.sparkContext
    count = context.defaultParallelism * ASKED_PER_CORE
    seen = context.parallelize(range(count), count).map(sight.look).collect()
    problems: list[NotShared] = []
    if not all(output for output, _ in seen):
        problems.append(_unseen_output(sharing.beacon))
    if not all(same for _, same in seen):
        problems.append(_unseen_input(files[0].path))
    return problems


def _ship(spark: SparkSession, file: SourceFile) -> str:
    """To every host, under a name that no other file has."""
    lasting = lasting_copy(Path(file.path).resolve())
    spark.sparkContext.addFile(str(lasting))
    return lasting.name


Result = TypeVar("Result")


def run_shared(
    spark: SparkSession,
    staging: Path,
    files: Sequence[SourceFile],
    plan: Callable[[Sharing], Result],
    *,
    ship: bool,
) -> Result:
    """The plan's result. Without `ship` it is tried once, for folders that must be shared."""
    sharing = Sharing.of(spark, staging)
    for unseen in _problems(spark, sharing, files):
        if not ship:
            raise unseen
        sharing = sharing.without(unseen, spark, files) or sharing
    while True:
        try:
            return plan(sharing)
        except (PySparkException, Py4JError) as error:
            problem = explained(error)
            if not ship or not isinstance(problem, NotShared):
                raise
            other = sharing.without(problem, spark, files)
            if other is None:
                raise
            sharing = other
