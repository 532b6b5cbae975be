"""What a fit chooses, says and refuses; and that a spec means the same in any process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from crossroads.errors import UsageError
from crossroads.mapping.fit import MAPPINGS, Sample, fit, mapping_of, thinned
from crossroads.mapping.scales import Even, EvenDoubles, Hashed, Leading, Ranks
from crossroads.mapping.spec import MappingSpec
from crossroads.model.atoms import Dimension
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, read_filters
from crossroads.testing.mappings import check_mapping
from crossroads.testing.strategies import event_table

STOCKS = Schema.from_toml("""\
name = "stocks"
id = ["day", "symbol"]

[attributes]
day    = { type = "date", min = "1998-01-02", max = "2002-12-31" }
symbol = { type = "string" }
open   = { type = "double" }
level  = { type = "string", values = ["low", "mid", "high"] }
page   = { type = "url" }
volume = { type = "bigint", min = 0, max = 310000000 }
""")


def quotes(count: int = 200) -> pa.Table:
    symbols = ["abt", "aapl", "ibm", "xom", "zzz"]
    rows = [
        {
            "day": None if n % 50 == 0 else STOCKS.attribute("day").min.replace(day=2 + n % 20),
            "symbol": symbols[n % 5],
            "open": 1.25 + n,
            "level": ("low", "mid", "high")[n % 3],
            "page": f"http://x.org/{n}/{'abc'[n % 3]}.html",
            "volume": n * 1000,
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=STOCKS.arrow)


def sample_of(*texts: str) -> Sample:
    table = read_filters(pa.array(list(texts)), STOCKS)
    assert not table.errors
    return Sample(table, quotes())


def axis_of(name, sample, dimension):
    axes = {axis.dimension: axis for axis in fit(name, STOCKS, sample).spec.axes}
    return axes[dimension].scale


def test_an_equality_is_hashed_an_order_is_kept():
    sample = sample_of(*[f"symbol = 's{n}' AND page LIKE 'http://x.org/{n}%'" for n in range(40)])
    symbol, page = fit("key-space-split", STOCKS, sample, attributes=["symbol", "page"]).spec.axes
    assert isinstance(symbol.scale, Hashed) and isinstance(page.scale, Leading)


def test_what_all_texts_begin_with_is_left_out():
    """Eight bytes of http://x.org/ would put all pages in one place."""
    sample = sample_of(*[f"startswith(page, 'http://x.org/{n}')" for n in range(40)])
    (axis,) = fit("attribute-split", STOCKS, sample).spec.axes
    assert axis.scale.prefix == b"http://x.org/"
    places = [axis.position(f"http://x.org/{page}") for page in ("1", "15/a", "2", "9z")]
    assert places == sorted(set(places))
    assert axis.position("ftp://x.org/5") == 0 and axis.position("https:") == axis.size - 1


def test_a_suffix_has_an_axis_of_its_own():
    sample = sample_of(*[f"page LIKE '%{end}.html'" for end in "abcabc"])
    assert isinstance(axis_of("hilbert", sample, Dimension("page", True)), Leading)


def test_enumerations_and_domains_come_from_the_schema():
    texts = [f"level = 'mid' AND volume > {n}000000 AND volume < {n + 5}000000" for n in range(20)]
    mapping = fit("key-space-split", STOCKS, sample_of(*texts))
    scales = {axis.dimension.attribute: axis.scale for axis in mapping.spec.axes}
    assert isinstance(scales["level"], Ranks) and len(scales["level"].values) == 3
    assert isinstance(scales["volume"], Even)
    assert (scales["volume"].low, scales["volume"].high) == (0, 310_000_000)
    assert mapping.spec.notes == ()


def test_a_domain_from_the_data_is_said():
    sample = sample_of(*[f"open BETWEEN {n} AND {n + 3}" for n in range(0, 480, 10)])
    mapping = fit("attribute-split", STOCKS, sample)
    (axis,) = mapping.spec.axes
    assert isinstance(axis.scale, EvenDoubles) and (axis.scale.low, axis.scale.high) == (0.0, 473.0)
    assert mapping.spec.notes == ("domain of `open` 0…473 taken from the data",)


ENDLESS = Schema.from_mapping(
    {
        "id": "k",
        "attributes": {
            "k": "bigint",
            "x": {"type": "double", "min": 0, "max": "inf"},
            "y": {"type": "double", "min": "-inf", "max": "inf"},
            "z": {"type": "double", "max": "nan"},
        },
    }
)
ENDLESS_TEXTS = [f"x < {n} AND y BETWEEN {n} AND {n + 9} AND z > -{n}" for n in range(1, 40)]


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_domain_without_end_is_none(name):
    """An infinity cannot be divided: what the data say counts, as if the schema said nothing."""
    odd = float("nan"), float("inf"), float("-inf"), None
    values = [*(n / 2 for n in range(50)), *odd]
    events = [{"k": k, "x": x, "y": x, "z": x} for k, x in enumerate(values)]
    filters = read_filters(pa.array(ENDLESS_TEXTS), ENDLESS)
    mapping = fit(name, ENDLESS, Sample(filters, event_table(ENDLESS, events)))
    assert mapping.spec.notes and all("taken from the data" in one for one in mapping.spec.notes)
    check_mapping(mapping, ENDLESS_TEXTS[:9], events, another_process=False)
    asked = fit(name, ENDLESS, Sample(filters, ENDLESS.arrow.empty_table()))
    assert isinstance(asked.spec.axes[0].scale, EvenDoubles)


@pytest.mark.parametrize("name", MAPPINGS)
def test_where_nothing_says_where_values_lie_the_id_is_hashed_and_that_is_said(name):
    mapping = fit(name, ENDLESS)
    (axis,) = mapping.spec.axes
    assert (axis.dimension.attribute, type(axis.scale)) == ("k", Hashed)
    assert mapping.spec.notes == ("nothing says where values lie: keys are a hash of `k`",)


TICKERS = Schema.from_mapping(
    {
        "id": "s",
        "attributes": {"s": {"type": "string", "min": "aaa", "max": "zzzzz"}, "t": "string"},
    }
)


def test_ends_of_texts_are_said_unless_the_schema_gives_them():
    texts = [f"startswith(s, 'h{n}') AND t LIKE '%{n}.de'" for n in range(40)]
    filters = read_filters(pa.array(texts), TICKERS)
    events = event_table(TICKERS, [{"s": f"h{n}", "t": f"{n}.de"} for n in range(10, 60)])

    def notes(*sample, attributes=("s",)):
        return fit("attribute-split", TICKERS, *sample, attributes=attributes).spec.notes

    seen = "domain of `s` 'h10'…'h59' taken from the sampled events"
    assert notes(Sample(filters, events)) == (seen,)
    (asked,) = notes(Sample(filters, events.slice(0, 0)))
    assert asked.endswith("taken from the sampled subscriptions") and "'h0'…" in asked
    assert notes() == ()
    backwards = fit("string-tree", TICKERS, Sample(filters, events)).spec.notes
    assert any(one.startswith("domain of `t` read backwards '10.de'…") for one in backwards)


def test_a_long_text_is_cut_in_a_note():
    events = event_table(TICKERS, [{"s": "x" * 500}, {"s": "y\n"}])
    sample = Sample(read_filters(pa.array(["s > 'z'"]), TICKERS), events)
    (note,) = fit("zones", TICKERS, sample, attributes=["s"]).spec.notes
    first, last = "'" + "x" * 39 + "…'", r"'y\n'"
    assert note == f"domain of `s` {first}…{last} taken from the sampled events"


def test_the_attributes_that_narrow_most_come_first():
    texts = [f"volume > {n} AND open BETWEEN {n} AND {n + 3}" for n in range(40)]
    axes = fit("selective-attribute", STOCKS, sample_of(*texts)).spec.axes
    assert [axis.dimension.attribute for axis in axes] == ["open"]  # volume > n helps nobody
    named = fit("hilbert", STOCKS, sample_of(*texts), attributes=["volume", "open"]).spec.axes
    assert [axis.dimension.attribute for axis in named] == ["volume", "open"]


def test_as_many_axes_as_help():
    """Where volume says nothing beyond open, open has all the bits."""
    both = [
        f"open BETWEEN {n % 10 * 20} AND {n % 10 * 20 + 19} AND page LIKE 'http://x.org/{n // 10}%'"
        for n in range(100)
    ]
    one = [f"open BETWEEN {n} AND {n + 9} AND volume < 300000000" for n in range(100)]
    assert len(fit("key-space-split", STOCKS, sample_of(*both)).spec.axes) == 2
    assert len(fit("hilbert", STOCKS, sample_of(*one)).spec.axes) == 1


def test_finer_axes_until_subscriptions_have_too_many_ranges():
    narrow = [
        f"open BETWEEN {n} AND {n + 1} AND volume BETWEEN {n}000 AND {n}999" for n in range(99)
    ]
    wide = [f"open > {n} AND open < {n + 90} AND volume < {n * 1000 + 90000}" for n in range(99)]
    fine, coarse = (
        fit("key-space-split", STOCKS, sample_of(*texts), attributes=["open", "volume"])
        for texts in (narrow, wide)
    )
    assert fine.spec.bits > coarse.spec.bits


def test_without_a_sample_the_attributes_with_a_domain():
    mapping = fit("key-space-split", STOCKS)
    assert [axis.dimension.attribute for axis in mapping.spec.axes] == ["day", "level", "volume"]


@pytest.mark.parametrize("name", MAPPINGS)
def test_subscriptions_that_constrain_nothing(name):
    mapping = fit(name, STOCKS, sample_of("TRUE", "symbol IS NOT NULL"))
    assert mapping.spec.notes[0].startswith("sampled subscriptions constrain no attribute")
    assert mapping.subscription_keys(parse("TRUE", STOCKS)).root


@pytest.mark.parametrize("name", MAPPINGS)
def test_strings_dates_enumerations_and_values_outside(name):
    """One sample for the fit, and filters and events that it has not seen."""
    texts = [
        "day >= DATE '2000-01-01' AND symbol = 'ibm'",
        "day < DATE '1990-01-01' OR open > 1e9",
        "level IN ('low', 'high') AND volume > 400000000",
        "page LIKE '%.html' AND NOT symbol LIKE 'a%'",
        "symbol IS NULL OR open <=> NULL",
        "open >= 1e300 OR volume < 0",
    ]
    sample = sample_of(
        *[
            f"symbol = 's{n}' AND open > {n} AND volume < {n}000 AND page LIKE '%{n}'"
            for n in range(9)
        ]
    )
    odd = [
        {"open": float("nan"), "volume": -5, "symbol": None},
        {"open": float("-inf"), "volume": 400_000_001, "level": "high", "symbol": "ibm"},
        {"day": None, "open": 1e300, "page": "", "level": None},
    ]
    events = [*quotes(12).to_pylist(), *odd]
    check_mapping(fit(name, STOCKS, sample), texts * 4, events, another_process=False)


def many(count):
    domain = {"type": "int", "min": 0, "max": 9}
    return Schema.from_mapping(
        {"id": "a0", "attributes": {f"a{number}": domain for number in range(count)}}
    )


@pytest.mark.parametrize("name", MAPPINGS)
def test_attributes_that_nobody_chose_are_never_too_many(name):
    mapping = fit(name, many(70))
    most = {"hilbert": 8, "key-space-split": 16}.get(name, 70)
    assert len(mapping.spec.axes) == most
    cut = (f"{name} uses the first {most} of 70 attributes with a domain",)
    assert mapping.spec.notes == (cut if most < 70 else ())


def test_attributes_that_somebody_chose_may_be():
    schema, names = many(63), [f"a{number}" for number in range(63)]
    sample = Sample(read_filters(pa.array(["a0 = 1"] * 9), schema), schema.arrow.empty_table())
    with pytest.raises(UsageError, match="m = 16 bits are too few for 17 attributes"):
        fit("key-space-split", schema, attributes=names[:17])
    with pytest.raises(UsageError, match="m = 62 bits are too few for 63 attributes"):
        fit("key-space-split", schema, sample, attributes=names)
    with pytest.raises(UsageError, match="hilbert takes at most 8 attributes, not 9"):
        fit("hilbert", schema, attributes=names[:9])


@pytest.mark.parametrize("bits", [0, 63])
def test_no_spec_has_keys_that_do_not_fit(bits):
    spec = fit("key-space-split", STOCKS).spec
    with pytest.raises(UsageError, match=f"m must be 1 to 62 bits, not {bits}"):
        MappingSpec(spec.name, spec.schema, bits, spec.axes)
    read = {**json.loads(spec.to_json()), "bits": bits}
    with pytest.raises(UsageError, match=f"m must be 1 to 62 bits, not {bits}"):
        MappingSpec.from_json(json.dumps(read))


@pytest.mark.parametrize("name", MAPPINGS)
def test_as_many_bits_as_the_mapping_says_it_needs(name):
    mapping = fit(name, STOCKS, sample_of(*[f"volume > {n} AND open < {n}" for n in range(40)]))
    spec = mapping.spec
    assert spec.bits == type(mapping).bits_needed(spec.axes, spec.parameters)


def test_of_filters_that_stand_alone_a_part_is_tried_too():
    """As of shapes: or whatever is written oddly would decide alone, and take its time."""
    alone = parse("volume > 5", STOCKS)
    grouped = read_filters(pa.array([f"volume > {n}" for n in range(4_000)]), STOCKS)
    table = FilterTable(STOCKS, 10_000, grouped.groups, dict.fromkeys(range(4_000, 10_000), alone))
    few = thinned(table)
    assert few.groups[0].rows.size == 400 and few.size == table.size
    assert sorted(few.singles) == list(range(4_000, 10_000, 10))


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_filter_with_an_error_has_no_key(name):
    """Neither a range nor the root: nobody waits."""
    texts = ["volume BETWEEN 1 AND 9", "volume BETWEEN", "TRUE", "nobody = 1"]
    table = read_filters(pa.array(texts), STOCKS)
    assert sorted(table.errors) == [1, 3]
    ranges = fit(name, STOCKS, attributes=["volume"]).keys_of_subscriptions(table)
    assert (np.diff(ranges.offsets) > 0).tolist() == [True, False, False, False]
    assert ranges.root.tolist() == [False, False, True, False]


@pytest.mark.parametrize("name", ["key-space-split", "hilbert"])
def test_intervals_are_kept_where_a_sample_would_choose_bits(name):
    texts = [f"volume > {n}000 AND open BETWEEN {n} AND {n + 9}" for n in range(40)]
    sample, names = sample_of(*texts), ["volume", "open"]
    mapping = fit(name, STOCKS, sample, attributes=names, intervals=100)
    assert [axis.size for axis in mapping.spec.axes] == [100, 100]
    finer = fit(name, STOCKS, sample, intervals=1 << 20)
    assert {axis.size for axis in finer.spec.axes} == {1 << 20}
    with pytest.raises(UsageError, match="m must be 1 to 62 bits, not 64"):
        fit(name, STOCKS, sample, attributes=names * 2, intervals=1 << 16)


@pytest.mark.parametrize("name", MAPPINGS)
def test_intervals_are_kept_whatever_the_attribute(name):
    """A number, a text, an enumeration (of three, so no more than three) and a hash."""
    texts = [f"symbol = 's{n}' AND page > 'http://x.org/{n}'" for n in range(40)]
    names = ["volume", "page", "level", "symbol"]
    mapping = fit(name, STOCKS, sample_of(*texts), attributes=names, intervals=5)
    assert [axis.size for axis in mapping.spec.axes] == [5, 5, 3, 5]
    assert isinstance(mapping.spec.axes[3].scale, Hashed)
    check_mapping(mapping, texts[:8], quotes(8).to_pylist(), another_process=False)


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(UsageError, match=r"no mapping 'hilbrt' \(did you mean hilbert\?\)"):
        fit("hilbrt", STOCKS)
    with pytest.raises(UsageError, match=r"mappings: attribute-split, key-space-split"):
        fit("qqqq", STOCKS)
    with pytest.raises(UsageError, match=r"hilbert has no parameter 'tagged'"):
        fit("hilbert", STOCKS, tagged=True)
    with pytest.raises(UsageError, match=r"nothing says where the values of open lie"):
        fit("hilbert", STOCKS, attributes=["open"])
    with pytest.raises(UsageError, match="intervals must be at least 1"):
        fit("attribute-split", STOCKS, intervals=0)


def test_a_spec_of_another_schema_is_refused():
    spec = fit("key-space-split", STOCKS).spec
    other = Schema.from_mapping({"id": "a", "attributes": {"a": "int"}})
    assert mapping_of(spec, STOCKS).spec == spec
    with pytest.raises(UsageError, match="fitted for another schema"):
        mapping_of(spec, other)


def test_the_id_of_a_spec_is_of_what_decides_keys():
    spec = fit("key-space-split", STOCKS).spec
    noted = MappingSpec(
        spec.name, spec.schema, spec.bits, spec.axes, spec.parameters, ("taken from the data",)
    )
    assert noted.id == spec.id and noted.to_json() != spec.to_json()
    assert fit("key-space-split", STOCKS, bits=12).spec.id != spec.id


PROGRAM = """\
import numpy as np
import pyarrow as pa
from crossroads.mapping.fit import MAPPINGS, Sample, fit
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, read_filters

schema = Schema.from_mapping({"id": "s", "attributes": {
    "s": "string", "p": "path", "i": {"type": "int", "min": 0, "max": 999}, "x": "double"}})
texts = [f"s = 'k{n}' AND i BETWEEN {n} AND {n + 9} AND x > {n}" for n in range(50)]
texts += [f"p LIKE '%{n}' OR s IN ('k{n}', 'q')" for n in range(50)]
filters = read_filters(pa.array(texts), schema)
events = pa.Table.from_pylist(
    [{"s": f"k{n}", "p": f"/a/{n}", "i": n * 7, "x": n / 3} for n in range(60)],
    schema=schema.arrow)
for name in MAPPINGS:
    mapping = fit(name, schema, Sample(filters, events))
    ranges, keys = mapping.keys_of_subscriptions(filters), mapping.keys_of_events(events)
    print(mapping.spec.id, ranges.low.tolist(), ranges.high.tolist(), ranges.root.tolist())
    print(keys.offsets.tolist(), keys.keys.tolist())
"""


def test_keys_are_the_same_in_every_process():
    """Whatever Python's own hashes are: another process, another day, another machine."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "12345")
    }
    assert len(printed) == 1
    assert len(printed.pop().splitlines()) == 2 * len(MAPPINGS)
