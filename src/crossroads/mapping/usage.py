"""How subscriptions use each dimension, and which axis would suit it.

Domains of numbers and moments come from the schema; where it gives none, from the data, and a note
says so. Texts are the other way round: sampled events first, then the constants of sampled filters,
and the schema only without either. An axis sees eight bytes of a text, and those between `aaa` and
`zzzzz` tell less apart than those between the texts that there are; a note says where they were
seen.
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
from crossroads.mapping.written import alternatives_of
from crossroads.model.atoms import Dimension
from crossroads.model.columnkeys import backwards
from crossroads.model.filter import Filter
from crossroads.model.instantiate import instantiate
from crossroads.model.intervals import ValueSet
from crossroads.model.schema import Attribute, Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Key, Kind, Type, Value, from_key, key_bounds, to_key
from crossroads.model.values import text_of

FILTERS_LOOKED_AT = 500  # of a sample: enough to tell 95% from 90%, a tenth of a second
ODD_TEXTS = 0.01  # of the distinct texts, at either end: they count as the first and the last
POINTS_SHARE = 0.95  # of the constraints; a hash is then better than order, which nothing asks for
SHOWN_CHARACTERS = 40  # of a text in a note, which is one line for people


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
            return listed_axis(name, self.type, list(self.values), bits, intervals)
        if self.kind == "text":
            return text_axis(self.dimension, self.type, *self.heads, bits, self.prefix, intervals)
        if self.kind == "hashed":
            return hashed_axis(name, self.type, bits, intervals)
        return linear_axis(name, self.type, self.low, self.high, bits, intervals)


def usages(sample: Sample) -> dict[Dimension, Usage]:
    found: dict[Dimension, Usage] = defaultdict(Usage)
    for filter_ in _some_filters(sample.filters):
        for box in alternatives_of(filter_):
            for dimension, values in box.items():
                if values.intervals != (key_bounds(values.type),):
                    found[dimension].add(values)
    return dict(found)


def _some_filters(table: FilterTable) -> Iterator[Filter]:
    """Of every shape its part, from all over the table."""
    step = max(1, table.size // FILTERS_LOOKED_AT)
    for group in table.groups:
        for at in range(0, group.rows.size, step):
            yield instantiate(group, at)
    yield from list(table.singles.values())[::step]


# -- plans -----------------------------------------------------------------------------------------


def domain_of(attribute: Attribute) -> tuple[Value, Value]:
    """`min` and `max`; None where the schema gives none, or none that can be divided: an infinity
    or NaN."""
    return _finite(attribute.min), _finite(attribute.max)


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not isfinite(value) else value


def axis_plan(
    schema: Schema, dimension: Dimension, usage: Usage | None, events: pa.Table | None
) -> AxisPlan | None:
    """None: nothing is known about where its values lie."""
    attribute = schema.attribute(dimension.attribute)
    type_ = attribute.type
    has_domain = None not in domain_of(attribute)
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
    low, high = domain_of(attribute)
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
        if _finite(value) is not None:
            found.append(value)
    return found


def _shown(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else text_of(value)


def _text_plan(
    attribute: Attribute, dimension: Dimension, usage: Usage | None, events: pa.Table | None
) -> AxisPlan:
    """From the first to the last text known; behind what they all begin with, because eight bytes
    of `http://www.` tell nothing apart."""
    ends = _text_ends(attribute, dimension, usage, events)
    if ends is None:
        return AxisPlan(dimension, attribute.type, "text")
    low, high = ends.low, ends.high
    shared = (at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other)
    prefix = low[: next(shared, min(len(low), len(high)))]
    first, last = (head_of_text(end[len(prefix) :]) for end in (low, high))
    return AxisPlan(
        dimension,
        attribute.type,
        "text",
        heads=(first, last),
        prefix=prefix,
        note=None if ends.seen_in is None else _text_note(dimension, ends),
    )


@dataclass(frozen=True)
class _TextEnds:
    """The first and the last text, as keys of the dimension. `seen_in` None: said by the schema."""

    low: bytes
    high: bytes
    seen_in: str | None = None


def _text_ends(
    attribute: Attribute, dimension: Dimension, usage: Usage | None, events: pa.Table | None
) -> _TextEnds | None:
    """None: nothing says where its texts lie."""
    seen = _seen_texts(attribute, dimension, events)
    if seen is not None:
        return _TextEnds(*seen, "sampled events")
    if usage is not None and isinstance(usage.low, bytes) and isinstance(usage.high, bytes):
        return _TextEnds(usage.low, usage.high, "sampled subscriptions")
    # Read backwards, they lie elsewhere.
    low, high = (None, None) if dimension.backwards else domain_of(attribute)
    if isinstance(low, str) and isinstance(high, str):
        return _TextEnds(low.encode(), high.encode())
    return None


def _seen_texts(
    attribute: Attribute, dimension: Dimension, events: pa.Table | None
) -> tuple[bytes, bytes] | None:
    """The first and the last text of the sampled events, but for a few odd ones."""
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


def _text_note(dimension: Dimension, ends: _TextEnds) -> str:
    low, high = (_shown_text(end, dimension.backwards) for end in (ends.low, ends.high))
    name = f"`{dimension.attribute}`" + (" read backwards" if dimension.backwards else "")
    return f"domain of {name} {low}…{high} taken from the {ends.seen_in}"


def _shown_text(key: bytes, turned: bool) -> str:
    # A key may end within a character: it is the end of a range of texts, not one of them.
    text = (key[::-1] if turned else key).decode(errors="replace")
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…")
