"""What a fit chooses, says and refuses; and that a spec means the same in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from crossroads.errors import UsageError
from crossroads.mapping.fit import MAPPINGS, Sample, fit, mapping_of
from crossroads.mapping.scales import Even, EvenDoubles, Hashed, Leading, Ranks
from crossroads.mapping.spec import MappingSpec
from crossroads.model.atoms import Dimension
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.testing.mappings import check_mapping

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
    check_mapping(fit(name, STOCKS, sample), texts * 4, events)


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
import pyarrow as pa
from crossroads.mapping.fit import MAPPINGS, Sample, fit
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters

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
