"""Plan `naive` is the definition, and so is `indexed`; and `naive` is really a nested loop.

CROSSROADS_SPARK_EXAMPLES=100 runs a larger campaign with fresh randomness.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crossroads.indexfile import save_index
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, filters_from_columns, read_filters
from crossroads.model.show import show_name
from crossroads.pipeline.indexed import indexed_pairs
from crossroads.pipeline.naive import FILTERS_PER_PASS, naive_pairs
from crossroads.pipeline.parameters import SHARED_MIN, exact_numbers, parametrise
from crossroads.testing.constants import constants
from crossroads.testing.strategies import Event, event_lists, event_table, filters, schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CAMPAIGN = os.environ.get("CROSSROADS_SPARK_EXAMPLES")
EXAMPLES = int(
    CAMPAIGN or 4
)  # each is a query of many joins: some seconds, nearly all of it planning
RANDOM = settings(
    max_examples=EXAMPLES,
    derandomize=CAMPAIGN is None,
    database=None,
    phases=[Phase.generate],  # shrinking would take a query per step; the message names the pair
    suppress_health_check=list(HealthCheck),
)

SCHEMA = Schema.from_toml(
    """
    id = ["n"]
    [attributes]
    n = { type = "bigint" }
    i = { type = "int" }
    x = { type = "double" }
    m = { type = "decimal(18,6)" }
    s = { type = "string" }
    d = { type = "date" }
    t = { type = "timestamp" }
    flag = { type = "boolean" }
    "order.total" = { type = "double" }
    """
)


def frame(spark: SparkSession, schema: Schema, events: list[Event]) -> DataFrame:
    table = event_table(schema, events)
    rows = pa.array(range(len(events)), pa.int64())
    return spark.createDataFrame(table.append_column("_event_row", rows))


def pairs_of(found: DataFrame) -> list[tuple[int, int]]:
    assert found.columns == ["_event_row", "_ordinal"]
    return sorted((row[0], row[1]) for row in found.collect())


def defined(schema: Schema, texts: list[str], events: list[Event]) -> list[tuple[int, int]]:
    trees = [parse(text, schema) for text in texts]
    return sorted(
        (row, ordinal)
        for row, event in enumerate(events)
        for ordinal, tree in enumerate(trees)
        if matches(tree, event)
    )


def naive_answer(
    spark: SparkSession, texts: list[str], events: list[Event], schema: Schema = SCHEMA
) -> list[tuple[int, int]]:
    table = read_filters(pa.array(texts, pa.string()), schema)
    assert not table.errors
    return pairs_of(naive_pairs(frame(spark, schema, events), table))


def check(spark: SparkSession, texts: list[str], events: list[Event]) -> None:
    assert naive_answer(spark, texts, events) == defined(SCHEMA, texts, events)


# -- random --------------------------------------------------------------------------------------

_OF_ALL = ("{a} = {}", "{a} <=> {}", "{} < {a}", "{a} BETWEEN {} AND {}", "NOT {a} >= {}")
_OF_ALL_TOO = ("{a} IN ({}, {})", "{a} NOT IN ({}, {}, {})", "{a} > {} OR {a} IS NULL")
_OF_TEXT = ("{a} LIKE {p}", "{a} NOT LIKE {p}", "startswith({a}, {p})", "endswith({a}, {p})")
_OF_TEXT_TOO = ("contains({a}, {p})", "{a} RLIKE {r}", "NOT {a} RLIKE {r} AND {a} >= {}")
_PATTERNS = ("'a'", "'a%'", "'%a'", "'%a%'", "'a_b'", "'_'", "'a%b'", "'%'", "'ab'")
_REGEXES = ("'a'", "'^a'", "'b$'", "'[ab]c'", "'(?i)AB'", "'^$'")


@st.composite
def repeated_shapes(draw: st.DrawFn, schema: Schema) -> list[str]:
    """Filters of one shape with different literals, as sets of subscriptions have them."""
    attribute = draw(st.sampled_from(schema.attributes))
    known = _OF_ALL + _OF_ALL_TOO
    if attribute.type.is_text:
        known += _OF_TEXT + _OF_TEXT_TOO
    shape = draw(st.sampled_from(known))
    name = show_name(attribute.name)

    def one() -> str:
        values = [draw(constants(attribute.type)) for _ in range(shape.count("{}"))]
        pattern = draw(st.sampled_from(_PATTERNS))
        return shape.format(*values, a=name, p=pattern, r=draw(st.sampled_from(_REGEXES)))

    return [one() for _ in range(SHARED_MIN + 2)]


@RANDOM
@given(data=st.data())
def test_naive_is_the_definition_is_indexed(data, spark, tmp_path_factory):
    schema = data.draw(schemas(max_attributes=7))
    events = data.draw(event_lists(schema, min_size=8, max_size=24))
    texts = data.draw(st.lists(filters(schema, depth=2), min_size=20, max_size=20))
    for shape in data.draw(st.lists(repeated_shapes(schema), min_size=3, max_size=5)):
        texts += shape
    table = read_filters(pa.array(texts), schema)
    assert not table.errors
    expected = defined(schema, texts, events)
    found = frame(spark, schema, events)
    assert_same(pairs_of(naive_pairs(found, table)), expected, texts, events)
    path = tmp_path_factory.mktemp("index") / "random.cri"
    names = pa.table({"id": [str(n) for n in range(len(texts))], "subscriber": texts})
    index = MatchIndex.build(table)
    save_index(path, index, subscriptions=names, subscription_version=1, content_hash="")
    assert_same(pairs_of(indexed_pairs(found, path)), expected, texts, events)


def assert_same(found, expected, texts, events):
    wrong = set(found) ^ set(expected)
    shown = [(texts[o], events[r], "missing" if (r, o) in expected else "extra") for r, o in wrong]
    assert not wrong, shown[:3]
    assert len(found) == len(expected), "a pair was reported twice"


# -- named cases ---------------------------------------------------------------------------------

EVENTS: list[Event] = [
    {"n": 0, "i": 5, "x": -0.0, "m": Decimal("1.500000"), "s": "ab", "flag": True},
    {"n": 1, "i": -7, "x": float("nan"), "m": Decimal("-2.250000"), "s": "a%b", "flag": False},
    {"n": 2, "i": 2**31 - 1, "x": 45.5, "d": date(2000, 2, 29), "s": ""},
    {"n": 3, "x": 0.1, "d": date(1500, 1, 1), "t": datetime(1500, 1, 1, tzinfo=UTC)},
    {"n": 2**53 + 1, "t": datetime(2000, 2, 29, 0, 0, 0, 1, tzinfo=UTC), "order.total": 1e300},
    {"n": -(2**63), "d": date(9999, 12, 31), "t": datetime(9999, 12, 31, tzinfo=UTC)},
]


def test_literals_of_one_shape_may_be_whole_or_not(spark):
    values = ["5", "4.5", "5.0", "0.000000000000001", "123456789012345", "-7", "-7.25", "1.5"]
    texts = [f"{name} >= {value}" for value in values for name in ("i", "n", "m", "x")]
    texts += [f"{name} IN ({value}, 45.5)" for value in values for name in ("i", "n", "m", "x")]
    check(spark, texts, EVENTS)


def test_many_constants_and_signed_zero(spark):
    zeros = ", ".join(f"{number}.0D" for number in range(20))
    check(spark, [f"x IN ({zeros})", "x IN (-0.0D)", "x IN (NULL, 0D)", "x <=> -0e0"], EVENTS)


def test_dates_before_the_calendars_changed(spark):
    days = ["1500-01-01", "1499-12-31", "1582-10-10", "2000-02-29", "9999-12-31"]
    texts = [f"d <= '{day}'" for day in days]
    texts += [f"t >= TIMESTAMP '{day} 00:00:00'" for day in days]
    check(spark, [*texts, "d < t", "t = d", "d = DATE '1500-01-01' OR i = 5"], EVENTS)


def test_arithmetic_that_overflows_is_unknown(spark):
    texts = [f"i + {k} > 0" for k in range(SHARED_MIN)]
    texts += ["-n < 0", "-n IS NULL", "i * i > 1", "i / 0 IS NULL", "m * 3.5 > 5", "-m < x + 1"]
    check(spark, texts, EVENTS)


def test_constants_meet_patterns(spark):
    texts = ["'abc' RLIKE 'b'", "'abc' RLIKE 'x' OR s RLIKE 'a'", "s RLIKE '^$'", "NULL RLIKE 'a'"]
    check(spark, [*texts, "s LIKE 'a!%b' ESCAPE '!'", "contains('xaby', s)"], EVENTS)


def test_thousands_of_filters_that_share_no_shape(spark):
    signs = ("<", "<=", ">", ">=", "=", "<>", "<=>")
    texts = [f"i {a} 5 OR n {b} 2 OR x {c} 0" for a in signs for b in signs for c in signs]
    assert len(parametrise(read_filters(pa.array(texts), SCHEMA))[1]) > FILTERS_PER_PASS
    check(spark, texts, EVENTS)


def test_a_shape_without_literals(spark):
    check(spark, ["flag"] * 5 + ["x IS NULL"] * 5 + ["TRUE"] * 5 + ["NULL"] * 5, EVENTS)


def test_no_filters_no_pairs(spark):
    found = naive_pairs(frame(spark, SCHEMA, EVENTS), FilterTable(SCHEMA, 0))
    assert found.columns == ["_event_row", "_ordinal"]
    assert found.dtypes == [("_event_row", "bigint"), ("_ordinal", "int")]
    assert found.count() == 0


def test_typed_columns(spark):
    columns = pa.table({"low": [0.1, 45.0], "day": [date(1500, 1, 1), date(2000, 2, 29)]})
    table = filters_from_columns("x >= :low AND d = :day", columns, SCHEMA)
    assert pairs_of(naive_pairs(frame(spark, SCHEMA, EVENTS), table)) == [(2, 1), (3, 0)]


def test_other_columns_can_be_kept(spark):
    table = read_filters(pa.array(["`order.total` > 1"]), SCHEMA)
    found = naive_pairs(frame(spark, SCHEMA, EVENTS), table, keep=("order.total", "n"))
    assert [tuple(row) for row in found.collect()] == [(1e300, 2**53 + 1, 0)]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_session_has_no_say_in_the_meaning(spark, zone):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", "false")
    texts = ["t = d", "t > d", "i + 1 IS NULL", "-n IS NULL", "i / 0 IS NULL", "t < '1999-01-01'"]
    check(session, texts, EVENTS)


def plan_of(found: DataFrame) -> str:
    return found._jdf.queryExecution().executedPlan().toString()


def test_every_join_is_a_nested_loop(spark):
    texts = [f"s = 'k{k}' AND i <=> {k} AND n = {k}" for k in range(10)]
    texts += [f"s = 'k{k}'" for k in range(10)] + [f"n + {k} = i" for k in range(10)]
    table = read_filters(pa.array(texts), SCHEMA)
    plan = plan_of(naive_pairs(frame(spark, SCHEMA, EVENTS), table))
    assert plan.count("BroadcastNestedLoopJoin") == 3
    assert "HashJoin" not in plan and "SortMergeJoin" not in plan and "Cartesian" not in plan


@given(
    st.lists(
        st.tuples(st.integers(1 - 10**15, 10**15 - 1), st.integers(0, 15)), min_size=1, max_size=8
    )
)
def test_numbers_stay_exact(numbers):
    mantissa, scale = (np.array(part, np.int64) for part in zip(*numbers, strict=True))
    column = exact_numbers(mantissa, scale)
    column.validate(full=True)
    assert [Decimal(value) for value in column.to_pylist()] == [
        Decimal(m).scaleb(-s) for m, s in numbers
    ]
