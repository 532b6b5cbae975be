"""Matching inside anyone's Spark job: DataFrames in, a DataFrame out.

    from crossroads.pipeline import match
    notifications = match(events, subscriptions, "stocks.toml", include=["close"])

Lazy on the side of the events: they are read when the result is. The subscriptions are collected
and compiled at the call, so that what is wrong with them is known at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.errors import RejectedInput, SchemaError, SourceError, UsageError
from crossroads.indexfile import save_index
from crossroads.matching.index import MatchIndex
from crossroads.model.identity import event_ids
from crossroads.model.schema import Schema
from crossroads.model.types import Kind
from crossroads.pipeline.columns import ORDINAL, quoted
from crossroads.pipeline.frames import conform_frame, map_batches, spark_schema, valid_event
from crossroads.pipeline.indexed import NOTIFICATION, indexed_notifications, scratch_folder
from crossroads.pipeline.job import read_schema
from crossroads.pipeline.naive import naive_pairs
from crossroads.pipeline.subscriptions import COLUMNS, SubscriptionSet, check_rows

FramePlan = Literal["auto", "indexed", "naive"]
OnRejected = Literal["warn", "raise", "ignore"]

REASONS_SHOWN = 3  # in the warning; `check_subscriptions` gives all of them
_ID_TYPES = (T.StringType, T.CharType, T.VarcharType, T.IntegralType, T.DecimalType)
_TEXT_TYPES = (T.StringType, T.CharType, T.VarcharType)
_EVENT_ID = "_event_id"


class RejectedSubscriptions(UserWarning):
    """Some subscriptions cannot be used and match nothing."""


def match(
    events: DataFrame,
    subscriptions: DataFrame,
    schema: Schema | str | Path,
    *,
    plan: FramePlan = "auto",
    include: Sequence[str] = (),
    keep_duplicates: bool = False,
    on_rejected: OnRejected = "warn",
) -> DataFrame:
    """Every match as a row `event_id, subscription_id, subscriber`, and the `include` attributes.

    `events` has the schema's attributes as columns, in any order and case; `order.total` may be a
    column of that name or a field of a struct. `subscriptions` has the columns id, subscriber and
    filter. `schema` is a Schema or the path of its TOML file.

    Events that are not valid (NULL in an id attribute, a value outside an enumeration or an
    enforced domain, text that is no URL) match nothing. Of several events with one id one is
    matched, always the same one, whatever the order of the rows; that takes a shuffle, which
    `keep_duplicates` saves.

    Subscriptions that cannot be used are left out with a warning that counts them
    (`on_rejected="raise"` refuses, `"ignore"` says nothing); `check_subscriptions` lists them.

    `plan` is "indexed" (also "auto") or "naive", which gives the same answer slowly. The compiled
    index is a temporary file that lives as long as this process.
    """
    _choose("plan", plan, get_args(FramePlan))
    _choose("on_rejected", on_rejected, get_args(OnRejected))
    _refuse_remote(events)
    schema = read_schema(schema)
    included = _included(schema, include)
    ready = conform_frame(events, schema).where(valid_event(schema))
    if not keep_duplicates:
        ready = _once(ready, schema)
    subscribed = _checked(_collected(subscriptions), schema)
    _report(subscribed, on_rejected)
    if plan == "naive":
        return _naive(ready, subscribed, schema, included)
    return indexed_notifications(ready, _index_file(subscribed, schema), schema, include=included)


def check_subscriptions(subscriptions: DataFrame, schema: Schema | str | Path) -> DataFrame:
    """The subscriptions that `match` would reject: `id, subscriber, filter, reason`."""
    rows = _collected(subscriptions)
    rejects = _checked(rows, read_schema(schema)).rejects
    rejected = rows.select(COLUMNS).take(pa.array([one.line - 1 for one in rejects], pa.int64()))
    reasons = pa.array([one.reason for one in rejects], pa.string())
    columns = T.StructType([T.StructField(name, T.StringType()) for name in (*COLUMNS, "reason")])
    table = rejected.append_column("reason", reasons)
    return subscriptions.sparkSession.createDataFrame(table, columns)


# -- arguments -----------------------------------------------------------------------------------


def _choose(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UsageError(f"no {what} {given!r} for DataFrames", hint=f"one of {', '.join(known)}")


def _refuse_remote(events: DataFrame) -> None:
    try:
        _ = events.sparkSession.sparkContext
    except PySparkException as error:
        raise UsageError(
            "matching DataFrames needs a Spark session in this process, not Spark Connect",
            hint="run the job with spark-submit or a classic session",
        ) from error


def _included(schema: Schema, include: Sequence[str]) -> list[str]:
    try:
        names = [schema.attribute(name).name for name in include]
    except SchemaError as error:
        raise UsageError(f"include: {error.message}", hint=error.hint) from error
    taken = set(NOTIFICATION)
    for name in names:
        if name.casefold() in taken:
            raise UsageError(
                f"include: there would be two columns {name!r} in the result",
                hint=f"the result has {', '.join(NOTIFICATION)} and each included attribute once",
            )
        taken.add(name.casefold())
    return names


# -- subscriptions -------------------------------------------------------------------------------


def _collected(subscriptions: DataFrame) -> pa.Table:
    """Here, as text, in the form in which files of subscriptions are read too."""
    found: dict[str, list[T.StructField]] = {}
    for field in subscriptions.schema.fields:
        found.setdefault(field.name.casefold(), []).append(field)
    columns = []
    for name in COLUMNS:
        fields = found.get(name, [])
        if len(fields) != 1:
            there = ", ".join(subscriptions.columns)
            many = "no column" if not fields else "two columns"
            raise SourceError(f"the subscriptions have {many} {name!r}", hint=f"columns: {there}")
        field = fields[0]
        if not isinstance(field.dataType, _TEXT_TYPES if name == "filter" else _ID_TYPES):
            wanted = "text" if name == "filter" else "text or a whole number"
            raise SourceError(
                f"column {field.name!r} of the subscriptions is {field.dataType.simpleString()}",
                hint=f"it should be {wanted}",
            )
        columns.append(F.col(quoted(field.name)).cast("string").alias(name))
    table = subscriptions.select(*columns).toArrow()
    places = pa.array(range(1, table.num_rows + 1), pa.int64())
    named = table.append_column("_file", pa.array([""] * table.num_rows, pa.string()))
    return named.append_column("_line", places)


def _checked(rows: pa.Table, schema: Schema) -> SubscriptionSet:
    return check_rows(rows, schema, [])


def _report(subscribed: SubscriptionSet, on_rejected: OnRejected) -> None:
    rejects = subscribed.rejects
    if not rejects or on_rejected == "ignore":
        return
    first = "; ".join(reject.reason for reject in rejects[:REASONS_SHOWN])
    more = "; …" if len(rejects) > REASONS_SHOWN else ""
    all_ = len(rejects) + subscribed.usable
    message = f"{len(rejects)} of {all_} subscriptions cannot be used: {first}{more}"
    if on_rejected == "raise":
        raise RejectedInput(message, hint="check_subscriptions lists them all")
    warnings.warn(message, RejectedSubscriptions, stacklevel=3)


def _index_file(subscribed: SubscriptionSet, schema: Schema) -> Path:
    """Named after its content: calls with the same subscriptions share it."""
    path = scratch_folder() / f"{schema.hash}-{subscribed.content_hash}.cri"
    if not path.exists():
        save_index(
            path,
            MatchIndex.build(subscribed.table),
            subscriptions=pa.table({"id": subscribed.ids, "subscriber": subscribed.subscribers}),
            subscription_version=subscribed.version,
            content_hash=subscribed.content_hash,
        )
    return path


# -- events --------------------------------------------------------------------------------------


def _once(events: DataFrame, schema: Schema) -> DataFrame:
    """One event per id: the least of them, so that a task run twice gives the same."""
    if events.isStreaming:
        raise UsageError(
            "repeated ids cannot be found in an unbounded stream", hint="say keep_duplicates=True"
        )
    keys = [
        # As text, like the id itself: -0.0 and 0.0 are two ids.
        F.col(quoted(name)).cast("string")
        if schema.attribute(name).type.kind is Kind.DOUBLE
        else F.col(quoted(name))
        for name in schema.id
    ]
    numbered = [key.alias(f"_key{at}") for at, key in enumerate(keys)]
    columns = [F.col(quoted(name)) for name in schema.names]
    least = events.groupBy(*numbered).agg(F.min(F.struct(*columns)).alias("_event"))
    return least.select(*(F.col("_event").getField(name).alias(name) for name in schema.names))


def _naive(
    events: DataFrame, subscribed: SubscriptionSet, schema: Schema, include: Sequence[str]
) -> DataFrame:
    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column(_EVENT_ID, event_ids(schema, batch))

    fields = [*spark_schema(schema).fields, T.StructField(_EVENT_ID, T.StringType())]
    identified = map_batches(events, named, T.StructType(fields))
    pairs = naive_pairs(identified, subscribed.table, keep=(_EVENT_ID, *include))
    ordinals = pa.array(range(len(subscribed.ids)), pa.int32())
    names = pa.table(
        {
            ORDINAL: ordinals,
            "subscription_id": subscribed.ids.cast(pa.string()),
            "subscriber": subscribed.subscribers.cast(pa.string()),
        }
    )
    lookup = F.broadcast(events.sparkSession.createDataFrame(names))
    return pairs.join(lookup, ORDINAL).select(
        F.col(_EVENT_ID).alias("event_id"),
        "subscription_id",
        "subscriber",
        *(F.col(quoted(name)) for name in include),
    )
