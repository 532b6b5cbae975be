"""Law: conform = conform_row, row by row, whatever the raw columns are."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import EventError, SourceError
from crossroads.model.schema import Attribute, Schema
from crossroads.model.table import conform, conform_columns, conform_row
from crossroads.model.types import Value, parse_type, to_key

TYPES = [
    *("boolean", "int", "bigint", "double", "decimal(5,2)", "decimal(12,0)", "decimal(38,20)"),
    *("string", "path", "url", "date", "timestamp"),
]


def schema_of(type_: str, *, enforce: bool = False, **parts: Any) -> Schema:
    """One attribute x under test beside an integer id."""
    return Schema.from_mapping(
        {
            "id": ["n"],
            "domains": "enforce" if enforce else "hint",
            "attributes": {"n": {"type": "int"}, "x": {"type": type_, **parts}},
        }
    )


def same(attribute: Attribute, left: Value, right: Value) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, float) and left == 0 and isinstance(right, float):
        return right == 0 and math.copysign(1, left) == math.copysign(1, right)
    return to_key(attribute.type, left) == to_key(attribute.type, right)


def definition(
    schema: Schema, raw: dict[str, Any], blank_is_null: bool
) -> tuple[Value, str | None]:
    try:
        return conform_row(schema, raw, blank_is_null=blank_is_null)["x"], None
    except EventError as error:
        return None, str(error)


def check(schema: Schema, column: pa.Array, *, blank_is_null: bool = True) -> None:
    raw = pa.table({"n": pa.array(range(len(column)), pa.int64()), "x": column})
    conformed = conform(raw, schema, blank_is_null=blank_is_null)
    assert conformed.table.schema == schema.arrow
    conformed.table.validate(full=True)
    reasons = dict(zip(conformed.bad.tolist(), conformed.reasons, strict=True))
    values = conformed.table.column("x").to_pylist()
    for row, each in enumerate(column.to_pylist()):
        expected, reason = definition(schema, {"n": row, "x": each}, blank_is_null)
        assert reasons.pop(row, None) == reason, each
        assert same(schema.attribute("x"), values[row], expected), (each, values[row], expected)
    assert not reasons


numbers_as_text = st.one_of(
    st.from_regex(r"\A\s?[+-]?[0-9]{0,25}\.?[0-9]{0,6}([eE][+-]?[0-9]{1,3})?\s?\Z"),
    st.integers().map(str),
    st.integers(-(2**31) - 2, 2**31 + 2).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, places=2, min_value=-2000, max_value=2000).map(str),
)
times_as_text = st.one_of(
    st.dates().map(str),
    st.datetimes().map(str),
    st.datetimes().map(datetime.isoformat),
    st.datetimes(timezones=st.just(timezone(timedelta(hours=5, minutes=30)))).map(str),
    st.from_regex(
        r"\A[0-9]{1,4}-[0-9]{1,2}-[0-9]{1,2}"
        r"([T ][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{1,7})?)?)?"
        r"\s?(Z|UTC|[+-][0-9]{2}:[0-9]{2})?\Z"
    ),
)
words = st.sampled_from(
    [
        *("", " ", "true", "FALSE", "nan", "-Infinity", "0x1f", "1_000", "٣", "http://x.org/a"),
        *("a:b c", "mailto:ü@x", "x:y\n", "NULL", "-", "+", ".", "e5", "-0", "-0.0", "1e400"),
        "1" * 60,
    ]
)
texts = st.one_of(st.none(), words, numbers_as_text, times_as_text, st.text(max_size=8))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TYPES), st.lists(texts, max_size=90), st.booleans())
def test_columns_of_text(type_: str, column: list[str | None], blank_is_null: bool) -> None:
    check(schema_of(type_), pa.array(column, pa.string()), blank_is_null=blank_is_null)


moments = st.datetimes().map(lambda moment: moment.replace(microsecond=0))
TYPED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats()
    | st.integers(-(2**70), 2**70).map(float)
    | st.decimals(places=2, min_value=-2000, max_value=2000).map(float),
    pa.decimal128(9, 4): st.decimals(places=4, min_value=-99999, max_value=99999),
    pa.decimal128(38, 2): st.decimals(places=2, min_value=-(10**20), max_value=10**20),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.timestamp("s"): moments,
    pa.timestamp("ms", tz="Europe/Amsterdam"): st.datetimes(
        datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC)
    ).map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us"): st.datetimes(),
    pa.large_string(): texts,
    pa.string_view(): texts,
    pa.dictionary(pa.int32(), pa.string()): texts,
    pa.binary(): st.binary(max_size=3),
    pa.list_(pa.int32()): st.lists(st.integers(0, 3), max_size=2),
    pa.struct([("a", pa.int32())]): st.fixed_dictionaries({"a": st.integers(0, 3)}),
    pa.null(): st.none(),
}


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(TYPES), st.sampled_from(list(TYPED)), st.data())
def test_columns_of_every_arrow_type(type_: str, arrow: pa.DataType, data: st.DataObject) -> None:
    column = data.draw(st.lists(st.none() | TYPED[arrow], max_size=70))
    check(schema_of(type_), pa.array(column, arrow), blank_is_null=False)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["%d-%m-%Y %H:%M", "%Y%m%d", "%d/%m/%Y %H:%M:%S.%f", "%d %b %Y", "%m.%d.%y"]),
    st.lists(st.datetimes(), max_size=20),
    st.lists(texts, max_size=20),
    st.sampled_from(["date", "timestamp"]),
)
def test_formats(layout: str, moments: list[datetime], noise: list[str], type_: str) -> None:
    column = [moment.strftime(layout) for moment in moments] + noise
    check(schema_of(type_, format=layout), pa.array(column, pa.string()))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.none() | st.floats() | st.sampled_from([0.0, -0.0, math.nan, 1.5, 2.5]), max_size=40
    )
)
def test_enumerations_and_domains_of_doubles(column: list[float | None]) -> None:
    array = pa.array(column, pa.float64(), from_pandas=False)
    check(schema_of("double", values=[0, 1.5]), array)
    check(schema_of("double", values=[-0.0, math.nan]), array)
    check(schema_of("double", enforce=True, min=-1, max=2), array)
    check(schema_of("double", enforce=True, min=-0.0), array)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.none() | st.text(max_size=3) | st.sampled_from("abc"), max_size=30))
def test_enumerations_and_domains_of_text(column: list[str | None]) -> None:
    array = pa.array(column, pa.string())
    check(schema_of("string", values=["a", "b"]), array)
    check(schema_of("string", enforce=True, min="a", max="b"), array)


def test_other_domains() -> None:
    days = pa.array([date(2000, 1, day) for day in (1, 2, 3, 4)])
    check(schema_of("date", enforce=True, min="2000-01-02", max="2000-01-03"), days)
    check(schema_of("date", values=["2000-01-02"]), days)
    sums = pa.array([Decimal("1.00"), Decimal("2.50"), None])
    check(schema_of("decimal(5,2)", enforce=True, max=2), sums)
    check(schema_of("decimal(5,2)", values=["2.5"]), sums)
    check(schema_of("boolean", values=[True]), pa.array([True, False, None]))


def test_domains_are_only_hints_unless_enforced() -> None:
    conformed = conform(pa.table({"n": [1], "x": [9.0]}), schema_of("double", min=0, max=5))
    assert not len(conformed.bad)


def test_reasons_are_for_people() -> None:
    schema = schema_of("double", enforce=True, min=0)
    raw = pa.table({"N": ["1", "", "3", "4"], "X": ["abc", "1", "-2", ""]})
    conformed = conform(raw, schema)
    assert conformed.reasons == [
        "x: 'abc' is not a number (double)",
        "id attribute 'n' is missing",
        "x: -2.0 is below the minimum 0.0",
    ]
    assert conformed.bad.tolist() == [0, 1, 2]
    assert conformed.good.tolist() == [3]
    assert conformed.good_table().to_pylist() == [{"n": 4, "x": None}]


def test_the_first_problem_in_schema_order_is_told() -> None:
    raw = pa.table({"x": ["a"], "n": ["b"]})
    assert conform(raw, schema_of("int")).reasons == ["n: 'b' is not a whole number (int)"]


def test_missing_columns_are_null_and_others_ignored() -> None:
    conformed = conform(pa.table({"n": [1, 2], "other": ["a", "b"]}), schema_of("string"))
    assert conformed.table.to_pylist() == [{"n": 1, "x": None}, {"n": 2, "x": None}]


def test_two_columns_for_one_attribute() -> None:
    with pytest.raises(SourceError, match="'x' and 'X', both mean the attribute 'x'"):
        conform(pa.table({"n": [1], "x": [1], "X": [2]}), schema_of("int"))


def test_columns_of_mixed_python_objects() -> None:
    columns = {"n": pa.array([1, 2, 3]), "x": [1, "2", [3]]}
    conformed = conform_columns(columns, 3, schema_of("int"), blank_is_null=False)
    assert conformed.table.column("x").to_pylist() == [1, 2, None]
    assert conformed.reasons == ["x: [3] is not a whole number (int)"]


def test_chunked_and_sliced_columns() -> None:
    chunks = pa.chunked_array([pa.array(["1", "x"]), pa.array(["3", None])])
    raw = pa.table({"n": pa.chunked_array([[0, 1, 2, 3]]), "x": chunks}).slice(1)
    conformed = conform(raw, schema_of("int"))
    assert conformed.table.column("x").to_pylist() == [None, 3, None]
    assert conformed.bad.tolist() == [0]


def test_nanoseconds_are_cut_and_far_years_refused() -> None:
    schema = schema_of("timestamp")
    nanos = pa.array([1_500, -1, None], pa.int64()).view(pa.timestamp("ns"))
    table = conform(pa.table({"n": [0, 1, 2], "x": nanos}), schema).table
    assert table.column("x").cast(pa.int64()).to_pylist() == [1, -1, None]
    far = pa.array([2**60, 0], pa.int64()).view(pa.timestamp("us"))
    conformed = conform(pa.table({"n": [0, 1], "x": far}), schema)
    assert conformed.bad.tolist() == [0]
    assert "is not a timestamp" in conformed.reasons[0]
    days = pa.array([2**30, 0], pa.int32()).view(pa.date32())
    assert conform(pa.table({"n": [0, 1], "x": days}), schema_of("date")).bad.tolist() == [0]


def test_many_bad_rows_among_many_good_ones() -> None:
    rng = np.random.default_rng(1)
    column = pa.array([str(n) if n % 7 else f"bad{n}" for n in rng.integers(0, 1000, 5000)])
    check(schema_of("int"), column)


def test_types_cover_every_kind() -> None:
    assert {parse_type(each).kind.value for each in TYPES} | {"void"} == {
        *(kind.value for kind in type(parse_type("int").kind))
    }
