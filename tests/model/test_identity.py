"""Law: event_ids = event_id, row by row; different events have different ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.model.identity import event_id, event_ids, identity_hash, identity_hashes
from crossroads.model.schema import Schema
from crossroads.model.table import conform_columns

SCHEMA = Schema.from_mapping(
    {
        "id": ["b", "i", "l", "d", "m", "s", "day", "t"],
        "attributes": {
            "b": "boolean",
            "i": "int",
            "l": "bigint",
            "d": "double",
            "m": "decimal(20,8)",
            "s": "string",
            "day": "date",
            "t": "timestamp",
        },
    }
)
PAIR = Schema.from_mapping({"id": ["a", "b"], "attributes": {"a": "string", "b": "string"}})

text = st.text(alphabet=r"ab|\ü", max_size=5)
rows = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats() | st.sampled_from([0.0, -0.0]),
        "m": st.decimals(places=8, min_value=-(10**11), max_value=10**11),
        "s": text,
        "day": st.dates(),
        "t": st.datetimes() | st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, max_size=20))
def test_columns_give_what_single_events_give(events: list[dict[str, Any]]) -> None:
    columns = {name: [event[name] for event in events] for name in SCHEMA.names}
    table = conform_columns(columns, len(events), SCHEMA, blank_is_null=False).table
    expected = [event_id(SCHEMA, row) for row in table.to_pylist()]
    assert event_ids(SCHEMA, table).to_pylist() == expected
    assert event_ids(SCHEMA, table.slice(1)).to_pylist() == expected[1:]


@given(st.tuples(text, text), st.tuples(text, text))
def test_different_events_have_different_ids(left: tuple[str, str], right: tuple[str, str]) -> None:
    ids = [event_id(PAIR, dict(zip("ab", pair, strict=True))) for pair in (left, right)]
    assert (ids[0] == ids[1]) == (left == right)


def test_as_people_read_it() -> None:
    schema = Schema.from_mapping(
        {"id": ["date", "symbol"], "attributes": {"date": "date", "symbol": "string"}}
    )
    table = conform_columns(
        {"date": pa.array(["1998-01-02"]), "symbol": pa.array(["A|B\\C"])},
        1,
        schema,
        blank_is_null=True,
    ).table
    assert event_ids(schema, table).to_pylist() == ["1998-01-02|A\\|B\\\\C"]


@given(st.lists(st.text(max_size=40)), st.integers(0, 3))
def test_hashes_of_columns_are_hashes_of_texts(ids: list[str], start: int) -> None:
    array = pa.array(ids, pa.string()).slice(start)
    assert identity_hashes(array).tolist() == [identity_hash(each) for each in ids[start:]]


def test_hashes_spread() -> None:
    """200,000 neighbouring ids: no two alike, and every bit is set in half of them."""
    hashes = identity_hashes(pa.array([f"1998-01-02|S{n}" for n in range(200_000)]))
    assert len(np.unique(hashes)) == len(hashes)
    for bit in range(64):
        share = float(np.mean((hashes >> np.uint64(bit)) & np.uint64(1)))
        assert abs(share - 0.5) < 0.01, bit


def test_zeros_at_the_end_count() -> None:
    assert identity_hash("a") != identity_hash("a\0")
