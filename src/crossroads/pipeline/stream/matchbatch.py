"""One batch: splits in, parts in a staging folder out, by the plans of the batch job.

Plan `direct` matches with the subscriptions as they are served: levels that change by delta. The
other plans, and clusters whose workers do not see the checkpoint, take the table of the version and
go through the stages of the batch job; their index is made anew for every version.

A small batch of plan `direct` is matched in the driver: a job of Spark's takes far longer than
matching a few thousand events (decision 0022). Where a batch is matched changes none of its parts.

Repeated ids: `direct` matches first and asks afterwards, doing splits again that have some
(decision 0008). The other plans need a look at the ids before.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from crossroads.errors import OutputError
from crossroads.model.schema import Attribute, Schema
from crossroads.model.types import Kind
from crossroads.pipeline.direct import (
    Done,
    Identified,
    Task,
    identities_of,
    identity_file,
    later,
    latest_time,
    merged,
    run_splits,
    task_count,
    without_repeated,
)
from crossroads.pipeline.job import (
    MatchRequest,
    Run,
    Silent,
    Staged,
    build_index,
    match_events,
    plan_run,
    read_subscriptions,
)
from crossroads.pipeline.notify import Notify
from crossroads.pipeline.output import replacing
from crossroads.pipeline.planner import Plan
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.session import is_local
from crossroads.pipeline.sharing import Sharing, run_shared
from crossroads.pipeline.source import SourceFile, Split
from crossroads.pipeline.stream.journal import Record
from crossroads.pipeline.stream.seen import Fingerprints, Ints, SeenWindow
from crossroads.pipeline.stream.sources import Arrived
from crossroads.pipeline.stream.subscriptionlog import SubscriptionLog
from crossroads.pipeline.terms import Late, Terms

ALONE_BYTES = 1 << 20  # of input: read and matched in about the time that a job takes to start
GZIP_SAVES = 8  # times; more or less
ALONE_NOTIFICATIONS = 200_000  # of the batch before: more are written faster by all cores
STORE = "cells"  # the index store of plan keyed, kept from batch to batch


@dataclass(frozen=True)
class Matching:
    """What all batches of a stream have in common."""

    spark: SparkSession
    schema: Schema
    notify: Notify
    log: SubscriptionLog
    seen: SeenWindow | None
    time: Attribute | None
    record_bytes_max: int
    scratch: Path  # a folder of ours that outlives a batch
    alone_bytes: int = ALONE_BYTES  # batches up to this size are matched in this process

    def match(
        self, record: Record, arrived: Arrived, staging: Path, *, told_before: int = 0
    ) -> Done:
        """`told_before`: notifications of the batch before; this one is expected to be alike."""
        terms = Terms(
            record_bytes_max=self.record_bytes_max,
            time=None if self.time is None else self.time.name,
            late=late_of(record, self.time),
            forgiving=True,
        )
        splits = [replace(split, terms=terms) for split in arrived.splits]
        notify = replace(self.notify, version=record.subscription_version)
        if not splits:
            return merged([])
        if record.plan == "direct" and is_local(self.spark.sparkContext.master or ""):
            alone = fits_alone(arrived.files, told_before, self.alone_bytes)
            return merged(self._direct(record, splits, notify, staging, alone=alone))
        return self._by_stages(record, replace(arrived, splits=splits), notify, staging)

    # -- direct ------------------------------------------------------------------------------------

    def _direct(
        self, record: Record, splits: list[Split], notify: Notify, staging: Path, *, alone: bool
    ) -> list[Done]:
        place = self.log.served(record.subscription_version, record.started_ms)
        identified: Identified = "no" if self.seen is None else "fingerprints"
        task = Task(notify, place, str(staging), identified)
        context = None if alone else self.spark.sparkContext
        try:
            done = run_splits(context, splits, task)
            repeated = self._claimed(record, splits, staging)
            again = without_repeated(context, splits, task, done, repeated)
        except OSError as error:  # ours; a worker's is Spark's to report
            raise OutputError(
                f"cannot match in {staging}: {error.strerror or error}",
                hint="check the free space and the permissions of the checkpoint, then start "
                "again: nothing is lost",
            ) from error
        # The latest time is that of all events, also of those that came twice.
        return [*again, replace(merged([]), latest=merged(done).latest)]

    def _claimed(self, record: Record, splits: list[Split], staging: Path) -> dict[int, Ints]:
        if self.seen is None:
            return {}
        files = {split.number: identity_file(staging, split.number) for split in splits}
        found: dict[int, Fingerprints] = {
            number: np.load(path) for number, path in files.items() if path.exists()
        }
        return self.seen.claim(record.batch, record.started_ms, found)

    # -- the other plans ---------------------------------------------------------------------------

    def _by_stages(self, record: Record, arrived: Arrived, notify: Notify, staging: Path) -> Done:
        latest = None
        splits = arrived.splits
        if self.seen is not None or self.time is not None:
            latest = self._looked(arrived, staging)
            repeated = self._claimed(record, splits, staging)
            splits = [_without(split, repeated.get(split.number)) for split in splits]
        with ExitStack() as scratch:
            run = self._run(record, replace(arrived, splits=splits), notify, staging, scratch)
            for stage in (plan_run, read_subscriptions, build_index):
                stage(run)
            run.splits = splits
            match_events(run)
        for leftover in staging.glob("_*"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        total = merged(run.done)
        repeated_rows = sum(len(split.terms.repeated) for split in splits if split.terms)
        return replace(total, repeated=repeated_rows, latest=latest)

    def _looked(self, arrived: Arrived, staging: Path) -> int | None:
        """The ids of all events to files, where the driver finds them; the latest time."""
        context = self.spark.sparkContext
        schema = self.schema

        def attempt(sharing: Sharing) -> list[tuple[int, Fingerprints, int | None]]:
            placed = sharing.placed(arrived.splits)
            tasks = context.parallelize(placed, task_count(len(placed), context.defaultParallelism))
            return tasks.map(lambda one: _look(one.here(), schema)).collect()

        looked = run_shared(self.spark, staging, arrived.files, attempt, ship=True)
        latest: int | None = None
        for number, identities, time in looked:
            latest = later(latest, time)
            with replacing(identity_file(staging, number)) as file:
                np.save(file, identities)
        return latest

    def _run(
        self, record: Record, arrived: Arrived, notify: Notify, staging: Path, scratch: ExitStack
    ) -> Run:
        session: Future[SparkSession] = Future()
        session.set_result(self.spark)
        plan: Plan = record.plan  # type: ignore[assignment]
        request = MatchRequest(
            schema=self.schema,
            subscriptions=self._table(record),
            events=_linked(arrived, staging / "_events") if plan == "sql" else "",
            output=staging,
            plan=plan,
            mapping=record.mapping,
            cells=record.cells,
            index_store=str(self.scratch / STORE) if plan == "keyed" else None,
            keep_duplicates=True,  # they are out already, if they should be
        )
        return Run(
            request=request,
            schema=self.schema,
            notify=notify,
            output=Staged(staging),
            reporter=Silent(),
            session=session,
            scratch=scratch,
            files=arrived.files,
            splits=arrived.splits,
        )

    def _table(self, record: Record) -> Path:
        """The subscriptions of the version as a file; the one of the batch before is gone."""
        table = self.log.table_at(record.subscription_version, record.started_ms)
        path = self.scratch / "subscriptions.parquet"
        with replacing(path) as file:
            pq.write_table(table, file, compression="zstd")
        return path


def fits_alone(files: Sequence[SourceFile], told_before: int, most: int) -> bool:
    size = sum(file.size * GZIP_SAVES if file.compressed else file.size for file in files)
    return size <= most and told_before <= ALONE_NOTIFICATIONS


def _look(split: Split, schema: Schema) -> tuple[int, Fingerprints, int | None]:
    identities = [np.zeros((0, 3), np.uint64)]
    latest: int | None = None
    for batch in read_split(split, schema):
        identities.append(identities_of(batch, "fingerprints"))
        latest = later(latest, latest_time(split, batch))
    return split.number, np.concatenate(identities), latest


def _without(split: Split, repeated: Ints | None) -> Split:
    if repeated is None:
        return split
    terms = replace(split.terms or Terms(), repeated=tuple(repeated.tolist()))
    return replace(split, terms=terms)


def _linked(arrived: Arrived, folder: Path) -> Path:
    """The files of a batch as one folder, for whoever takes a sample of them."""
    folder.mkdir()
    opened = dict.fromkeys(split.opened for split in arrived.splits)
    for number, path in enumerate(opened):
        suffixes = "".join(Path(path).suffixes[-2:])
        (folder / f"{number:09d}{suffixes}").symlink_to(Path(path).absolute())
    return folder


# -- lateness --------------------------------------------------------------------------------------


def latest_until(latest: int | None, now_ms: int, time: Attribute) -> int | None:
    """No later than now, in the units of the attribute."""
    now = now_ms // 86_400_000 if time.type.kind is Kind.DATE else now_ms * 1000
    return None if latest is None else min(latest, now)


def late_before(latest: int | None, max_delay_ms: int, time: Attribute) -> str | None:
    """Events before this moment are late; None while no event has told what time it is."""
    if latest is None:
        return None
    delay = timedelta(milliseconds=max_delay_ms)
    try:
        if time.type.kind is Kind.DATE:
            return (date(1970, 1, 1) + timedelta(days=latest) - delay).isoformat()
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=latest)
        return (moment - delay).isoformat()
    except OverflowError:
        return None  # before the year 1 there is nothing


def late_of(record: Record, time: Attribute | None) -> Late | None:
    if time is None or record.late_before is None:
        return None
    if time.type.kind is Kind.DATE:
        return Late(time.name, date.fromisoformat(record.late_before))
    return Late(time.name, datetime.fromisoformat(record.late_before))
