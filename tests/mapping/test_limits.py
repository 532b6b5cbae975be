"""A mapping that would explode says so, with the numbers; one that would not says nothing."""

import numpy as np
import pyarrow as pa
import pytest

from crossroads.mapping.axes import linear_axis
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.mapping.cells import Cells
from crossroads.mapping.fit import fit
from crossroads.mapping.limits import explosion
from crossroads.mapping.positions import positions_of
from crossroads.mapping.sample import Sample
from crossroads.mapping.spec import MappingSpec
from crossroads.mapping.string_tree import StringTree
from crossroads.mapping.zones import Zones
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.model.types import INT

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema.from_mapping(
    {"id": "k", "attributes": {"k": "bigint", **dict.fromkeys(NAMES, "int")}}
)
AXES = tuple(linear_axis(name, INT, 0, 65_535, 16) for name in NAMES)


def sample_of(texts):
    rng = np.random.default_rng(4)
    columns = {name: pa.array(rng.integers(0, 65_536, 500), pa.int32()) for name in NAMES}
    events = pa.table({"k": pa.array(range(500), pa.int64()), **columns}, schema=SCHEMA.arrow)
    return Sample(read_filters(pa.array(texts), SCHEMA), events)


def wide_open(rows):
    """Ranges that take in half of each axis: every zone is in the way of many events."""
    rng = np.random.default_rng(5)
    low = rng.integers(0, 32_768, (rows, 4)).tolist()
    pairs = [zip(NAMES, row, strict=True) for row in low]
    return [" AND ".join(f"{n} BETWEEN {at} AND {at + 32_767}" for n, at in row) for row in pairs]


def fitted(kind, sample, bits=None, **options):
    boxes = boxes_of_table(sample.filters, AXES)
    parameters = kind.fit_parameters(AXES, boxes, positions_of(sample.events, AXES), **options)
    bits = bits or kind.bits_needed(AXES, parameters)
    return kind(MappingSpec(kind.name, SCHEMA.hash, bits, AXES, parameters), SCHEMA)


def test_zones_that_events_visit_by_the_hundred_are_refused_with_the_numbers():
    sample = sample_of(wide_open(4000))
    mapping = fitted(Zones, sample, zones=1024)
    offsets = mapping.keys_of_events(sample.events).offsets
    visits = f"{np.diff(offsets).mean():,.0f}"
    assert int(visits) > 64
    assert explosion(mapping, sample) == (
        f"zones: an event would visit {visits} keys on average (limit 64); take another --mapping"
    )
    assert explosion(mapping, sample, Cells(mapping.spec.bits, 1024)) == (
        f"zones: an event would visit {visits} of 1,024 cells on average (limit 64); "
        "take fewer --cells or another --mapping"
    )
    assert explosion(mapping, sample, Cells(mapping.spec.bits, 32)) is None


@pytest.mark.parametrize("kind", [Zones, StringTree])
def test_what_fits_the_data_is_not_refused(kind):
    rng = np.random.default_rng(6)
    places = rng.integers(0, 65_000, (2000, 2)).tolist()
    texts = [f"a BETWEEN {x} AND {x + 500} AND b BETWEEN {y} AND {y + 90}" for x, y in places]
    sample = sample_of(texts)
    mapping = fitted(kind, sample)
    assert explosion(mapping, sample) is None
    assert explosion(mapping, sample, Cells(mapping.spec.bits, 64)) is None


def test_ranges_cut_to_the_last_unit_in_a_large_base_are_refused_with_the_numbers():
    sample = sample_of([f"a BETWEEN {n} AND {n + 30_001}" for n in range(1, 2000, 7)])
    mapping = fitted(StringTree, sample, base=256, slack=0)
    ranges = np.diff(mapping.keys_of_subscriptions(sample.filters).offsets).mean()
    assert explosion(mapping, sample) == (
        f"string-tree: a subscription would have {ranges:,.0f} ranges of keys on average "
        "(limit 256); take another --mapping"
    )
    assert "a subscription would stand in" in explosion(mapping, sample, Cells(40, 1 << 16))
    assert explosion(fitted(StringTree, sample), sample) is None


@pytest.mark.parametrize("name", ["key-space-split", "hilbert"])
def test_wide_boxes_are_refused_where_keys_are_made_of_all_attributes(name):
    """Half of each of four axes is a sixteenth of all cells."""
    sample = sample_of(wide_open(20))
    mapping = fit(name, SCHEMA, sample, attributes=NAMES, bits=40)
    found = explosion(mapping, sample, Cells(40, 1 << 14))
    assert found.startswith(f"{name}: a subscription would ")
    assert "of 16,384 cells on average (limit 64)" in found
    assert explosion(fit(name, SCHEMA, sample, attributes=NAMES), sample) is None


def test_subscriptions_at_the_root_do_not_hide_the_others():
    few = [f"a BETWEEN {n} AND {n + 30_001}" for n in range(1, 50, 7)]
    sample = sample_of([*few, *["k > 5"] * 1000])
    mapping = fitted(StringTree, sample, base=256, slack=0)
    assert "a subscription would have" in explosion(mapping, sample)


def test_an_empty_sample_refuses_nothing():
    sample = sample_of(["FALSE"])
    empty = Sample(sample.filters, sample.events.slice(0, 0))
    for kind in (Zones, StringTree):
        assert explosion(fitted(kind, empty), empty) is None
