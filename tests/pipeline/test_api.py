"""`match` inside anyone's Spark job: any columns, any session, lazily; and what it refuses."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from crossroads.errors import RejectedInput, SchemaError, SourceError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline import check_subscriptions, match, schema_from_frame
from crossroads.pipeline.api import RejectedSubscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

STOCKS = """
id = ["day", "symbol"]
[attributes]
day = { type = "date" }
symbol = { type = "string" }
close = { type = "double" }
volume = { type = "bigint" }
"""
SCHEMA = Schema.from_toml(STOCKS)
QUOTES = """VALUES (DATE'2000-01-03', 'ibm', 110.5D, 900L), (DATE'2000-01-03', 'sun', 70D, NULL),
    (DATE'2000-01-04', 'ibm', NULL, 1200L) AS (day, symbol, close, volume)"""
WANTED = [
    ("s1", "ann", "symbol = 'ibm' AND close > 100"),
    ("s2", "bob", "volume >= 1000 OR close < 80"),
    ("s3", "ann", "close IS NULL"),
]
EXPECTED = [
    ("2000-01-03|ibm", "s1", "ann"),
    ("2000-01-03|sun", "s2", "bob"),
    ("2000-01-04|ibm", "s2", "bob"),
    ("2000-01-04|ibm", "s3", "ann"),
]


def quotes(spark: SparkSession) -> DataFrame:
    return spark.sql(f"SELECT * FROM {QUOTES}")


def wanted(spark: SparkSession, rows: list[tuple[object, ...]] = WANTED) -> DataFrame:
    return spark.createDataFrame(rows, "id string, subscriber string, filter string")


def rows_of(found: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in found.collect())


@pytest.mark.parametrize("plan", ["auto", "indexed", "naive"])
def test_every_match_is_a_row(spark, plan):
    found = match(quotes(spark), wanted(spark), SCHEMA, plan=plan)
    assert found.columns == ["event_id", "subscription_id", "subscriber"]
    assert rows_of(found) == EXPECTED


def test_the_schema_may_be_a_file(spark, tmp_path):
    path = tmp_path / "stocks.toml"
    path.write_text(STOCKS)
    assert rows_of(match(quotes(spark), wanted(spark), str(path))) == EXPECTED


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_a_view_with_other_columns_in_other_order_and_case(spark, plan):
    quotes(spark).createOrReplaceTempView("quotes")
    events = spark.sql(
        """SELECT Volume, 'x' AS note, array(1) AS list, Close, SYMBOL, int(7) AS `a.b`, Day
        FROM quotes"""
    )
    found = match(events, wanted(spark), SCHEMA, plan=plan, include=["Volume", "close"])
    assert found.columns == ["event_id", "subscription_id", "subscriber", "volume", "close"]
    assert [row[:3] for row in rows_of(found)] == EXPECTED
    assert rows_of(found)[0][3:] == (900, 110.5)


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_fields_of_structs(spark, plan):
    schema = Schema.from_toml(
        """id = ["order.id"]
        [attributes]
        "order.id" = "int"
        "order.To.town" = "string"
        "x.y" = "int" """
    )
    events = spark.sql(
        """SELECT named_struct('ID', id, 'to', IF(id = 2, NULL, named_struct('Town', town)))
        AS Order, id AS `X.y` FROM VALUES (1, 'Rome'), (2, 'Oslo'), (3, NULL) AS (id, town)"""
    )
    rows = [
        ("a", "ann", "order.to.town = 'Rome'"),
        ("b", "bob", "order.to.town IS NULL AND x.y < 3"),
    ]
    found = match(events, wanted(spark, rows), schema, plan=plan, include=["order.to.town"])
    assert rows_of(found) == [("1", "a", "ann", "Rome"), ("2", "b", "bob", None)]


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_narrow_types_are_widened(spark, plan):
    schema = Schema.from_toml(
        """id = ["n"]
        [attributes]
        n = "bigint"
        x = "double"
        m = "decimal(16,4)"
        t = "timestamp"
        u = "timestamp"
        s = "string"
        nothing = "date" """
    )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    events = session.sql(
        """SELECT smallint(n) AS n, float(0.5) AS x, decimal(n) AS m, DATE'2020-03-08' AS t,
        TIMESTAMP_NTZ'2020-03-08 02:30:00.000001' AS u, 'A' COLLATE UTF8_LCASE AS s, NULL AS nothing
        FROM VALUES (1), (2) AS (n)"""
    )
    rows = [
        ("a", "ann", "n = 1 AND x = 0.5 AND m < 1.5 AND nothing IS NULL"),
        ("b", "bob", "t = '2020-03-08' AND u = '2020-03-08 02:30:00.000001' AND n = 2"),
        ("c", "eve", "s = 'a'"),
    ]
    found = match(events, wanted(session, rows), schema, plan=plan)
    assert rows_of(found) == [("1", "a", "ann"), ("2", "b", "bob")]


# -- which events --------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_a_repeated_id_notifies_once(spark, plan):
    events = spark.sql(
        "SELECT * FROM VALUES (1, 0D), (1, 5D), (2, 0D), (2, 0D) AS (id, x)"
    ).repartition(3)
    schema = schema_from_frame(events, id=["id"])
    rows = [("a", "ann", "x = 0"), ("b", "bob", "x = 5")]
    once = match(events, wanted(spark, rows), schema, plan=plan)
    assert rows_of(once) == [("1", "a", "ann"), ("2", "a", "ann")]
    every = match(events, wanted(spark, rows), schema, plan=plan, keep_duplicates=True)
    assert rows_of(every) == [
        ("1", "a", "ann"), ("1", "b", "bob"), ("2", "a", "ann"), ("2", "a", "ann")
    ]  # fmt: skip


def test_ids_are_told_apart_as_they_are_written(spark):
    events = spark.sql("SELECT x FROM VALUES (0D), (-0D), (double('NaN')), (double('NaN')) AS (x)")
    found = match(events, wanted(spark, [("a", "ann", "TRUE")]), schema_from_frame(events, ["x"]))
    assert [row[0] for row in rows_of(found)] == ["-0.0", "0.0", "nan"]


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_invalid_events_match_nothing(spark, plan):
    schema = Schema.from_toml(
        """id = ["n"]\ndomains = "enforce"\n[attributes]\nn = { type = "int", max = 9 }
        x = { type = "double", values = [0.0, 1.5] }\nlink = { type = "url" }"""
    )
    events = spark.sql(
        """SELECT * FROM VALUES (1, -0D, 'urn:x'), (2, NULL, NULL), (NULL, 0D, 'urn:x'),
        (10, 0D, 'urn:x'), (3, 2D, 'urn:x'), (4, 0D, 'not a link'), (5, 0D, 'urn:a\\u00a0b'),
        (6, 1.5D, 'urn:a\\n') AS (n, x, link)"""
    )
    found = match(events, wanted(spark, [("a", "ann", "TRUE")]), schema, plan=plan)
    assert [row[0] for row in rows_of(found)] == ["1", "2"]


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_nothing_is_read_before_the_result_is(spark, plan):
    from pyspark.sql import functions as F  # noqa: N812

    never = F.udf(lambda symbol: 1 // 0, "bigint")
    events = quotes(spark).withColumn("volume", never("symbol"))
    found = match(events, wanted(spark), SCHEMA, plan=plan)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        found.collect()


# -- which subscriptions -------------------------------------------------------------------------

BAD = [
    *WANTED,
    ("s4", "ann", "colour = 'red'"),
    ("s5", "ann", "TRUE"),
    ("s5", "bob", "TRUE"),
    (None, "bob", "TRUE"),
]


def test_bad_subscriptions_are_left_out_with_a_warning(spark):
    with pytest.warns(RejectedSubscriptions, match="4 of 7 subscriptions cannot be used: .*colour"):
        found = match(quotes(spark), wanted(spark, BAD), SCHEMA)
    assert rows_of(found) == EXPECTED


def test_bad_subscriptions_can_be_refused_or_ignored(spark):
    with pytest.raises(RejectedInput, match="4 of 7 subscriptions"):
        match(quotes(spark), wanted(spark, BAD), SCHEMA, on_rejected="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = match(quotes(spark), wanted(spark, BAD), SCHEMA, on_rejected="ignore")
    assert rows_of(found) == EXPECTED


def test_check_subscriptions_lists_them(spark):
    found = check_subscriptions(wanted(spark, BAD), SCHEMA)
    assert found.columns == ["id", "subscriber", "filter", "reason"]
    rows = [tuple(row) for row in found.collect()]
    assert [row[:3] for row in rows] == BAD[3:]
    reasons = [row[3] for row in rows]
    assert "no attribute 'colour'" in reasons[0] and "occurs 2 times" in reasons[1]
    assert "id is missing" in reasons[3]
    assert check_subscriptions(wanted(spark), SCHEMA).count() == 0


def test_ids_may_be_numbers_and_columns_may_be_more(spark):
    given = spark.sql("SELECT 'x' AS note, 7L AS ID, 12 AS Subscriber, 'close < 80' AS FILTER")
    assert rows_of(match(quotes(spark), given, SCHEMA)) == [("2000-01-03|sun", "7", "12")]


@pytest.mark.parametrize("plan", ["indexed", "naive"])
def test_no_subscriptions_no_matches(spark, plan):
    found = match(quotes(spark), wanted(spark, []), SCHEMA, plan=plan)
    assert found.columns == ["event_id", "subscription_id", "subscriber"]
    assert rows_of(found) == []


# -- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("drop(volume)", r"no column 'volume' \(bigint\).*columns: day, symbol, close"),
        ("volume: string", "column 'volume' is string, but attribute 'volume' is bigint"),
        ("close: decimal(10,2)", r"column 'close' is decimal\(10,2\), .*is double"),
        ("close: bigint", "column 'close' is bigint, but attribute 'close' is double"),
        ("volume + Volume", "two columns, 'volume' and 'Volume', both mean the attribute"),
    ],
)
def test_columns_that_do_not_fit(spark, change, message):
    from pyspark.sql import functions as F  # noqa: N812

    events = quotes(spark)
    if change == "drop(volume)":
        events = events.drop("volume")
    elif ": " in change:
        name, type_ = change.split(": ")
        events = events.withColumn(name, F.col(name).cast(type_))
    else:
        events = events.select("*", F.lit(1).alias("Volume"))
    with pytest.raises(SourceError, match=message):
        match(events, wanted(spark), SCHEMA)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1 AS id, 'a' AS subscriber", "no column 'filter'"),
        ("1.5D AS id, 'a' AS subscriber, 'TRUE' AS filter", "column 'id' .* is double"),
        ("1 AS id, 'a' AS subscriber, TRUE AS filter", "column 'filter' .* is boolean"),
        ("1 AS id, 'a' AS subscriber, '' AS filter, '' AS Filter", "two columns 'filter'"),
    ],
)
def test_subscriptions_that_are_none(spark, columns, message):
    with pytest.raises(SourceError, match=message):
        match(quotes(spark), spark.sql(f"SELECT {columns}"), SCHEMA)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": "direct"}, "no plan 'direct' for DataFrames"),
        ({"on_rejected": "shout"}, "no on_rejected 'shout'"),
        ({"include": ["colour"]}, "include: no attribute 'colour'"),
        ({"include": ["close", "Close"]}, "two columns 'close'"),
    ],
)
def test_arguments_that_cannot_work(spark, options, message):
    with pytest.raises(UsageError, match=message):
        match(quotes(spark), wanted(spark), SCHEMA, **options)


def test_an_unbounded_stream_cannot_be_searched_for_repeated_ids(spark):
    stream = spark.readStream.format("rate").load()
    schema = schema_from_frame(stream, id=["value"])
    with pytest.raises(UsageError, match="keep_duplicates=True"):
        match(stream, wanted(spark, []), schema)


# -- a schema from a frame -----------------------------------------------------------------------


def test_schema_from_frame(spark):
    events = spark.sql(
        """SELECT 1Y AS a, named_struct('x', 1.50BD, 'y', named_struct('z', true)) AS b, 1F AS c,
        map(1, 2) AS d, X'00' AS e, TIMESTAMP'2020-01-01' AS f, DATE'2020-01-01' AS g, 1 AS _h"""
    )
    schema = schema_from_frame(events, id=["A"], name="mine")
    assert schema.name == "mine" and schema.id == ("a",)
    assert {each.name: str(each.type) for each in schema.attributes} == {
        "a": "int",
        "b.x": "decimal(3,2)",
        "b.y.z": "boolean",
        "c": "double",
        "f": "timestamp",
        "g": "date",
    }
    with pytest.raises(SchemaError, match="no attribute 'd'"):
        schema_from_frame(events, id=["d"])
    with pytest.raises(SourceError, match="no column of the DataFrame"):
        schema_from_frame(events.select("d", "e"), id=["d"])
