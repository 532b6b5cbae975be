"""A window of time over an archive: only events with since ≤ time < until are matched.

An event outside is no reject: it is counted and otherwise as if it were not there, so its id
repeats nobody's. The time decides before anything else is asked of a row, wherever it can be read;
so row groups of Parquet whose statistics say that they lie outside need not be read at all, and the
counts are the same with and without them. A row without a time that is valid otherwise is outside
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossroads.errors import SchemaError, UsageError
from crossroads.model.schema import Attribute, Schema
from crossroads.model.types import TIMESTAMP, Kind
from crossroads.model.values import canonical, text_of

Moment = date  # or a datetime, which is one


@dataclass(frozen=True, slots=True)
class Window:
    """Small, and pickled with every split. At least one of the bounds is there."""

    attribute: str
    since: Moment | None
    until: Moment | None

    def inside(self, times: pa.Array) -> npt.NDArray[np.bool_]:
        """Which times lie in the window; NULL does not."""
        found = times.is_valid()
        if self.since is not None:
            found = pc.and_(found, pc.greater_equal(times, pa.scalar(self.since, times.type)))
        if self.until is not None:
            found = pc.and_(found, pc.less(times, pa.scalar(self.until, times.type)))
        return np.asarray(found.fill_null(False))

    def beyond(self, low: Moment, high: Moment) -> bool:
        """Whether everything from `low` to `high` lies outside on one side."""
        return (self.since is not None and high < self.since) or (
            self.until is not None and low >= self.until
        )

    def described(self) -> dict[str, str | None]:
        return {
            "time": self.attribute,
            "since": None if self.since is None else text_of(self.since),
            "until": None if self.until is None else text_of(self.until),
        }


# -- what was asked for --------------------------------------------------------------------------


def window_of(
    schema: Schema, since: str | None, until: str | None, time: str | None
) -> Window | None:
    """The window that `--since`, `--until` and `--time` ask for; None if they ask for none."""
    if since is None and until is None:
        if time is not None:
            raise UsageError("--time says what --since and --until are about: give one of them")
        return None
    attribute = time_attribute(schema, time)
    bounds = [_moment(attribute, *one) for one in (("--since", since), ("--until", until))]
    window = Window(attribute.name, *bounds)
    if window.since is not None and window.until is not None and window.since >= window.until:
        raise UsageError(
            f"--since {since} is not before --until {until}: no event lies between",
            hint="--since belongs to the window, --until no more",
        )
    return window


def time_attributes(schema: Schema) -> list[Attribute]:
    return [one for one in schema.attributes if one.type.kind in (Kind.DATE, Kind.TIMESTAMP)]


def time_attribute(schema: Schema, asked: str | None) -> Attribute:
    """The attribute that says when an event was: the one asked for, or the only one there is."""
    known = time_attributes(schema)
    names = ", ".join(one.name for one in known)
    if asked is not None:
        try:
            found = schema.attribute(asked)
        except SchemaError as error:
            raise UsageError(f"--time: {error.message}", hint=error.hint) from error
        if found not in known:
            raise UsageError(
                f"--time {found.name}: it is {found.type}, not a date or timestamp",
                hint=f"of that kind are: {names}" if known else "the schema has none of that kind",
            )
        return found
    if not known:
        raise UsageError(f"schema {schema.name!r} has no date or timestamp to choose events by")
    if len(known) > 1:
        raise UsageError(
            f"schema {schema.name!r} has several times", hint=f"say which with --time: {names}"
        )
    return known[0]


def _moment(attribute: Attribute, flag: str, text: str | None) -> Moment | None:
    """A day, or a time where the attribute has one; a day is then its first moment, in UTC."""
    if text is None:
        return None
    try:
        found = canonical(attribute.type, text)
    except ValueError as error:
        if attribute.type.kind is Kind.DATE and _is_time(text):
            raise UsageError(
                f"{flag} {text}: {attribute.name} is a date, without a time of day",
                hint="give a day, like 2002-12-31",
            ) from error
        raise UsageError(f"{flag}: {error}") from error
    assert isinstance(found, date)
    return found


def _is_time(text: str) -> bool:
    try:
        canonical(TIMESTAMP, text)
    except ValueError:
        return False
    return True


# -- row groups of Parquet -----------------------------------------------------------------------


def skipped_groups(
    window: Window | None, schema: Schema, metadata: pq.FileMetaData, groups: Sequence[int]
) -> frozenset[int]:
    """Those that hold nothing but events outside, as far as their statistics tell."""
    if window is None:
        return frozenset()
    attribute = schema.attribute(window.attribute)
    bounded = attribute.min is not None or attribute.max is not None
    if attribute.values or (schema.enforce_domains and bounded):
        return frozenset()  # a time may be bad by itself: then its row is a reject
    wanted = attribute.name.casefold()
    places = [
        at
        for at in range(metadata.num_columns)
        if metadata.schema.column(at).path.casefold() == wanted
    ]
    if len(places) != 1 or "nano" in str(metadata.schema.column(places[0]).logical_type).lower():
        return frozenset()  # nanoseconds may be more than a timestamp holds: rejects again
    return frozenset(
        group
        for group in groups
        if _is_beyond(window, attribute, metadata.row_group(group).column(places[0]).statistics)
    )


def _is_beyond(window: Window, attribute: Attribute, statistics: pq.Statistics | None) -> bool:
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count:
        return False
    if statistics.null_count:
        return False
    try:
        low, high = (_stated(attribute, one) for one in (statistics.min, statistics.max))
    except (OverflowError, ValueError):  # beyond Python's calendar
        return False
    return low is not None and high is not None and window.beyond(low, high)


def _stated(attribute: Attribute, value: object) -> Moment | None:
    """A bound of the statistics as the attribute's own kind of value; None if it is another."""
    if attribute.type.kind is Kind.DATE:
        return value if isinstance(value, date) and not isinstance(value, datetime) else None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
