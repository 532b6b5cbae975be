"""The curve visits every cell once and never jumps; boxes are exactly the ranges they cut."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.mapping.contract import KeyRange
from crossroads.mapping.fit import fit
from crossroads.mapping.hilbert import Hilbert, prefix_zones
from crossroads.mapping.hilbertcurve import (
    curve_index,
    curve_indices,
    curve_range_table,
    curve_ranges,
)
from crossroads.mapping.keyranges import joined
from crossroads.mapping.spec import MappingSpec
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.testing.axes import axes
from crossroads.testing.mappings import check_mapping
from crossroads.testing.strategies import event_lists, filter_lists, schemas

CUBES = [(1, 5), (2, 4), (3, 2), (4, 2), (5, 1)]


@pytest.mark.parametrize(("dimensions", "order"), CUBES)
def test_the_curve_goes_everywhere_by_single_steps(dimensions, order):
    points = list(product(range(1 << order), repeat=dimensions))
    places = {curve_index(point, order): point for point in points}
    assert sorted(places) == list(range(len(points)))
    path = [places[index] for index in range(len(points))]
    for one, other in pairwise(path):
        assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 1


@st.composite
def boxes(draw):
    dimensions, order = draw(st.sampled_from(CUBES))
    side = st.integers(0, (1 << order) - 1)
    ends = [sorted(draw(st.tuples(side, side))) for _ in range(dimensions)]
    return [low for low, _ in ends], [high for _, high in ends], order


@given(boxes())
def test_a_box_is_exactly_the_ranges_it_cuts(box):
    low, high, order = box
    inside = product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
    held = sorted(curve_index(point, order) for point in inside)
    found = [i for start, end in curve_ranges(low, high, order) for i in range(start, end)]
    assert sorted(found) == held


@given(boxes(), st.sampled_from((1, 2, 5, 40)))
def test_few_cubes_are_a_superset(box, most):
    low, high, order = box
    found = curve_ranges(low, high, order, most)
    assert len(found) <= most
    exact = curve_ranges(low, high, order)
    wide = joined(found).ranges
    assert all(any(one.low <= a and b <= one.high for one in wide) for a, b in exact)


@given(st.lists(boxes(), min_size=1, max_size=5), st.sampled_from((1, 3, 40, 4096)))
def test_compiled_as_plain(drawn, most):
    low, _, order = drawn[0]
    same = [(a, b) for a, b, other in drawn if (len(a), other) == (len(low), order)]
    lows, highs = (np.array(ends, np.int64) for ends in zip(*same, strict=True))
    offsets, first, end = curve_range_table(lows, highs, order, most)
    for at, (a, b) in enumerate(same):
        here = slice(offsets[at], offsets[at + 1])
        ranges = list(zip(first[here].tolist(), end[here].tolist(), strict=True))
        assert sorted(ranges) == sorted(curve_ranges(a, b, order, most))
    assert curve_indices(lows, order).tolist() == [curve_index(a, order) for a, _ in same]


@given(data=st.data())
def test_the_contract_on_any_axes(data):
    schema = data.draw(schemas(max_attributes=3))
    chosen = tuple(one for one in data.draw(axes(schema, max_axes=3)) if one.bits <= 6)
    if not chosen:
        return
    least = Hilbert.code_bits_of(chosen)
    bits = data.draw(st.integers(max(1, least), least + 3))
    mapping = Hilbert(MappingSpec("hilbert", schema.hash, bits, chosen), schema)
    texts = data.draw(filter_lists(schema, max_alone=3))
    events = data.draw(event_lists(schema, max_size=5))
    check_mapping(mapping, texts, events, another_process=False)


def test_the_order_is_the_bits_of_each_attribute():
    """ERRATA 19: with k bits and d attributes the curve has order k/d, not k/2."""
    attributes = {name: {"type": "int", "min": 0, "max": 999} for name in "abc"}
    schema = Schema.from_mapping({"id": "a", "attributes": attributes})
    mapping = fit("hilbert", schema, bits=14)
    assert mapping.order == 4 and mapping.stride == 4
    (key,) = mapping.event_keys({"a": 3, "b": 500, "c": 999})
    assert key % 4 == 0 and key < 2**14


def test_ranges_are_whole_prefixes():
    attributes = {name: {"type": "int", "min": 0, "max": 255} for name in "ab"}
    schema = Schema.from_mapping({"id": "a", "attributes": attributes})
    mapping = fit("hilbert", schema, bits=17)
    quarter = mapping.subscription_keys(parse("a < 128 AND b < 128", schema))
    (one,) = quarter.ranges
    (prefix,) = prefix_zones(one, 17)
    assert prefix.length == 2 and prefix.range(17) == (one.low, one.high)
    assert [str(p) for p in prefix_zones(KeyRange(1, 8), 3)] == ["001", "01", "1"]


def test_too_many_attributes_or_too_few_bits():
    names = {f"a{n}": {"type": "int", "min": 0, "max": 9} for n in range(9)}
    schema = Schema.from_mapping({"id": "a0", "attributes": names})
    with pytest.raises(UsageError, match="at most 8 attributes, not 9"):
        fit("hilbert", schema, bits=40, attributes=list(names))
    assert len(fit("hilbert", schema, bits=40).spec.axes) == 8  # nobody asked for nine
    spec = fit("hilbert", schema, bits=16, attributes=["a0", "a1"]).spec
    with pytest.raises(UsageError, match="m = 5 bits are too few for a curve of order 4"):
        Hilbert(MappingSpec("hilbert", spec.schema, 5, spec.axes), schema)
