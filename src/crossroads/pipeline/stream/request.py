"""What a stream is asked to do, as the command line or a program says it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from crossroads.errors import SchemaError, UsageError
from crossroads.model.schema import Attribute, Schema
from crossroads.pipeline.notify import VERSION
from crossroads.pipeline.planner import Plan, check_plan
from crossroads.pipeline.stream.callbacksink import Told
from crossroads.pipeline.stream.digest import SIZE_MAX
from crossroads.pipeline.stream.filesource import BATCH_BYTES
from crossroads.pipeline.stream.matchbatch import ALONE_BYTES
from crossroads.pipeline.stream.seen import UNLIMITED
from crossroads.pipeline.window import time_attribute

TRIGGER_MS = 250  # Spark looks for input at every one of them, also while there is none
TRIGGER_MAX_MS = 86_400_000
DUPLICATE_WINDOW_MS = 600_000  # a publisher that tries again does so within minutes
DIGEST_SIZE = 1_000  # unless told otherwise
RECORD_BYTES_MAX = 1 << 20  # as brokers have it: more is a mistake, or a file in the wrong place
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")

Delivered = Literal["exactly-once", "at-least-once"]


@dataclass(frozen=True, kw_only=True)
class Digesting:
    """Notifications of a subscriber are held back and sent together."""

    delay_ms: int  # at most so long
    size: int  # at most so many


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    schema: Schema | str | Path
    subscriptions: str | Path
    events: str  # a folder, or kafka://host:port/topic
    output: str | Callable[[Told], object]  # a URL of `sinkurls`, or a function
    checkpoint: str | Path
    trigger_ms: int = TRIGGER_MS
    available_now: bool = False  # take what is there, then end
    plan: Plan = "auto"
    mapping: str | None = None
    cells: int | None = None
    include: tuple[str, ...] = ()
    format: Literal["parquet", "jsonl"] = "parquet"  # of the parts in a folder
    master: str | None = None
    rejects: str | Path | None = None  # by default beside the output, or in the checkpoint
    event_time: str | None = None
    max_delay_ms: int | None = None
    duplicate_window_ms: int = DUPLICATE_WINDOW_MS  # 0: every copy notifies
    record_bytes_max: int = RECORD_BYTES_MAX
    batch_bytes: int = BATCH_BYTES
    alone_bytes: int = ALONE_BYTES  # batches up to this size need none of Spark's workers
    archive: str | Path | None = None
    digest: Digesting | None = None
    delivery: Delivered = "exactly-once"
    jdbc_table: str = "notifications"
    jdbc_driver: str | None = None
    console_json: bool = False
    packages: tuple[str, ...] = ()  # for Spark, by their Maven coordinates
    jars: tuple[str, ...] = ()
    spark_settings: dict[str, str] = field(default_factory=dict)


def checked_request(request: StreamRequest, schema: Schema) -> Attribute | None:
    """Refuse what cannot work; the attribute that lateness is judged by, if it is."""
    check_plan(request.plan)
    try:
        names = [schema.attribute(name).name for name in request.include]
    except SchemaError as error:
        raise UsageError(f"--include: {error.message}", hint=error.hint) from error
    for name in names:
        if name.casefold() == VERSION or names.count(name) > 1:
            raise UsageError(f"--include {name}: the notifications would have it twice")
    _check_limits(request)
    if (request.event_time is None) != (request.max_delay_ms is None):
        raise UsageError(
            "--event-time and --max-delay go together",
            hint="which attribute says when an event was, and how late it may come",
        )
    if request.event_time is None:
        return None
    return time_attribute(schema, request.event_time)


def _check_limits(request: StreamRequest) -> None:
    if not 0 < request.trigger_ms <= TRIGGER_MAX_MS:
        raise UsageError("--trigger must be between 1ms and 1d", hint="for example 250ms")
    if request.record_bytes_max < 1:
        raise UsageError("--max-record-bytes must be at least 1")
    if request.alone_bytes < 0:
        raise UsageError("--alone-bytes must be at least 0")
    if request.max_delay_ms == UNLIMITED:
        raise UsageError(
            "--max-delay unlimited means that no event is late", hint="leave out --event-time"
        )
    if request.digest is not None and not 1 <= request.digest.size <= SIZE_MAX:
        raise UsageError(f"--digest-size must be 1 to {SIZE_MAX:,}")


def duration_ms(text: str, flag: str) -> int:
    """`250ms`, `2s`, `10m`, `1h`, `7d`; `unlimited` is one too."""
    if text.strip().lower() == "unlimited":
        return UNLIMITED
    if text.strip() == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{flag} {text!r} is no duration", hint="write for example 250ms, 2s, 10m or 1h"
        )
    return int(float(found[1]) * _UNITS_MS[found[2]])
