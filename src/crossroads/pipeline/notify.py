"""Matches → notifications in the shape that was asked for, written part by part.

    pairs     event_id, subscription_id, subscriber, …included attributes
    lists     event_id, subscription_ids, …
    compact   event, subscription: ordinals, with look-up tables beside (for dense results)

With `per="subscriber"` a subscriber with several matching subscriptions is told once. Strings are
dictionaries all the way: an id is stored once per row group, whatever the number of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numba import njit

from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.index import Matches
from crossroads.model.schema import Schema
from crossroads.model.values import text_of
from crossroads.pipeline.output import part_path, replacing, write_part
from crossroads.pipeline.pairpages import (
    DICTIONARY_BYTES_MAX,
    ROWS_PER_GROUP,
    ByName,
    ByOwner,
    Names,
    PairFile,
)

Shape = Literal["pairs", "lists", "compact"]
Per = Literal["subscription", "subscriber"]
Format = Literal["parquet", "jsonl", "csv"]

NOTIFICATIONS = "notifications"
VERSION = "subscription_version"
EVENTS = "events"  # the look-up table of the compact shape
_VALUES_AT_A_TIME = 1 << 16  # that the writer packs: its own 1,024 is a third slower
_EVENT_ROWS = np.int64(1 << 32)  # an event's ordinal: split number, then row within the split


@dataclass(frozen=True)
class Notify:
    """What a notification looks like; small and picklable."""

    schema: Schema
    shape: Shape = "pairs"
    per: Per = "subscription"
    format: Format = "parquet"
    include: tuple[str, ...] = ()
    version: int | None = None  # of the subscriptions; where they change, every row says which

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the notifications, without what is included."""
        match self.shape:
            case "compact":
                return ("event", self.per)
            case "lists":
                return ("event_id", self.receiver + "s")
        return tuple(dict.fromkeys(("event_id", self.receiver, "subscriber")))

    @property
    def lookup_columns(self) -> tuple[str, ...]:
        """Of the table of events beside compact notifications; they include in its stead."""
        return ("event", "event_id") if self.shape == "compact" else ()

    @property
    def is_pairs_of_names(self) -> bool:
        """The usual output, and the largest: `PairFile` writes it several times as fast."""
        bare = not self.include and self.version is None
        return self.shape == "pairs" and self.format == "parquet" and bare

    @property
    def receiver(self) -> str:
        """The column that names who is told."""
        return "subscription_id" if self.per == "subscription" else "subscriber"


class Receivers:
    """Subscriptions and subscribers by ordinal, in the forms that the writers need."""

    def __init__(self, ids: pa.Array, subscribers: pa.Array) -> None:
        self.ids = ids
        self._whose = subscribers

    @property
    def subscribers(self) -> pa.Array:
        return self._by_subscriber.owners

    @property
    def subscriber_of(self) -> Int32Array:
        return self._by_subscriber.owner_of

    @cached_property
    def _by_id(self) -> ByName:
        return ByName(Names(self.ids))

    @cached_property
    def _by_subscriber(self) -> ByOwner:
        return ByOwner(Names(self._whose.fill_null("")), self._whose)  # the rejected have none

    @cached_property
    def _by_owner(self) -> ByName:
        return ByName(self._by_subscriber.owner_names)

    def columns(self, per: Per) -> list[ByName | ByOwner]:
        """Of pairs, after the event's id: what there is to say of the ordinals that are told.

        Always the same objects, so that pairs of several batches can share a row group.
        """
        return [self._by_owner] if per == "subscriber" else [self._by_id, self._by_subscriber]

    def told(self, matches: Matches, per: Per) -> Matches:
        """The ordinals of who is told: subscriptions, or each subscriber once."""
        if per == "subscription":
            return matches
        who = self.subscriber_of[matches.ordinals]
        return Matches(*once_per_event(matches.offsets, who, len(self.subscribers)))


@dataclass(frozen=True)
class MatchedEvents:
    """A batch of events and what they matched; on its way out, who is told (`Receivers.told`)."""

    table: pa.Table
    ids: pa.Array
    ordinals: Int64Array  # of the events, over the whole input
    matches: Matches


def event_ordinals(split: int, rows: Int64Array) -> Int64Array:
    return split * _EVENT_ROWS + rows


@njit(cache=True, nogil=True)
def once_per_event(offsets: Int64Array, who: Int32Array, size: int) -> Any:
    """The same lists without repetitions within an event."""
    seen = np.full(size, -1, np.int64)
    kept = np.empty_like(who)
    kept_offsets = np.zeros_like(offsets)
    n = 0
    for event in range(offsets.size - 1):
        for at in range(offsets[event], offsets[event + 1]):
            if seen[who[at]] != event:
                seen[who[at]] = event
                kept[n] = who[at]
                n += 1
        kept_offsets[event + 1] = n
    return kept_offsets, kept[:n].copy()


# -- tables --------------------------------------------------------------------------------------


def notification_table(notify: Notify, receivers: Receivers, events: MatchedEvents) -> pa.Table:
    """Rows of the output, where the matches say who is told."""
    told = events.matches
    if notify.shape == "lists":
        return _lists(notify, receivers, events, told)
    if notify.shape == "compact":
        event = np.repeat(events.ordinals, np.diff(told.offsets))
        return pa.table({"event": pa.array(event), notify.per: pa.array(told.ordinals)})
    row = told.events
    columns = {"event_id": _coded(row, events.ids)}
    if notify.per == "subscription":
        columns["subscription_id"] = _coded(told.ordinals, receivers.ids)
        who = receivers.subscriber_of[told.ordinals]
        columns["subscriber"] = _coded(who, receivers.subscribers)
    else:
        columns["subscriber"] = _coded(told.ordinals, receivers.subscribers)
    for name in notify.include:
        columns[name] = _spread(events.table[name], row)
    if notify.version is not None:
        columns[VERSION] = pa.repeat(pa.scalar(notify.version, pa.int64()), row.size)
    return pa.table(columns)


def _lists(notify: Notify, receivers: Receivers, events: MatchedEvents, told: Matches) -> pa.Table:
    counts = np.diff(told.offsets)
    some = np.flatnonzero(counts)
    offsets = np.concatenate([[0], np.cumsum(counts[some])]).astype(np.int32)
    names = receivers.ids if notify.per == "subscription" else receivers.subscribers
    rows = pa.array(some)
    columns = {
        "event_id": events.ids.take(rows),
        notify.receiver + "s": pa.ListArray.from_arrays(
            pa.array(offsets), _coded(told.ordinals, names)
        ),
    }
    for name in notify.include:
        columns[name] = events.table[name].take(rows)
    return pa.table(columns)


def _coded(index: Int32Array, values: pa.Array) -> pa.Array:
    """Strings by their place in a dictionary. Each row group stores its dictionary, so few rows
    take only what they use of a large one."""
    if index.size < len(values):
        used, places = np.unique(index, return_inverse=True)
        index, values = places.astype(np.int32), values.take(pa.array(used))
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), values)


def _spread(column: pa.ChunkedArray, row: Int32Array) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_string(whole.type):
        # Encoded, not taken for a dictionary as it is: a dictionary in Parquet has no NULL.
        whole = whole.dictionary_encode()
    return whole.take(pa.array(row))


# -- parts ---------------------------------------------------------------------------------------


class Part(AbstractContextManager["Part"]):
    """One part of the output, written by one task: appears whole under its name at the end,
    replacing an earlier attempt at it. Compact parts have a part of the look-up table beside,
    unless another part tells of the same events (`lookup` False)."""

    def __init__(
        self,
        staging: Path,
        number: int,
        notify: Notify,
        receivers: Receivers,
        *,
        lookup: bool = True,
    ) -> None:
        self.lookup = lookup and notify.shape == "compact"
        self.notify = notify
        self.receivers = receivers
        self.rows = 0  # of the file: a list is one row
        self.told = 0  # notifications: pairs of an event and who is told of it
        self._path = part_path(staging / NOTIFICATIONS, number, notify.format)
        self._lookup = staging / EVENTS
        self._number = number
        self._events: list[pa.Table] = []
        self._stack = ExitStack()
        self._pairs: PairFile | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._text: _TextLines | None = None

    def __enter__(self) -> Self:
        self._file: BinaryIO = self._stack.enter_context(replacing(self._path))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self.rows == 0:
            self._write(_no_events(self.notify.schema))  # a part with no rows still has columns
        if self._parquet is not None:
            self._parquet.close()
        if kind is None and self._pairs is not None:
            self._pairs.close()
        if kind is None and self.lookup:
            # Also without events: a second attempt must leave nothing of the first.
            none = _lookup_table(self.notify, _no_events(self.notify.schema))
            events = pa.concat_tables([none, *self._events])
            write_part(self._lookup, self._number, events, "parquet")  # a table to join with
        self._stack.__exit__(kind, error, trace)

    def write(self, events: MatchedEvents, receivers: Receivers | None = None) -> None:
        """`receivers`: who is meant by the ordinals, from here on, where that changes."""
        if receivers is not None:
            self.receivers = receivers
        if self.lookup:
            self._events.append(_lookup_table(self.notify, events))
        self._write(events)

    def _write(self, events: MatchedEvents) -> None:
        told = self.receivers.told(events.matches, self.notify.per)
        events = replace(events, matches=told)
        self.told += told.ordinals.size
        if self.notify.is_pairs_of_names:
            self._write_pairs(events.ids, told)
        elif self.notify.format == "parquet":
            self._write_parquet(notification_table(self.notify, self.receivers, events))
        else:
            if self._text is None:
                self._text = _TextLines(self.notify, self._file)
            self.rows += self._text.write(events, self.receivers)

    def _write_pairs(self, ids: pa.Array, told: Matches) -> None:
        if self._pairs is None:
            self._pairs = PairFile(self._file, self.notify.columns)
        self._pairs.write(ids, told, self.receivers.columns(self.notify.per))
        self.rows = self._pairs.rows

    def _write_parquet(self, table: pa.Table) -> None:
        if self._parquet is None:
            compact = self.notify.shape == "compact"
            self._parquet = pq.ParquetWriter(
                self._file,
                table.schema,
                # Names take longer to pack than to compress; ordinals compress well.
                compression="zstd" if compact else "snappy",
                compression_level=1 if compact else None,
                write_batch_size=_VALUES_AT_A_TIME,
                # Statistics of dictionary strings cost more than writing them, and ids in the
                # order of matching have no ranges to skip by.
                write_statistics=False,
                store_schema=False,
                use_dictionary=not compact,  # plain ordinals compress as well, at twice the speed
                # above pyarrow's 1 MiB, or it falls back to plain strings
                dictionary_pagesize_limit=DICTIONARY_BYTES_MAX,
            )
        if table.num_rows or self.rows == 0:
            self._parquet.write_table(table, row_group_size=ROWS_PER_GROUP)
        self.rows += table.num_rows


def _lookup_table(notify: Notify, events: MatchedEvents) -> pa.Table:
    columns = {"event": pa.array(events.ordinals), "event_id": events.ids}
    for name in notify.include:
        columns[name] = events.table[name]
    return pa.table(columns)


def _no_events(schema: Schema) -> MatchedEvents:
    empty = np.empty(0, np.int64)
    matches = Matches(np.zeros(1, np.int64), np.empty(0, np.int32))
    return MatchedEvents(schema.arrow.empty_table(), pa.array([], pa.string()), empty, matches)


class _TextLines:
    """CSV and JSON lines: each line is a piece of its event and a piece of its receiver."""

    def __init__(self, notify: Notify, file: BinaryIO) -> None:
        self.notify = notify
        self.receivers: Receivers | None = None
        self.file = file
        self.json = notify.format == "jsonl"
        self.included = () if notify.shape == "compact" else notify.include
        if not self.json:
            versions = () if notify.version is None else (VERSION,)
            header = map(_cell, (*notify.columns, *self.included, *versions))
            file.write((",".join(header) + "\n").encode())

    def write(self, events: MatchedEvents, receivers: Receivers) -> int:
        told = events.matches
        if receivers is not self.receivers and self.notify.shape != "compact":
            self.receivers, self.receiver_pieces = receivers, self._receiver_pieces(receivers)
        if self.notify.shape == "lists":
            return self._write_lists(events, told)
        row = pa.array(told.events)
        lines = pc.binary_join_element_wise(
            pa.array(self._beginnings(events), pa.large_string()).take(row),
            self._receivers_of(told.ordinals),
            pa.array(self._endings(events), pa.large_string()).take(row),
            pa.scalar("", pa.large_string()),
        )
        self._write_lines(lines)
        return len(lines)

    def _write_lines(self, lines: pa.Array) -> None:
        for start in range(0, len(lines), 1 << 20):
            self.file.write("".join(lines.slice(start, 1 << 20).to_pylist()).encode())

    def _beginnings(self, events: MatchedEvents) -> list[str]:
        compact = self.notify.shape == "compact"
        ids = events.ordinals.tolist() if compact else events.ids.to_pylist()
        if self.json:
            return [f'{{"{self.notify.columns[0]}":{_json(one)}' for one in ids]
        return [_cell(one) for one in ids]

    def _endings(self, events: MatchedEvents) -> list[str]:
        end = "}\n" if self.json else "\n"
        if self.notify.version is not None:
            end = self._fields((VERSION,), (self.notify.version,)) + end
        if not self.included:
            return [end] * len(events.ids)
        cells = [events.table[name].to_pylist() for name in self.included]
        return [self._fields(self.included, row) + end for row in zip(*cells, strict=True)]

    def _fields(self, names: Sequence[str], values: Sequence[Any]) -> str:
        """More fields of a line that has begun."""
        if self.json:
            pairs = zip(names, values, strict=True)
            return "".join(f",{_json(n)}:{_json(v)}" for n, v in pairs)
        return "".join("," + _cell(value) for value in values)

    def _receivers_of(self, ordinals: Int32Array) -> pa.Array:
        """The piece of each; a compact line has the ordinal itself."""
        if self.notify.shape != "compact":
            return self.receiver_pieces.take(pa.array(ordinals))
        before = f',"{self.notify.per}":' if self.json else ","
        numbers = pa.array(ordinals).cast(pa.large_string())
        nothing = pa.scalar("", pa.large_string())
        return pc.binary_join_element_wise(pa.scalar(before, pa.large_string()), numbers, nothing)

    def _receiver_pieces(self, receivers: Receivers) -> pa.Array:
        notify = self.notify
        by_subscription = notify.per == "subscription"
        names = receivers.subscribers.to_pylist()
        if notify.shape == "lists":
            names = receivers.ids.to_pylist() if by_subscription else names
            return pa.array(
                [_json(name) if self.json else name for name in names], pa.large_string()
            )
        if not by_subscription:
            return pa.array(
                [self._fields(("subscriber",), (name,)) for name in names], pa.large_string()
            )
        whose = receivers.subscribers.take(pa.array(receivers.subscriber_of)).to_pylist()
        rows = zip(receivers.ids.to_pylist(), whose, strict=True)
        pieces = [self._fields(("subscription_id", "subscriber"), row) for row in rows]
        return pa.array(pieces, pa.large_string())

    def _write_lists(self, events: MatchedEvents, told: Matches) -> int:
        begins, ends = self._beginnings(events), self._endings(events)
        names = self.receiver_pieces
        column = self.notify.receiver + "s"
        lines = []
        for event in np.flatnonzero(np.diff(told.offsets)).tolist():
            listed = names.take(pa.array(told.of(event))).to_pylist()
            if self.json:
                told_them = f',"{column}":[{",".join(listed)}]'
            else:  # a list within a cell is a JSON list
                told_them = "," + _cell(json.dumps(listed, ensure_ascii=False))
            lines.append(begins[event] + told_them + ends[event])
        self.file.write("".join(lines).encode())
        return len(lines)


def _json(value: Any) -> str:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return json.dumps(str(value))  # JSON has no such numbers
    if value is None or isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(text_of(value))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = text_of(value)
    if text == "" or any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text
