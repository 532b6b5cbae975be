"""CHORD's three mappings: its example, its key counts, and the contract on any axes."""

from __future__ import annotations

from math import ceil, prod

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.mapping.attribute_split import AttributeSplit
from crossroads.mapping.fit import Sample, fit
from crossroads.mapping.key_space_split import RANGES_MAX, KeySpaceSplit
from crossroads.mapping.positions import positions_of
from crossroads.mapping.selective_attribute import SelectiveAttribute
from crossroads.mapping.shares import shares_of
from crossroads.mapping.spec import MappingSpec
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import filters_from_columns, read_filters
from crossroads.testing.axes import axes
from crossroads.testing.mappings import check_mapping
from crossroads.testing.strategies import event_lists, event_table, filter_lists, schemas


def integers(count: int, most: int) -> Schema:
    names = {f"a{number}": {"type": "int", "min": 0, "max": most} for number in range(1, count + 1)}
    return Schema.from_mapping({"id": "a1", "attributes": names})


def keys_of(mapping, text):
    """SK as a set of keys: those that an event can have."""
    found = mapping.subscription_keys(parse(text, mapping.schema))
    assert not found.root
    return [key for one in found.ranges for key in range(one.low, one.high, mapping.stride)]


FIG3 = integers(2, 7)
SIGMA, EVENT = "a1 < 2 AND a2 > 3 AND a2 < 7", {"a1": 1, "a2": 6}


def test_C2_attribute_split():
    mapping = fit("attribute-split", FIG3, bits=4, hash="identity")
    assert keys_of(mapping, SIGMA) == [0b0000, 0b0001, 0b0100, 0b0101, 0b0110]
    assert mapping.event_keys(EVENT) == (0b0001,)
    by_a2 = fit("attribute-split", FIG3, bits=4, hash="identity", by=1)
    assert by_a2.event_keys(EVENT) == (0b0110,)


def test_C2_key_space_split():
    mapping = fit("key-space-split", FIG3, bits=4)
    assert keys_of(mapping, SIGMA) == [0b0010, 0b0011]
    assert mapping.event_keys(EVENT) == (0b0011,)


def test_C2_selective_attribute():
    """The document leaves it out: 2 of 8 values of a1 against 3 of 8 of a2."""
    mapping = fit("selective-attribute", FIG3, bits=4)
    assert keys_of(mapping, SIGMA) == [0b0000, 0b0001]  # attribute 0, positions 0 and 1
    assert mapping.event_keys(EVENT) == (0b0001, 0b1110)


SETTING = integers(4, 1_000_000)
DOMAIN = 1_000_001
ranges = st.tuples(*[st.tuples(st.integers(0, 10**6), st.integers(1, 30_000)) for _ in range(4)])


def place(value: int, bits: int) -> int:
    """h of the document: the domain 0 … 1,000,000 in 2**bits equal parts."""
    return value * 2**bits // DOMAIN


@given(ranges)
def test_C3_key_counts(drawn):
    """h(b) - h(a) + 1 keys per attribute, exactly: the document's ⌈r·2ᵐ/|Ω|⌉, and one more where
    the range is not aligned to the bins of keys."""
    clipped = [(low, min(low + width - 1, 10**6)) for low, width in drawn]
    text = " AND ".join(f"a{at} BETWEEN {a} AND {b}" for at, (a, b) in enumerate(clipped, 1))
    parts = [(b - a + 1) / DOMAIN for a, b in clipped]
    fine = [range(place(a, 13), place(b, 13) + 1) for a, b in clipped]
    coarse = [place(b, 3) - place(a, 3) + 1 for a, b in clipped]

    split = fit("attribute-split", SETTING, bits=13)
    assert keys_of(split, text) == sorted(
        set().union(*fine)
    )  # those of two attributes may coincide
    assert all(len(one) <= ceil(part * 2**13) + 1 for one, part in zip(fine, parts, strict=True))
    product = fit("key-space-split", SETTING, bits=13)
    assert len(keys_of(product, text)) == prod(coarse)
    assert prod(coarse) <= prod(ceil(part * 2**3) + 1 for part in parts)
    # Untagged, as the document has it.
    selective = fit("selective-attribute", SETTING, bits=13, tagged=False)
    assert keys_of(selective, text) == list(min(fine, key=len))
    assert len(min(fine, key=len)) <= ceil(2**13 * min(parts)) + 1
    event = {f"a{at}": a for at, (a, _) in enumerate(clipped, 1)}
    assert [len(one.event_keys(event)) for one in (split, product)] == [1, 1]
    assert len(selective.event_keys(event)) <= 4
    assert len(fit("selective-attribute", SETTING, bits=13).event_keys(event)) == 4


def test_C3_on_average():
    """Key-Space-Split has 1.00 keys by the formula and about 1.48 in fact; Selective-Attribute has
    at least d times fewer than Attribute-Split."""
    rng = np.random.default_rng(3)
    width = rng.integers(1, 30_001, (20_000, 4))  # up to 3% of the domain, around any centre
    low = rng.integers(0, DOMAIN, width.shape) - width // 2
    low, high = np.maximum(low, 0), np.minimum(low + width - 1, 10**6)
    columns = {f"l{at}": low[:, at] for at in range(4)} | {f"h{at}": high[:, at] for at in range(4)}
    template = " AND ".join(f"a{at + 1} BETWEEN :l{at} AND :h{at}" for at in range(4))
    table = filters_from_columns(template, pa.table(columns), SETTING)

    def mean(name, **options):
        mapping = fit(name, SETTING, bits=13, **options)
        found = mapping.keys_of_subscriptions(table)
        assert not found.root.any()
        spans = (found.high - found.low).astype(np.int64)
        return float((-(-spans // mapping.stride)).sum() / table.size)

    assert mean("key-space-split") == pytest.approx(1.48, abs=0.02)
    selective = mean("selective-attribute", tagged=False)
    assert selective == pytest.approx(0.006 * 2**13, rel=0.05)  # the narrowest of four: 0.6%
    assert mean("attribute-split") >= 4 * selective


def test_keys_fill_the_key_space():
    """ERRATA 16: 12 of 13 bits are used; shifted left, no half of the ring is left empty."""
    mapping = fit("key-space-split", SETTING, bits=13)
    last = {f"a{at}": 1_000_000 for at in range(1, 5)}
    assert mapping.event_keys(last) == ((2**12 - 1) << 1,)
    split = fit("attribute-split", SETTING, bits=20, intervals=333)
    assert split.stride == 2**20 // 333
    assert split.event_keys(last) == (332 * split.stride,)


@pytest.mark.parametrize(
    ("name", "intervals", "inside", "across"),
    [
        # Keys of a range within one interval, and of one that reaches into three of them; on four
        # attributes, where all of them count.
        ("attribute-split", 100, 1, 3),
        ("key-space-split", 5, 1, 3**4),
        ("selective-attribute", 100, 1, 3),
    ],
)
def test_discretization_maps_an_interval_to_one_key(name, intervals, inside, across):
    mapping = fit(name, SETTING, bits=13, intervals=intervals)
    assert [axis.size for axis in mapping.spec.axes] == [intervals] * 4
    width = 10**6 // intervals

    def wanted(low, high):
        return " AND ".join(f"a{at} BETWEEN {low} AND {high}" for at in range(1, 5))

    assert len(keys_of(mapping, wanted(2 * width + 1, 3 * width - 1))) == inside
    assert len(keys_of(mapping, wanted(2 * width - width // 2, 3 * width + width // 2))) == across
    places = [{f"a{at}": value for at in range(1, 5)} for value in (2 * width + 1, 3 * width - 1)]
    assert len({mapping.event_keys(event) for event in places}) == 1


@pytest.mark.parametrize(
    ("name", "positions", "bits"),
    [
        ("attribute-split", 2**13, 13),
        ("key-space-split", 2**3, 3),
        ("selective-attribute", 2**11, 11),
    ],
)
def test_more_intervals_than_keys_are_refused(name, positions, bits):
    said = f"{positions + 1:,} intervals of a1 are more than the {positions:,} positions of {bits}"
    with pytest.raises(UsageError, match=said):
        fit(name, SETTING, bits=13, intervals=positions + 1)


@pytest.mark.parametrize("name", ["attribute-split", "key-space-split", "selective-attribute"])
def test_what_wants_everything_is_at_the_root(name):
    mapping = fit(name, SETTING, bits=16)
    for text in ("TRUE", "a1 >= 0 OR a2 = 5", "a1 IS NOT NULL AND a2 > -1"):
        assert mapping.subscription_keys(parse(text, SETTING)).root
    nothing = mapping.subscription_keys(parse("a1 > 5 AND a1 < 3", SETTING))
    assert not nothing.root and nothing.ranges == ()


def test_a_partial_subscription():
    """ERRATA 3: an attribute without constraint counts as its full range."""
    partial = parse("a1 BETWEEN 5 AND 6", SETTING)
    assert fit("attribute-split", SETTING, bits=13).subscription_keys(partial).root
    assert not fit("key-space-split", SETTING, bits=13).subscription_keys(partial).root
    assert not fit("selective-attribute", SETTING, bits=13).subscription_keys(partial).root


def test_tags_keep_attributes_apart():
    """ERRATA 15: untagged, a subscription on a1 is met by an event's a2."""
    event = {"a1": 1, "a2": 999_000, "a3": 1, "a4": 1}
    filter_ = parse("a1 BETWEEN 999000 AND 999100", SETTING)

    def meet(**parameters):
        mapping = fit("selective-attribute", SETTING, bits=13, **parameters)
        keys = mapping.subscription_keys(filter_)
        return any(key in one for one in keys.ranges for key in mapping.event_keys(event))

    assert meet(tagged=False) and not meet(tagged=True)


def test_what_half_the_events_have_is_not_selective():
    """By the domain one of a million values of a1 is; by the sampled events it is not."""
    attributes = {
        "a1": {"type": "int", "min": 0, "max": 10**6},
        "a2": {"type": "int", "min": 0, "max": 99},
    }
    schema = Schema.from_mapping({"id": "a1", "attributes": attributes})
    events = event_table(schema, [{"a1": 7 if n % 2 else n, "a2": n % 100} for n in range(1000)])
    texts = [f"a1 = 7 AND a2 = {n}" for n in range(20)]
    sample = Sample(read_filters(pa.array(texts), schema), events)

    def chosen(**parameters):
        mapping = fit("selective-attribute", schema, sample, attributes=["a1", "a2"], **parameters)
        (one,) = mapping.subscription_keys(parse(texts[3], schema)).ranges
        return one.low >> mapping.spec.bits - 1  # the tag

    assert chosen() == 1 and chosen(by_domain=True) == 0


def test_wide_boxes_are_coarsened_to_few_ranges():
    mapping = fit("key-space-split", SETTING, bits=40)
    wide = parse("a1 < 900000 AND a2 < 900000 AND a3 < 900000 AND a4 = 7", SETTING)
    found = mapping.subscription_keys(wide)
    assert 0 < len(found.ranges) <= RANGES_MAX
    places = [{"a1": a, "a2": b, "a3": 5, "a4": 7} for a in (0, 899_999) for b in (3, 899_999)]
    for event in places:
        (key,) = mapping.event_keys(event)
        assert any(key in one for one in found.ranges)


@pytest.mark.parametrize("kind", [AttributeSplit, KeySpaceSplit, SelectiveAttribute])
@given(data=st.data())
def test_the_contract_on_any_axes(kind, data):
    schema = data.draw(schemas(max_attributes=3))
    chosen = data.draw(axes(schema, max_axes=3))
    needed = sum(axis.bits for axis in chosen) + 3
    bits = data.draw(st.integers(min(needed, 60), 62))
    if kind is KeySpaceSplit and sum(axis.bits for axis in chosen) > bits:
        return
    parameters = {
        "by": data.draw(st.integers(0, len(chosen) - 1)),
        "tagged": data.draw(st.booleans()),
    }
    events = data.draw(event_lists(schema, max_size=5))
    if data.draw(st.booleans()):
        positions = positions_of(event_table(schema, events), chosen)
        parameters["shares"] = shares_of(positions, [axis.size for axis in chosen]).to_json()
    mapping = kind(MappingSpec(kind.name, schema.hash, bits, chosen, parameters), schema)
    texts = data.draw(filter_lists(schema, max_alone=3))
    check_mapping(mapping, texts, events, another_process=False)


@pytest.mark.parametrize(
    ("name", "bits", "said"),
    [
        ("key-space-split", 3, "m = 3 bits are too few for 4 attributes"),
        ("hilbert", 3, "m = 3 bits are too few for 4 attributes"),
        ("selective-attribute", 2, "m = 2 bits are too few for 4 attributes"),
        ("attribute-split", 0, "m must be 1 to 62 bits, not 0"),
        ("attribute-split", 63, "m must be 1 to 62 bits, not 63"),
    ],
)
def test_impossible_parameters_are_refused(name, bits, said):
    with pytest.raises(UsageError, match=said):
        fit(name, SETTING, bits=bits)


def test_a_spec_with_too_few_bits_is_refused():
    spec = fit("key-space-split", SETTING, bits=16).spec
    for kind in (AttributeSplit, KeySpaceSplit):
        with pytest.raises(UsageError, match="m = 3 bits are too few"):
            kind(MappingSpec(kind.name, spec.schema, 3, spec.axes), SETTING)
    with pytest.raises(UsageError, match="no axis 9"):
        AttributeSplit(
            MappingSpec("attribute-split", spec.schema, 16, spec.axes, {"by": 9}), SETTING
        )
