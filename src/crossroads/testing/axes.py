"""Random axes for property tests: every kind of scale, domains that leave values outside."""

from __future__ import annotations

from hypothesis import strategies as st

from crossroads.mapping.axes import (
    Axis,
    hashed_axis,
    linear_axis,
    listed_axis,
    text_axis,
)
from crossroads.mapping.scales import head_of_text
from crossroads.model.atoms import Dimension
from crossroads.model.schema import Attribute, Schema
from crossroads.model.types import to_key
from crossroads.testing import pools

_BITS = st.integers(0, 5) | st.integers(0, 31)


@st.composite
def axes(draw: st.DrawFn, schema: Schema, *, max_axes: int = 4) -> tuple[Axis, ...]:
    """One or more axes of different dimensions."""
    dimensions = [
        Dimension(attribute.name, backwards)
        for attribute in schema.attributes
        for backwards in (False, True)
        if attribute.type.is_text or not backwards
    ]
    chosen = draw(st.lists(st.sampled_from(dimensions), min_size=1, max_size=max_axes, unique=True))
    return tuple(draw(axis(schema.attribute(one.attribute), one.backwards)) for one in chosen)


@st.composite
def axis(draw: st.DrawFn, attribute: Attribute, backwards: bool = False) -> Axis:
    type_, bits = attribute.type, draw(_BITS)
    pool = [value for value in pools.pool(type_) if not _endless(value)]
    ends = sorted(draw(st.tuples(st.sampled_from(pool), st.sampled_from(pool))))  # type: ignore[type-var]
    kind = draw(st.sampled_from(("linear", "listed", "hashed")))
    intervals = draw(st.none() | st.integers(1, min(20, 1 << bits)))
    if backwards or (type_.is_text and kind == "linear"):
        texts = [str(one).encode()[:: -1 if backwards else 1] for one in ends]
        prefix = texts[0][: draw(st.integers(0, 3))]
        low, high = sorted(head_of_text(text.removeprefix(prefix)) for text in texts)
        dimension = Dimension(attribute.name, backwards)
        return text_axis(dimension, type_, low, high, bits, prefix, intervals)
    if kind == "linear":
        return linear_axis(attribute.name, type_, ends[0], ends[1], bits, intervals)
    if kind == "listed":
        listed = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=5))
        keys = [to_key(type_, one) for one in listed]
        return listed_axis(attribute.name, type_, keys, bits, intervals)
    return hashed_axis(attribute.name, type_, bits, intervals)


def _endless(value: object) -> bool:
    return isinstance(value, float) and (value != value or value in (float("inf"), -float("inf")))
