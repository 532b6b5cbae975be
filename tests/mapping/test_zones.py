"""`zones` as a mapping: the law, alone = in bulk, fitted to a sample, refusals."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.mapping.axes import hashed_axis, linear_axis, listed_axis
from crossroads.mapping.boxes import boxes_of
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.mapping.positions import positions_of
from crossroads.mapping.spec import MappingSpec
from crossroads.mapping.zone_space import meets, point_of
from crossroads.mapping.zones import Zones
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.model.types import DOUBLE, INT, STRING
from crossroads.testing.axes import axes
from crossroads.testing.mappings import check_mapping
from crossroads.testing.strategies import event_lists, event_table, filter_lists, schemas

SCHEMA = Schema.from_mapping(
    {"id": "k", "attributes": {"k": "bigint", "x": "int", "y": "int", "s": "string"}}
)
AXES = (
    linear_axis("x", INT, 0, 99, 7),
    linear_axis("y", INT, 0, 99, 7),
    hashed_axis("s", STRING, 10),
)


def fitted(schema, chosen, texts, events, **options):
    boxes = boxes_of_table(read_filters(pa.array(texts, pa.string()), schema), chosen)
    sample = positions_of(event_table(schema, events), chosen)
    parameters = Zones.fit_parameters(chosen, boxes, sample, **options)
    bits = Zones.bits_needed(chosen, parameters)
    return Zones(MappingSpec("zones", schema.hash, bits, tuple(chosen), parameters), schema)


@settings(max_examples=60)
@given(st.data())
def test_the_contract_on_any_axes(data):
    schema = data.draw(schemas(max_attributes=3))
    chosen = data.draw(axes(schema))
    texts = data.draw(filter_lists(schema))
    events = data.draw(event_lists(schema, min_size=1, max_size=6))
    mapping = fitted(schema, chosen, texts, events, zones=data.draw(st.integers(1, 12)))
    check_mapping(mapping, texts, events, another_process=False)


def sampled(rng, rows):
    low = rng.integers(0, 100, (rows, 2))
    return [f"x >= {a} AND y <= {b} AND s = 's{a % 7}'" for a, b in low.tolist()]


def test_each_box_is_in_one_zone_and_zones_are_evenly_full():
    texts = sampled(np.random.default_rng(1), 4000)
    mapping = fitted(SCHEMA, AXES, texts, [], zones=16)
    table = mapping.keys_of_subscriptions(read_filters(pa.array(texts), SCHEMA))
    assert np.array_equal(np.diff(table.offsets), np.ones(4000))
    assert np.array_equal(table.high, table.low + 1)
    assert mapping.spec.bits == 4
    full = np.bincount(table.low.astype(np.int64), minlength=16)
    assert full.min() >= 100 and full.max() <= 500


def test_an_event_visits_the_zones_of_its_region_and_no_other():
    texts = sampled(np.random.default_rng(2), 500)
    mapping = fitted(SCHEMA, AXES, texts, [], zones=16)
    zones = mapping.tree.bounds([axis.size for axis in AXES])
    event = {"k": 1, "x": 40, "y": None, "s": "s3"}
    at = [axis.position(event[axis.dimension.attribute]) for axis in AXES]
    expected = [number for number, zone in enumerate(zones) if meets(zone, at, at)]
    assert list(mapping.event_keys(event)) == expected
    assert len(expected) < 16


STOCKS = Schema.from_mapping(
    {"id": "Symbol", "attributes": {"Symbol": "string", "High": "double", "Volume": "int"}}
)


def test_the_example_of_the_stock_market():
    """§5.1: {Symbol = aapl ∧ High >= 45}, and the event whose High is 18.87."""
    symbol = listed_axis("Symbol", STRING, [b"aaa", b"aapl", b"msft", b"zzzzz"], 2)
    chosen = (
        symbol,
        linear_axis("High", DOUBLE, 0.0, 500.0, 9, intervals=500),
        linear_axis("Volume", INT, 0, 310_000_000, 9),
    )
    (box,) = boxes_of(parse("Symbol = 'aapl' AND High >= 45", STOCKS), chosen)
    assert point_of(box) == (1, 1, 45, 499, 0, 511)
    texts = [f"Symbol = '{s}' AND High >= {h}" for s in ("aapl", "msft") for h in (10, 45)]
    mapping = fitted(STOCKS, chosen, texts, [], zones=4)
    event = {"Symbol": "aapl", "High": 18.87, "Volume": 1_450_600}
    zones = [mapping.tree.zone_of(boxes_of(parse(text, STOCKS), chosen)[0]) for text in texts]
    assert sorted(zones) == [0, 1, 2, 3]
    assert zones[0] in mapping.event_keys(event)
    assert zones[1] in mapping.event_keys({**event, "High": 45.0})
    assert zones[1] not in mapping.event_keys(event)


@pytest.mark.parametrize("text", ["TRUE", "contains(s, 'a')", "x > 5 OR k > 3", "s <> 'a'"])
def test_what_leaves_every_axis_open_stands_at_the_root(text):
    mapping = fitted(SCHEMA, AXES, ["x > 5", "y > 7"], [], zones=2)
    found = mapping.subscription_keys(parse(text, SCHEMA))
    assert found.root and not found.ranges


def test_what_cannot_match_is_in_no_zone():
    mapping = fitted(SCHEMA, AXES, ["x > 5", "y > 7"], [], zones=2)
    found = mapping.subscription_keys(parse("x > 5 AND x < 3", SCHEMA))
    assert not found.root and not found.ranges


def test_several_boxes_have_several_zones():
    texts = [f"x = {n}" for n in range(100)]
    mapping = fitted(SCHEMA, AXES, texts, [], zones=32)
    filter_ = parse("x IN (1, 50, 99)", SCHEMA)
    found = mapping.subscription_keys(filter_)
    assert len(found.ranges) == 3
    assert {r.low for r in found.ranges} == {
        mapping.tree.zone_of(box) for box in boxes_of(filter_, AXES)
    }


def test_zones_hot_with_events_are_to_be_copied():
    texts = [f"x = {n}" for n in range(100)]
    hot = [{"k": n, "x": 7, "y": None, "s": None} for n in range(1000)]
    mapping = fitted(SCHEMA, AXES, texts, hot, zones=32)
    copies = mapping.spec.parameters["replicas"]
    visited = mapping.event_keys(hot[0])
    assert len(copies) == mapping.tree.zones == 32
    # All events visit these; the mean of all zones is len(visited) / 32 of that, bearable is twice.
    assert {copies[zone] for zone in visited} == {math.ceil(32 / (2 * len(visited)))}
    assert {copies[zone] for zone in set(range(32)) - set(visited)} == {1}
    assert max(copies) > 1


def test_equal_samples_give_equal_specs():
    texts = sampled(np.random.default_rng(3), 300)
    one, other = (fitted(SCHEMA, AXES, texts, [], zones=16) for _ in range(2))
    assert one.spec.id == other.spec.id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zones": 0}, "zones must be 1 to 1,048,576, not 0"),
        ({"zones": 2_000_000}, "zones must be 1 to 1,048,576, not 2,000,000"),
        ({"hot_factor": 0}, "hot_factor must be more than 0"),
    ],
)
def test_impossible_parameters_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        fitted(SCHEMA, AXES, ["x > 5"], [], **options)


def test_too_few_bits_are_refused():
    mapping = fitted(SCHEMA, AXES, sampled(np.random.default_rng(1), 100), [], zones=16)
    spec = MappingSpec("zones", SCHEMA.hash, 3, AXES, mapping.spec.parameters)
    with pytest.raises(UsageError, match="m = 3 bits are too few for 16 zones"):
        Zones(spec, SCHEMA)
