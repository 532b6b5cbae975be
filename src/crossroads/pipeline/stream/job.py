"""The stream: events as they come, subscriptions as they are, every pair told once.

    run_stream(StreamRequest(schema="s.toml", subscriptions="subs/", events="in/", output="out",
                             checkpoint="state"))

Spark Structured Streaming says which input makes a batch and replays it after a crash; what is done
with a batch is in `batches`. Subscriptions are followed by a thread of their own, so that taking up
a change never delays an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from crossroads.model.schema import Schema
from crossroads.pipeline.failures import plainly
from crossroads.pipeline.job import read_schema
from crossroads.pipeline.notify import Notify
from crossroads.pipeline.session import is_local, spark_session
from crossroads.pipeline.source import SPLIT_BYTES
from crossroads.pipeline.stream.batches import Batches, Draining
from crossroads.pipeline.stream.callbacksink import CallbackSink
from crossroads.pipeline.stream.card import BATCHES, SPARK, Checkpoint
from crossroads.pipeline.stream.digest import MESSAGE_COLUMNS, Digest
from crossroads.pipeline.stream.digestsink import DigestSink
from crossroads.pipeline.stream.filesource import FileSource
from crossroads.pipeline.stream.foldersink import FolderSink
from crossroads.pipeline.stream.following import Following
from crossroads.pipeline.stream.journal import Journal, Record
from crossroads.pipeline.stream.matchbatch import Matching
from crossroads.pipeline.stream.preflight import jar_files, refuse_early
from crossroads.pipeline.stream.request import StreamRequest, checked_request
from crossroads.pipeline.stream.seen import SeenWindow
from crossroads.pipeline.stream.sinkcolumns import notification_columns
from crossroads.pipeline.stream.sinks import Sink
from crossroads.pipeline.stream.sinkurls import SinkOptions, sink_for
from crossroads.pipeline.stream.sources import Source
from crossroads.pipeline.stream.subscriptionlog import SubscriptionLog
from crossroads.pipeline.stream.watching import Totals, Watcher

COMMIT_AWAITED_SECONDS = 15.0  # of Spark's, after the last batch; it takes milliseconds
LOOK_SECONDS = 0.2  # how often somebody who waits for the end looks around
# Plain files renamed into place: twice as fast as Spark's default, which counts checksums first.
FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


@dataclass(frozen=True)
class Running:
    """A stream at work; for whoever waits for it, or stops it from another thread."""

    query: StreamingQuery
    batches: Batches
    following: Following
    totals: Totals
    checkpoint: Path

    def is_active(self) -> bool:
        return bool(self.query.isActive)

    def stop(self) -> None:
        """Finish the batch at work, let Spark commit it, end."""
        self.batches.drain()
        self._await_commit()
        self.query.stop()

    def summary(self) -> dict[str, Any]:
        return {**self.totals.summary(), "subscription_version": self.following.log.current}

    def _await_commit(self) -> None:
        if self.batches.finished is None:
            return
        commit = self.checkpoint / SPARK / "commits" / str(self.batches.finished)
        until = time.monotonic() + COMMIT_AWAITED_SECONDS
        while self.query.isActive and not commit.exists() and time.monotonic() < until:
            _ended(self.query, 0.02)

    def await_end(self, look: Callable[[Running], bool]) -> None:
        """Until the stream ends or `look` says stop; raises what it failed of."""
        try:
            while not _ended(self.query, LOOK_SECONDS):
                self.following.raise_failure()
                self.batches.flush_due()
                if look(self):
                    self.stop()
                    return
        except StreamingQueryException as error:
            self._raise_cause(error)

    def _raise_cause(self, error: StreamingQueryException) -> None:
        """The error of ours, where it was one: Spark would only show its trace."""
        cause = self.batches.failure
        if isinstance(cause, Draining) or "Draining" in str(error):
            return
        if cause is not None:
            raise cause
        raise error


def _ended(query: StreamingQuery, seconds: float) -> bool:
    """Wait so long; raises what the stream failed of."""
    return bool(query.awaitTermination(seconds))  # type: ignore[arg-type]  # it takes fractions


def run_stream(
    request: StreamRequest,
    *,
    watchers: Sequence[Watcher] = (),
    look: Callable[[Running], bool] = lambda running: False,
) -> dict[str, Any]:
    """Until everything is read (`available_now`) or `look` says stop; what was done, in numbers."""
    with started(request, watchers=watchers) as running:
        running.await_end(look)
        return running.summary()


@contextmanager
def started(request: StreamRequest, *, watchers: Sequence[Watcher] = ()) -> Iterator[Running]:
    """A stream that runs while the block does."""
    schema = read_schema(request.schema)
    time_of = checked_request(request, schema)
    notify = _notify(request, schema)
    source = _source(request, schema)
    folder = Path(request.checkpoint)
    refuse_early(request, source, _output_folder(request))
    totals = Totals()
    everyone: tuple[Watcher, ...] = (totals, *watchers)
    with ExitStack() as stack, plainly():
        checkpoint = stack.enter_context(Checkpoint(folder))
        stack.enter_context(plainly())
        sink = _sink(request, notify, checkpoint, schema, source)
        if not _needs_spark(request):
            _open(sink, stack)
        journal = Journal(folder / BATCHES)
        log = _log(request, schema, folder, journal)
        following = Following(log, everyone, _reject_folder(request, folder), notify.format)
        following.take_up()  # before the first event: bad subscriptions are told at once
        spark = spark_session(request.master, settings=_settings(request))
        frame = source.frame(spark)
        if _needs_spark(request):
            _open(sink, stack)
        matching = Matching(
            spark=spark,
            schema=schema,
            notify=notify,
            log=log,
            seen=_seen(request, folder),
            time=time_of,
            record_bytes_max=request.record_bytes_max,
            scratch=_scratch(folder),
            alone_bytes=request.alone_bytes,
        )
        batches = Batches(
            source=source,
            sink=sink,
            matching=matching,
            journal=journal,
            watchers=everyone,
            scratch=matching.scratch,
            rejects=_reject_folder(request, folder),
            decide=_decider(request, log, spark),
            max_delay_ms=request.max_delay_ms,
        )
        stack.enter_context(following.running(request.trigger_ms))
        query = _start(request, frame, batches, folder)
        running = Running(query, batches, following, totals, folder)
        try:
            yield running
            batches.flush_all()
        finally:
            # Its thread is Spark's: it must not go on with the sink when the lock is given back.
            batches.drain()
            query.stop()


def _open(sink: Sink, stack: ExitStack) -> None:
    sink.open()
    stack.callback(sink.close)


def _start(request: StreamRequest, frame: Any, batches: Batches, folder: Path) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", (folder / SPARK).absolute().as_uri())
    if request.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{request.trigger_ms} milliseconds")
    query: StreamingQuery = writer.start()
    return query


# -- what a stream is made of ----------------------------------------------------------------------


def _notify(request: StreamRequest, schema: Schema) -> Notify:
    """Rows for a folder have its format; all other sinks read Parquet."""
    include = tuple(schema.attribute(name).name for name in request.include)
    # Digests are made of Parquet; it is they that have the folder's format.
    format_ = "parquet" if request.digest else _folder_format(request)
    return Notify(schema, format=format_, include=include, version=0)


def _folder_format(request: StreamRequest) -> Literal["parquet", "jsonl"]:
    to_folder = isinstance(request.output, str) and _is_folder(request.output)
    return request.format if to_folder else "parquet"


def _is_folder(to: str) -> bool:
    return isinstance(sink_for(to, SinkOptions(columns=pa.schema([]), stream="")), FolderSink)


def _needs_spark(request: StreamRequest) -> bool:
    """Whether the sink cannot even be opened without it; all others are, and refused, before."""
    return isinstance(request.output, str) and request.output.lower().startswith("jdbc:")


def _source(request: StreamRequest, schema: Schema) -> Source:
    if request.events.startswith("kafka:"):
        from crossroads.pipeline.stream.kafkasource import KafkaSource

        # Where --packages or --jars brought another connector, the session has it already.
        return KafkaSource.of(request.events, record_bytes_max=request.record_bytes_max)
    archive = None if request.archive is None else Path(request.archive)
    spark_log = Path(request.checkpoint) / SPARK
    return FileSource(Path(request.events), schema, request.batch_bytes, archive, spark_log)


def _sink(
    request: StreamRequest, notify: Notify, checkpoint: Checkpoint, schema: Schema, source: Source
) -> Sink:
    named = _made_sink(request, notify, "")
    # What waits for its digest would be forgotten by a stream that makes none.
    name = named.name if request.digest is None else f"{named.name}, in digests"
    card = checkpoint.card(schema, source.name, name)
    sink = _made_sink(request, notify, card.stream)
    if request.digest is None:
        return sink
    return DigestSink(
        sink,
        checkpoint.folder / "digest",
        Digest(request.digest.delay_ms, request.digest.size),
        notify=replace(notify, format=_folder_format(request)),
        staging=_scratch(checkpoint.folder) / "messages",
    )


def _made_sink(request: StreamRequest, notify: Notify, stream: str) -> Sink:
    if callable(request.output):
        return CallbackSink(request.output)
    options = SinkOptions(
        columns=notification_columns(notify) if request.digest is None else MESSAGE_COLUMNS,
        stream=stream,
        exactly_once=request.delivery == "exactly-once",
        as_json=request.console_json,
        jdbc_table=request.jdbc_table,
        jdbc_driver=request.jdbc_driver,
    )
    return sink_for(request.output, options)


def _log(request: StreamRequest, schema: Schema, folder: Path, journal: Journal) -> SubscriptionLog:
    """At the version of the last batch that was begun: it may have to be replayed."""
    last = journal.last()
    version = None if last is None else last.subscription_version
    return SubscriptionLog.open(
        request.subscriptions, schema, folder / "subscriptions", version=version
    )


def _seen(request: StreamRequest, folder: Path) -> SeenWindow | None:
    if request.duplicate_window_ms <= 0:
        return None
    return SeenWindow(folder / "seen", request.duplicate_window_ms)


def _scratch(folder: Path) -> Path:
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _reject_folder(request: StreamRequest, folder: Path) -> Path:
    if request.rejects is not None:
        return Path(request.rejects)
    return _output_folder(request) or folder


def _output_folder(request: StreamRequest) -> Path | None:
    if isinstance(request.output, str) and _is_folder(request.output):
        return Path(request.output.removeprefix("folder:"))
    return None


def _decider(
    request: StreamRequest, log: SubscriptionLog, spark: SparkSession
) -> Callable[[int, Record | None], Record]:
    """What a batch is recorded with. Time never goes back, whatever the machine's clock does."""
    local = is_local(spark.sparkContext.master or "")
    plan = request.plan if request.plan != "auto" else "direct" if local else "indexed"

    def decide(batch: int, before: Record | None) -> Record:
        now_ms = time.time_ns() // 1_000_000
        return Record(
            batch=batch,
            started_ms=now_ms if before is None else max(now_ms, before.started_ms),
            subscription_version=log.current,
            plan=plan,
            mapping=request.mapping,
            cells=request.cells,
            split_bytes=SPLIT_BYTES,
            cores=int(spark.sparkContext.defaultParallelism),
        )

    return decide


def _settings(request: StreamRequest) -> dict[str, str]:
    settings = {
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        # Every batch is our own; Spark's metrics of it are not looked at.
        "spark.sql.streaming.metricsEnabled": "false",
    }
    if request.packages:
        settings["spark.jars.packages"] = ",".join(request.packages)
    if request.jars:
        settings["spark.jars"] = ",".join(jar_files(request.jars))
    return {**settings, **request.spark_settings}
