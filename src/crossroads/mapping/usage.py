"""How subscriptions use each dimension, and which axis would suit it.

Domains come from the schema; where it gives none, from the data, and a note says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc

from crossroads.mapping.axes import Axis, hashed_axis, linear_axis, listed_axis, text_axis
from crossroads.mapping.sample import Sample
from crossroads.mapping.scales import head_of_text
from crossroads.mapping.written import written_boxes
from crossroads.model.atoms import Dimension
from crossroads.model.columnar import TooManyAlternatives
from crossroads.model.columnkeys import backwards
from crossroads.model.filter import Filter
from crossroads.model.instantiate import instantiate
from crossroads.model.intervals import ValueSet
from crossroads.model.normal import Box, cover
from crossroads.model.schema import Attribute, Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Key, Kind, Type, Value, from_key, key_bounds, to_key
from crossroads.model.values import text_of

FILTERS_LOOKED_AT = 500  # of a sample: enough to tell 95% from 90%, a tenth of a second
ODD_TEXTS = 0.01  # of the distinct texts, at either end: they count as the first and the last
POINTS_SHARE = 0.95  # of the constraints; a hash is then better than order, which nothing asks for


@dataclass
class Usage:
    """What the sampled filters say of one dimension."""

    points: int = 0
    others: int = 0
    low: Key | None = None  # the least and greatest constants
    high: Key | None = None

    def add(self, values: ValueSet) -> None:
        if values.points:
            self.points += 1
        else:
            self.others += 1
        least, beyond = key_bounds(values.type)
        for low, end in values.intervals:
            if low != least:
                self._include(low)
            if end is not None and end != beyond:
                self._include(end - 1 if isinstance(end, int) else end)

    def _include(self, key: Key) -> None:
        self.low = key if self.low is None else min(self.low, key)
        self.high = key if self.high is None else max(self.high, key)

    @property
    def equality(self) -> bool:
        return self.points >= POINTS_SHARE * (self.points + self.others)


@dataclass(frozen=True)
class AxisPlan:
    """An axis but for its bits."""

    dimension: Dimension
    type: Type
    kind: str  # "linear", "listed", "text" or "hashed"
    low: Value = None
    high: Value = None
    heads: tuple[int, int] = (0, 2**64 - 1)
    prefix: bytes = b""
    values: tuple[Key, ...] = ()
    note: str | None = None

    def axis(self, bits: int, intervals: int | None = None) -> Axis:
        name = self.dimension.attribute
        if self.kind == "listed":
            return listed_axis(name, self.type, list(self.values), bits)
        if self.kind == "text":
            return text_axis(self.dimension, self.type, *self.heads, bits, self.prefix)
        if self.kind == "hashed":
            return hashed_axis(name, self.type, bits)
        return linear_axis(name, self.type, self.low, self.high, bits, intervals)


def usages(sample: Sample) -> dict[Dimension, Usage]:
    found: dict[Dimension, Usage] = defaultdict(Usage)
    for filter_ in _some_filters(sample.filters):
        for box in _boxes(filter_):
            for dimension, values in box.items():
                if values.intervals != (key_bounds(values.type),):
                    found[dimension].add(values)
    return dict(found)


def _boxes(filter_: Filter) -> list[Box]:
    try:
        return written_boxes(filter_)
    except TooManyAlternatives:
        return [one.box for one in cover(filter_).alternatives]


def _some_filters(table: FilterTable) -> Iterator[Filter]:
    """Of every shape its part, from all over the table."""
    step = max(1, table.size // FILTERS_LOOKED_AT)
    for group in table.groups:
        for at in range(0, group.rows.size, step):
            yield instantiate(group, at)
    yield from list(table.singles.values())[::step]


# -- plans -----------------------------------------------------------------------------------------


def axis_plan(
    schema: Schema, dimension: Dimension, usage: Usage | None, events: pa.Table | None
) -> AxisPlan | None:
    """None: nothing is known about where its values lie."""
    attribute = schema.attribute(dimension.attribute)
    type_ = attribute.type
    has_domain = attribute.min is not None and attribute.max is not None
    if attribute.values and not dimension.backwards:
        keys = tuple(to_key(type_, value) for value in attribute.values)
        return AxisPlan(dimension, type_, "listed", values=keys)
    if type_.kind is Kind.BOOLEAN:
        return AxisPlan(dimension, type_, "linear", False, True)
    if usage is not None and usage.equality and not has_domain and not dimension.backwards:
        return AxisPlan(dimension, type_, "hashed")
    if type_.is_text:
        return _text_plan(attribute, dimension, usage, events)
    return _linear_plan(attribute, usage, events)


def _linear_plan(
    attribute: Attribute, usage: Usage | None, events: pa.Table | None
) -> AxisPlan | None:
    low, high = attribute.min, attribute.max
    note = None
    if low is None or high is None:
        seen = [*_seen(attribute, events), *_constants(attribute.type, usage)]
        known = [value for value in (low, high) if value is not None]
        if not seen and len(known) < 2:
            return None
        ordered = sorted([*seen, *known], key=lambda value: to_key(attribute.type, value))
        low = ordered[0] if low is None else low
        high = ordered[-1] if high is None else high
        note = f"domain of `{attribute.name}` {_shown(low)}…{_shown(high)} taken from the data"
    return AxisPlan(Dimension(attribute.name), attribute.type, "linear", low, high, note=note)


def _seen(attribute: Attribute, events: pa.Table | None) -> list[Value]:
    """The least and greatest values of the sampled events."""
    if events is None or not events.num_rows:
        return []
    column = events.column(attribute.name)
    if attribute.type.kind is Kind.DOUBLE:
        column = column.filter(pc.is_finite(column))
    ends = pc.min_max(column).as_py()
    return [value for value in (ends["min"], ends["max"]) if value is not None]


def _constants(type_: Type, usage: Usage | None) -> list[Value]:
    if usage is None or usage.low is None or usage.high is None:
        return []
    found: list[Value] = []
    for key in (usage.low, usage.high):
        try:
            value = from_key(type_, key)
        except OverflowError:  # a moment beyond the years that Python knows
            continue
        if not isinstance(value, float) or isfinite(value):
            found.append(value)
    return found


def _shown(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else text_of(value)


def _text_plan(
    attribute: Attribute, dimension: Dimension, usage: Usage | None, events: pa.Table | None
) -> AxisPlan:
    """From the first to the last text seen, but for a few odd ones; behind what they all begin
    with, because eight bytes of `http://www.` tell nothing apart."""
    ends = _text_ends(attribute, dimension, events)
    if ends is None and usage is not None and usage.low is not None and usage.high is not None:
        ends = usage.low, usage.high
    has_domain = attribute.min is not None and attribute.max is not None
    if ends is None and has_domain and not dimension.backwards:
        ends = to_key(attribute.type, attribute.min), to_key(attribute.type, attribute.max)
    if ends is None:
        return AxisPlan(dimension, attribute.type, "text")
    low, high = ends
    assert isinstance(low, bytes) and isinstance(high, bytes)
    shared = (at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other)
    prefix = low[: next(shared, min(len(low), len(high)))]
    first, last = (head_of_text(end[len(prefix) :]) for end in (low, high))
    return AxisPlan(dimension, attribute.type, "text", heads=(first, last), prefix=prefix)


def _text_ends(
    attribute: Attribute, dimension: Dimension, events: pa.Table | None
) -> tuple[Key, Key] | None:
    if events is None or not events.num_rows:
        return None
    texts = events.column(attribute.name).unique().drop_null()
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if not len(texts):
        return None
    keys = texts.cast(pa.large_string()).cast(pa.large_binary())
    ordered = (backwards(keys) if dimension.backwards else keys).sort()
    odd = int(len(ordered) * ODD_TEXTS)
    return ordered[odd].as_py(), ordered[len(ordered) - 1 - odd].as_py()
