"""The match job: files in, an output folder out, everything accounted for.

    run_match(MatchRequest(schema="s.toml", subscriptions="subs.csv", events="in/", output="out"))

The job is the visible tuple STAGES; each stage adds to the `Run`. The output folder appears whole
at the end or not at all (`output`), and its summary.json says what was done, in numbers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from crossroads.errors import (
    OutputError,
    RejectedInput,
    SchemaError,
    SourceError,
    UsageError,
)
from crossroads.indexfile import IndexInMemory, save_index
from crossroads.matching.class_build import Empty
from crossroads.matching.class_plan import BYTES_PER_BOX_MAX
from crossroads.matching.index import MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.failures import plainly
from crossroads.pipeline.jobsummary import summary_of
from crossroads.pipeline.keyedjob import check_keys
from crossroads.pipeline.machine import available_memory, usable_cores
from crossroads.pipeline.notify import (
    NOTIFICATIONS,
    Format,
    Notify,
    Part,
    Per,
    Receivers,
    Shape,
)
from crossroads.pipeline.output import (
    OutputFolder,
    part_path,
    refuse_overlap,
    write_part,
    write_rejects,
    write_summary,
)
from crossroads.pipeline.planner import (
    WITHOUT_INDEX,
    Chosen,
    Plan,
    check_plan,
    choose_plan,
    needs_survey,
    runs_locally,
)
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.session import checked_master
from crossroads.pipeline.source import (
    SPLIT_BYTES,
    SourceFile,
    Split,
    fingerprint,
    list_files,
    plan_splits,
)
from crossroads.pipeline.subscriptions import Named, SubscriptionSet, load_subscriptions
from crossroads.pipeline.window import Window, window_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crossroads.pipeline.direct import Done
    from crossroads.pipeline.keyedset import KeyedSet
    from crossroads.pipeline.sharing import Sharing

SPLITS_PER_CORE = 4  # evens out splits that take longer than others
SPLIT_BYTES_MIN = 1 << 20  # a task costs about 10 ms: smaller pieces are mostly overhead
FINGERPRINT_BYTES_MAX = 1 << 30  # beyond this, hashing all events would cost more than it tells
# Without a single executor: long enough for a cluster to start new ones or to finish what is before
# us, short enough that nobody waits all night for machines that are gone. Spark would.
EXECUTORS_AWAITED_SECONDS = 120.0
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
SHUFFLE_PARTITIONS_UNSET = 200  # Spark's own number: nobody has chosen one
INDEX_MEMORY_SHARE = 0.125  # a large index is better off in a file: it can be paged out
INDEX_FILE = "_index.cri"  # scratch: removed before the output is committed
REJECTED_SUBSCRIPTIONS = "rejected_subscriptions"


@dataclass(frozen=True, kw_only=True)
class MatchRequest:
    """One request, as the command line or a program makes it."""

    schema: Schema | str | Path
    subscriptions: str | Path
    events: str | Path
    output: str | Path
    plan: Plan = "auto"
    shape: Shape = "pairs"
    per: Per = "subscription"
    format: Format = "parquet"
    include: tuple[str, ...] = ()
    master: str | None = None
    strict: bool = False
    keep_duplicates: bool = False
    # only events of this time, in the schema's only date or timestamp unless `time` says which
    since: str | None = None
    until: str | None = None
    time: str | None = None
    # of the plans that meet by keys
    mapping: str | None = None
    cells: int | None = None
    index_store: str | None = None


class Reporter(Protocol):
    """Told what the job is doing; the command line draws it, a program may ignore it."""

    def stage(self, name: str) -> None: ...

    def progress(self, done: int, total: int) -> None: ...


class Silent:
    def stage(self, name: str) -> None:
        """Nobody is watching."""

    def progress(self, done: int, total: int) -> None:
        """Nobody is watching."""


@dataclass(frozen=True)
class Staged:
    """Where parts are written; what becomes of them is somebody else's business."""

    staging: Path


@dataclass(kw_only=True)
class Run:
    """What one run knows so far. Stages read what earlier ones have set."""

    request: MatchRequest
    schema: Schema
    notify: Notify
    output: Staged | OutputFolder
    reporter: Reporter
    session: Future[SparkSession]
    scratch: ExitStack  # closed when the run is over, however it ends
    window: Window | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    waited: float = 0.0  # seconds, for Spark to start
    plan: Plan = "auto"
    chosen: Chosen | None = None
    files: list[SourceFile] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    events_hash: Future[str] | None = None  # None: there is too much to hash
    subscriptions: SubscriptionSet | None = None
    keyed: KeyedSet | None = None  # instead of `subscriptions`, in plan `keyed`
    load: dict[str, Any] | None = None  # of the tasks of plan `keyed`
    index: Path | None = None
    resident: bool = False  # the index is in memory
    index_bytes: int = 0
    how_shared: Sharing | None = None
    done: list[Done] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """Waited for, if it is not there yet; that is nobody's work."""
        begun = time.perf_counter()
        found = self.session.result()
        self.waited += time.perf_counter() - begun
        return found

    @property
    def subscribed(self) -> SubscriptionSet:
        assert self.subscriptions is not None
        return self.subscriptions

    @property
    def named(self) -> Named:
        """The subscriptions, whichever plan holds them."""
        return self.subscribed if self.keyed is None else self.keyed

    @property
    def sharing(self) -> Sharing:
        assert self.how_shared is not None
        return self.how_shared


Stage = Callable[[Run], None]


def run_match(request: MatchRequest, reporter: Reporter | None = None) -> dict[str, Any]:
    """Do it all; the summary, as it stands in summary.json."""
    reporter = reporter or Silent()
    schema = read_schema(request.schema)
    refuse_overlap(request.output, (request.schema, request.subscriptions, request.events))
    notify = _notify(request, schema)
    check_keys(request, schema)
    if request.master is not None:
        checked_master(request.master)
    window = window_of(schema, request.since, request.until, request.time)
    for given in (request.subscriptions, request.events):
        list_files(given)  # what is not there is said at once, before Spark starts
    with (
        OutputFolder(request.output) as output,
        _session(request) as session,
        _plainly(session),
        ExitStack() as scratch,
    ):
        run = Run(
            request=request,
            schema=schema,
            notify=notify,
            output=output,
            reporter=reporter,
            session=session,
            scratch=scratch,
            window=window,
        )
        begun = time.perf_counter()
        for name, stage in STAGES:
            reporter.stage(name)
            if session.done():
                session.result()  # no Java, too little memory: before the work, not after it
            _timed(run, name, stage)
        summary = summary_of(run)
        summary["seconds"]["total"] = round(time.perf_counter() - begun, 3)
        write_summary(output.staging, summary)
        _refuse_if_strict(run)
        output.commit()
    return run.summary


def _timed(run: Run, name: str, stage: Stage) -> None:
    """What a stage waits for Spark is counted under `spark`, whichever needs it first."""
    begun, waited = time.perf_counter(), run.waited
    stage(run)
    waited = run.waited - waited
    took = time.perf_counter() - begun - waited
    for what, seconds in ((name, took), ("spark", waited)):
        run.seconds[what] = round(run.seconds.get(what, 0.0) + seconds, 3)


def read_schema(given: Schema | str | Path) -> Schema:
    if isinstance(given, Schema):
        return given
    try:
        return Schema.from_toml(Path(given).read_text())
    except OSError as error:
        raise SourceError(f"cannot read the schema {given}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SchemaError(f"{given} is not a text file") from error
    except SchemaError as error:
        raise SchemaError(f"{given}: {error.message}", hint=error.hint) from error


def _notify(request: MatchRequest, schema: Schema) -> Notify:
    check_plan(request.plan)
    try:
        include = tuple(schema.attribute(name).name for name in request.include)
    except SchemaError as error:
        raise UsageError(f"--include: {error.message}", hint=error.hint) from error
    if len(set(include)) < len(include):
        raise UsageError("--include names an attribute twice")
    notify = Notify(schema, request.shape, request.per, request.format, include)
    for name in include:
        if name.casefold() in (*notify.columns, *notify.lookup_columns):
            raise UsageError(
                f"--include {name}: the notifications have a column of that name already",
                hint="leave it out, or rename the attribute in the schema and the events",
            )
    return notify


@contextmanager
def _session(request: MatchRequest) -> Iterator[Future[SparkSession]]:
    """Spark takes seconds to start: it does so while the subscriptions are read."""
    from crossroads.pipeline.session import spark_session

    pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
    try:
        yield pool.submit(spark_session, request.master)
    finally:
        pool.shutdown(wait=True)


@contextmanager
def _plainly(session: Future[SparkSession]) -> Iterator[None]:
    """What goes wrong inside Spark is one line of ours, and nobody waits for ever."""
    from crossroads.pipeline.watching import attended

    with plainly(), attended(session, EXECUTORS_AWAITED_SECONDS):
        yield


# -- stages --------------------------------------------------------------------------------------


def plan_run(run: Run) -> None:
    """Which plan; samples of both sides are read if it is not known yet."""
    request = run.request
    if needs_survey(request.plan) and not runs_locally(request.master):
        run.spark.range(1).count()  # how many cores there are, executors say once they are there
    run.chosen = choose_plan(
        request.plan,
        run.schema,
        request.subscriptions,
        request.events,
        master=request.master,
        mapping=request.mapping,
        cells=request.cells,
        window=run.window,
    )
    run.plan = run.chosen.plan


def read_subscriptions(run: Run) -> None:
    if run.plan == "keyed":
        return  # read by workers, and only if no index store has them
    run.subscriptions = load_subscriptions(run.request.subscriptions, run.schema)
    if run.subscriptions.rejects:
        folder = run.output.staging / REJECTED_SUBSCRIPTIONS
        write_rejects(folder, run.subscriptions.rejects, run.notify.format)


def plan_input(run: Run) -> None:
    run.files = list_files(run.request.events)
    target = _split_bytes(run.files)
    splits = plan_splits(run.files, run.schema, target, cores=usable_cores())
    run.splits = [replace(split, window=run.window) for split in splits]
    if sum(file.size for file in run.files) <= FINGERPRINT_BYTES_MAX:
        # Nothing waits for it, and compiling leaves a core free now and then.
        pool = run.scratch.enter_context(ThreadPoolExecutor(1, thread_name_prefix="hashing"))
        run.events_hash = pool.submit(fingerprint, run.files)


def _split_bytes(files: list[SourceFile]) -> int:
    size = sum(file.size for file in files)
    return max(SPLIT_BYTES_MIN, min(SPLIT_BYTES, size // (usable_cores() * SPLITS_PER_CORE)))


def build_index(run: Run) -> None:
    """Compile and store. The naive plan uses the file only for the names of the receivers."""
    if run.plan == "keyed":
        from crossroads.pipeline.keyedjob import find_or_build

        run.keyed = find_or_build(run, _split_bytes(list_files(run.request.subscriptions)))
        run.index_bytes = run.keyed.manifest.size
        return
    subscriptions = run.subscribed
    table = subscriptions.table
    if run.plan in WITHOUT_INDEX:
        table = FilterTable(run.schema, table.size)
    about: dict[str, Any] = {
        "subscriptions": pa.table(
            {"id": subscriptions.ids, "subscriber": subscriptions.subscribers}
        ),
        "subscription_version": subscriptions.version,
        "content_hash": subscriptions.content_hash,
    }
    if _goes_to_memory(run):
        memory = IndexInMemory()
        run.scratch.callback(memory.close)
        memory.save(_built(table, memory.empty), **about)
        run.index, run.index_bytes, run.resident = memory.path, memory.bytes, True
    else:
        run.index = run.output.staging / INDEX_FILE
        run.index_bytes = save_index(run.index, _built(table), durable=False, **about).bytes


def _built(table: FilterTable, empty: Empty = np.empty) -> MatchIndex:
    return MatchIndex.build(table, threads=usable_cores(), empty=empty)


def _goes_to_memory(run: Run) -> bool:
    """Only this machine needs it, and it takes little of the memory: then no disk is written to."""
    if run.plan != "direct" or not runs_locally(run.request.master):
        return False
    most = BYTES_PER_BOX_MAX * run.subscribed.table.size
    return IndexInMemory.possible() and most <= INDEX_MEMORY_SHARE * available_memory()


def start_spark(run: Run) -> None:
    """Wait for what is left of it."""
    assert run.spark is not None


def match_events(run: Run) -> None:
    from crossroads.pipeline import plans
    from crossroads.pipeline.sharing import run_shared

    def attempt(sharing: Sharing) -> list[Done]:
        run.how_shared = sharing
        return plans.RUN[run.plan](run)

    with _watched(run), _shuffles_sized(run):
        run.done = run_shared(
            run.spark, run.output.staging, run.files, attempt, ship=run.plan != "direct"
        )
    _refuse_missing_parts(run)
    if all(one.part < 0 for one in run.done):  # an answer without rows still has columns
        nobody = Receivers(pa.array([], pa.string()), pa.array([], pa.string()))
        with Part(run.output.staging, 0, run.notify, nobody):
            pass


@contextmanager
def _shuffles_sized(run: Run) -> Iterator[None]:
    """As many partitions as the input deserves: a small one is not cut into 200 tasks."""
    settings = run.spark.conf
    before = settings.get(SHUFFLE_PARTITIONS)
    if before == str(SHUFFLE_PARTITIONS_UNSET):
        cores = run.spark.sparkContext.defaultParallelism
        wanted = max(len(run.splits), cores * SPLITS_PER_CORE)
        settings.set(SHUFFLE_PARTITIONS, str(min(wanted, SHUFFLE_PARTITIONS_UNSET)))
    try:
        yield
    finally:
        settings.set(SHUFFLE_PARTITIONS, str(before))


def _refuse_missing_parts(run: Run) -> None:
    """Workers on other machines may write to a folder of the same name that is not this one."""
    folder = run.output.staging / NOTIFICATIONS
    for one in run.done:
        if one.part >= 0 and not part_path(folder, one.part, run.notify.format).exists():
            raise OutputError(
                f"a worker has written a part of the output that is not in {run.request.output}",
                hint="with --master, the output must be a folder that all machines share",
            )


def write_lookups(run: Run) -> None:
    """The tables that compact ordinals refer to, and what killed or finished tasks left over."""
    for scratch in run.output.staging.glob("_*"):
        shutil.rmtree(scratch) if scratch.is_dir() else scratch.unlink()
    for unfinished in run.output.staging.rglob(".*"):  # of workers that were killed
        unfinished.unlink(missing_ok=True)
    if run.notify.shape != "compact":
        return
    known = run.named.names()
    if run.notify.per == "subscription":
        ordinals = pa.array(range(known.num_rows), pa.int32())
        table = pa.table(
            {
                "subscription": ordinals,
                "subscription_id": known["id"],
                "subscriber": known["subscriber"],
            }
        ).filter(known["id"].is_valid())
    else:
        names = known["subscriber"].combine_chunks().dictionary_encode().dictionary
        table = pa.table(
            {"subscriber": pa.array(range(len(names)), pa.int32()), "subscriber_name": names}
        )
    folder = run.output.staging / f"{run.notify.per}s"
    write_part(folder, 0, table, "parquet")


STAGES: tuple[tuple[str, Stage], ...] = (
    ("plan", plan_run),
    ("subscriptions", read_subscriptions),
    ("input", plan_input),
    ("index", build_index),
    ("spark", start_spark),
    ("match", match_events),
    ("finish", write_lookups),
)


# -- what is said about it -----------------------------------------------------------------------


def _refuse_if_strict(run: Run) -> None:
    counts = run.summary["counts"]
    rejected = counts["subscriptions_rejected"] + counts["events_rejected"]
    if not run.request.strict or not rejected:
        return
    raise RejectedInput(
        f"{counts['subscriptions_rejected']} subscriptions and {counts['events_rejected']} events "
        f"were rejected, and --strict was given: nothing was written. First: {_first(run)}",
        hint="`crossroads check` lists every problem; without --strict the rest is matched",
    )


def _first(run: Run) -> str:
    from crossroads.pipeline.rejects import first_reject

    for folder in (REJECTED_SUBSCRIPTIONS, "rejected_events"):
        found = first_reject(run.output.staging / folder)
        if found:
            return _shown(found)
    return "unknown"


def _shown(reject: Reject) -> str:
    return f"{reject.file}:{reject.line}: {reject.reason}"


def _watched(run: Run) -> AbstractContextManager[None]:
    """Report finished tasks while the block runs."""
    from crossroads.pipeline.watching import watched

    folder = run.output.staging / NOTIFICATIONS

    def parts() -> int:
        return sum(1 for _ in folder.glob("part-*"))  # a task may write several

    return watched(run.spark.sparkContext, len(run.splits), run.reporter, parts)
