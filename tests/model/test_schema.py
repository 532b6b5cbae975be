"""Schemas from TOML and Python: what is accepted, what is refused, and that they read back."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import EventError, SchemaError
from crossroads.model.identity import event_id
from crossroads.model.schema import Attribute, Schema
from crossroads.model.table import conform, conform_row
from crossroads.model.types import DATE, parse_type

STOCKS = """
name = "stocks"
id = ["DATE", "symbol"]

[attributes]
date = { type = "date", min = "1998-01-02", max = "2002-12-31" }
symbol = { type = "string" }
open = { type = "double", min = 0, max = 500 }
order.total = { type = "decimal(10,2)" }
side = { type = "string", values = ["buy", "sell"] }
volume = "long"
"""


def test_from_toml() -> None:
    schema = Schema.from_toml(STOCKS)
    assert schema.id == ("date", "symbol")
    assert schema.names == ("date", "symbol", "open", "order.total", "side", "volume")
    assert schema.attribute("DATE") == Attribute(
        name="date", type=DATE, min=date(1998, 1, 2), max=date(2002, 12, 31)
    )
    assert schema.attribute("side").values == ("buy", "sell")
    assert str(schema.attribute("volume").type) == "bigint"
    assert not schema.enforce_domains
    assert schema.arrow.names == list(schema.names)


def test_reads_back_and_hashes_content() -> None:
    schema = Schema.from_toml(STOCKS)
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert again.hash == schema.hash
    assert not schema.changes_from(again.describe())
    other = Schema.from_toml(STOCKS.replace("max = 500", "max = 501"))
    assert other.hash != schema.hash


def test_says_what_changed() -> None:
    schema = Schema.from_toml(STOCKS)
    other = Schema.from_toml(
        STOCKS.replace('volume = "long"', 'size = "int"').replace("max = 500", "max = 9")
    )
    changes = other.changes_from(schema.describe())
    assert "attribute volume was removed" in changes
    assert "attribute size was added" in changes
    assert any(change.startswith("attribute open: ") for change in changes)


REFUSED = {
    "not valid TOML": "name = ",
    "no [attributes] table": 'id = ["a"]',
    "unknown key 'ids'": 'ids = ["a"]\n[attributes]\na = "int"',
    "does not say which attributes identify": '[attributes]\na = "int"',
    "no attribute 'b' in schema": 'id = ["b"]\n[attributes]\na = "int"',
    "unknown type 'integr'": 'id = "a"\n[attributes]\na = "integr"',
    "int takes no precision": 'id = "a"\n[attributes]\na = "int(3)"',
    "decimal(39,0) does not exist": 'id = "a"\n[attributes]\na = "decimal(39,0)"',
    "differ only in case": 'id = "a"\n[attributes]\na = "int"\nA = "int"',
    "unknown key 'minimum'": 'id = "a"\n[attributes]\na = { type = "int", minimum = 1 }',
    "'x' is not a whole number": 'id = "a"\n[attributes]\na = { type = "int", min = "x" }',
    "min 2 is above max 1": 'id = "a"\n[attributes]\na = { type = "int", min = 2, max = 1 }',
    "values or min/max": 'id = "a"\n[attributes]\na = { type = "int", min = 2, values = [1] }',
    "only dates and timestamps": 'id = "a"\n[attributes]\na = { type = "int", format = "%d" }',
    "starts with _": 'id = "_a"\n[attributes]\n_a = "int"',
    "needs a type": 'id = "a"\n[attributes]\na = 5',
    "neither": 'id = "a"\ndomains = "x"\n[attributes]\na = "int"',
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(REFUSED[message])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_misspelt_attributes_get_a_hint() -> None:
    with pytest.raises(SchemaError, match="did you mean 'symbol'"):
        Schema.from_toml(STOCKS).attribute("simbol")


BLOG = """
name = "blog"
id = ["address", "update_date"]
domains = "enforce"

[attributes]
blog_name = { type = "string" }
address = { type = "url" }
genre = { type = "string", values = ["hardware", "software", "peripherals", "development"] }
author = { type = "string" }
abstract = { type = "string" }
rating = { type = "int", min = 1, max = 5 }
update_date = { type = "timestamp", format = "%d-%m-%Y %H:%M", min = "1-1-1970 00:00" }
"""
BLOG_EVENT = {
    "blog_name": "Prad.de",
    "address": "http://www.prad.de/en/index.html",
    "genre": "peripherals",
    "author": "Mark Hansen",
    "abstract": "The review of the new TFT panel...",
    "rating": "4",
    "update_date": "26-4-2006 17:58",
}


def test_the_blog_schema_and_its_event() -> None:
    """LECTURE L1: a URL, an enumeration, a rating of 1 to 5, a day-first date with a time."""
    schema = Schema.from_toml(BLOG)
    found = conform_row(schema, BLOG_EVENT)
    assert found["rating"] == 4
    assert event_id(schema, found) == "http://www.prad.de/en/index.html|2006-04-26 17:58:00"
    assert Schema.from_toml(schema.to_toml()) == schema
    table = conform(pa.Table.from_pylist([BLOG_EVENT]), schema)
    assert table.table.to_pylist() == [found]


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("genre", "sports", "genre: 'sports' is not one of hardware, software, "),
        ("rating", "6", "rating: 6 is above the maximum 5"),
        ("update_date", "31-12-1969 23:59", "is below the minimum 1970-01-01 00:00:00"),
        ("address", "prad", "address: 'prad' is not a URL"),
    ],
)
def test_blog_events_that_do_not_fit(attribute: str, value: str, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        conform_row(Schema.from_toml(BLOG), {**BLOG_EVENT, attribute: value})


def test_odd_numbers_read_back() -> None:
    schema = Schema.from_mapping(
        {
            "id": "n",
            "attributes": {
                "n": "int",
                "x": {"type": "double", "min": "-inf", "max": "inf"},
                "y": {"type": "double", "values": ["nan", 0.1]},
            },
        }
    )
    assert Schema.from_toml(schema.to_toml()).hash == schema.hash


names = st.text(min_size=1, max_size=8).filter(lambda n: not n.startswith("_") and "`" not in n)
types = st.sampled_from(["int", "double", "string", "date", "timestamp", "decimal(5,2)", "url"])


@given(st.dictionaries(names, types, min_size=1, max_size=5), st.text(max_size=5))
def test_any_names_read_back(attributes: dict[str, str], name: str) -> None:
    folded = {key.casefold(): key for key in attributes}
    kept: dict[str, Any] = {key: {"type": attributes[key]} for key in folded.values()}
    schema = Schema(
        name,
        (next(iter(kept)),),
        tuple(Attribute(name=key, type=parse_type(part["type"])) for key, part in kept.items()),
    )
    assert Schema.from_toml(schema.to_toml()) == schema
