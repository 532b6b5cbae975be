"""The definition gives what Spark's own WHERE gives: true, false or unknown, event by event.

Random filters over random schemas and events, then named cases. Each Spark query evaluates many
filters as columns. RLIKE is left out: it has RE2's meaning, which is the one stated exception.
CROSSROADS_SPARK_EXAMPLES=500 runs a larger campaign with fresh randomness.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from crossroads.errors import FilterError
from crossroads.matching.definition import truth
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.testing.strategies import (
    Event,
    FilterText,
    event_lists,
    event_table,
    filter_twins,
    schemas,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CAMPAIGN = os.environ.get("CROSSROADS_SPARK_EXAMPLES")
EXAMPLES = int(CAMPAIGN or 12)  # queries; each takes about a second, nearly all of it planning
FILTERS_PER_EXAMPLE = 30
EVENTS_PER_EXAMPLE = 24


def spark_truths(
    spark: SparkSession, schema: Schema, events: Sequence[Event], texts: Sequence[str]
) -> list[list[bool | None]]:
    """For each event, what Spark says of each text."""
    from pyspark.sql.functions import expr

    frame = spark.createDataFrame(event_table(schema, events))
    columns = [expr(text).alias(f"f{at}") for at, text in enumerate(texts)]
    rows = frame.select("id", *columns).collect()
    by_id = {row["id"]: list(row)[1:] for row in rows}
    return [by_id[event["id"]] for event in events]


def assert_spark_agrees(
    spark: SparkSession, schema: Schema, events: Sequence[Event], twins: Sequence[FilterText]
) -> None:
    try:
        theirs = spark_truths(spark, schema, events, [twin.spark for twin in twins])
    except PySparkException as error:
        if len(twins) == 1:
            raise AssertionError(f"Spark refuses {twins[0].spark}: {str(error)[:400]}") from error
        half = len(twins) // 2
        assert_spark_agrees(spark, schema, events, twins[:half])
        assert_spark_agrees(spark, schema, events, twins[half:])
        return
    for at, twin in enumerate(twins):
        ours = parse(twin.text, schema)
        for event, row in zip(events, theirs, strict=True):
            assert truth(ours, event) is row[at], (twin, event, f"Spark: {row[at]}")


@settings(
    max_examples=EXAMPLES,
    derandomize=CAMPAIGN is None,
    database=None,
    phases=[Phase.generate],  # shrinking would take a query per step; the message names the pair
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_random_filters_mean_what_they_mean_in_spark(data, spark):
    schema = data.draw(schemas(max_attributes=8))
    events = data.draw(event_lists(schema, min_size=8, max_size=EVENTS_PER_EXAMPLE))
    twin = filter_twins(schema, depth=2, rlike=False)
    twins = data.draw(st.lists(twin, min_size=FILTERS_PER_EXAMPLE, max_size=FILTERS_PER_EXAMPLE))
    assert_spark_agrees(spark, schema, events, twins)


# -- named cases -------------------------------------------------------------------------------

NAMED = Schema.from_mapping(
    {
        "name": "named",
        "id": "id",
        "attributes": {
            "id": "bigint",
            "n": "int",
            "k": "bigint",
            "x": "double",
            "m": "decimal(10,2)",
            "w": "decimal(38,10)",
            "v": "decimal(38,10)",
            "s": "string",
            "t": "string",
            "flag": "boolean",
            "d": "date",
            "ts": "timestamp",
        },
    }
)


def _event(number: int, **known: object) -> Event:
    return dict.fromkeys(NAMED.names) | {"id": number} | known


_TEXTS = (
    *("", "it's", "a\nb", "A", "a", "a%b", "a\\%b", "a_b", "axb", "ab", "\\", '"', "%", "_", "!"),
    *(
        "é",
        "日本",
        "\ue000",
        "😀",
        "a😀b",
        "\0",
        "\x1a",
        "\t",
        "'",
        "u0041",
        "a\\b",
        "\b",
        "ß",
        "ſ",
    ),
)
_NUMBERS: tuple[dict[str, object], ...] = (
    {"n": 0, "k": 0, "x": 0.0, "m": Decimal("0.00")},
    {"n": 1, "k": 1, "x": -0.0, "m": Decimal("1.00")},
    {"n": 2, "k": 2**53, "x": float("nan"), "m": Decimal("2.50")},
    {"n": -(2**31), "k": 2**53 + 1, "x": float("inf"), "m": Decimal("-0.01")},
    {"n": 2**31 - 1, "k": 2**63 - 1, "x": float("-inf"), "m": Decimal("99999999.99")},
    {"n": 7, "k": -(2**63), "x": float(2**53), "m": Decimal("0.33")},
    # A product of 50 digits that would round differently if it were cut to 39 first.
    {"w": Decimal("575593762081255804.7315563592"), "v": Decimal("90362160157139.4732125373")},
    # More than the 34 digits that Spark's negation keeps.
    {"w": Decimal("12345678901234567890123456.7890123451"), "v": Decimal("0.0000000003")},
    {"w": Decimal("-12345678901234567890123456.7890123450"), "v": Decimal("3.0000000000")},
    {"w": Decimal("9999999999999999999999999999.9999999999"), "v": Decimal("0E-10")},
)
_MOMENTS: tuple[dict[str, object], ...] = (
    {"d": date(2020, 1, 31), "ts": datetime(2020, 1, 31, tzinfo=UTC)},
    {"d": date(2020, 2, 29), "ts": datetime(2020, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
    {"d": date(1, 1, 1), "ts": datetime(1, 1, 1, tzinfo=UTC)},
    {"d": date(9999, 12, 31), "ts": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
    {"d": date(1582, 10, 14), "ts": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
)
NAMED_EVENTS = [
    _event(number, **known)
    for number, known in enumerate(
        (
            {},
            *({"s": text, "t": other} for text, other in pairwise(_TEXTS)),
            *({"flag": flag} for flag in (True, False)),
            *_NUMBERS,
            *_MOMENTS,
        )
    )
]

CASES = {
    "strings and their escapes": (
        r"s = 'it''s'",
        r"s = 'it\'s'",
        r's = "it\'s"',
        's = "it\'s"',
        r's = """"',
        r"s = 'a\nb'",
        "s = 'a\nb'",
        r"s = '\%'",
        r"s = '\\%'",
        r"s = 'a\%b'",
        r"s = 'a\_b'",
        r"s = '\u0041'",
        r"s = '\U0001F600'",
        r"s = '\ud83d\ude00'",
        r"s = '\101'",
        r"s = '\0'",
        r"s = '\Z'",
        r"s = '\t'",
        r"s = '\b'",
        r"s = '\q'",
        r"s = '\u00'",
        r"s = 'u0041'",
        r"s = '\\'",
        "s IN ('\\'', '\"', \"'\")",
        r"s = ''",
    ),
    "byte order, also beyond the basic plane": (
        "s > '\ue000'",
        "s < '😀'",
        "s >= '日本'",
        "s BETWEEN 'A' AND 'a'",
        "s < t",
        "s <=> t",
        "s <> ''",
    ),
    "LIKE": (
        r"s LIKE 'a_b'",
        r"s LIKE 'a\_b'",
        r"s LIKE 'a\\_b'",
        r"s LIKE 'a\%b'",
        r"s LIKE 'a\\\\%b'",
        r"s LIKE '\\\\'",
        r"s LIKE '_'",
        r"s LIKE '__'",
        r"s LIKE 'a!_b' ESCAPE '!'",
        r"s LIKE '!!' ESCAPE '!'",
        r"s LIKE '%%' ESCAPE '%'",
        r"s LIKE '%'",
        r"s LIKE ''",
        r"s NOT LIKE 'a%'",
        r"NOT s LIKE '%b'",
        r"s LIKE 'a%b'",
        r"s NOT LIKE 'a!%b' ESCAPE '!'",
        r"s LIKE NULL",
        r"s NOT LIKE NULL",
        r"like(s, 'a%')",
        r"like(s, 'a!%b', '!')",
        r"startswith(s, '')",
        r"endswith(s, 'b')",
        r"contains(s, '😀')",
        r"contains(s, NULL)",
        r"startswith(s, t)",
        r"startswith('a\nb', s)",
    ),
    "NULL": (
        "n = NULL",
        "n <=> NULL",
        "NULL",
        "NOT NULL",
        "NULL AND FALSE",
        "NULL OR TRUE",
        "n IN (1, NULL)",
        "n NOT IN (1, NULL)",
        "n IN (NULL)",
        "NOT n IN (NULL)",
        "s IN ('a', NULL)",
        "n IS NULL AND k IS NOT NULL",
        "NULL IN (1, 2)",
        "NULL = NULL",
        "NULL <=> NULL",
        "flag <=> TRUE",
        "flag IN (TRUE, NULL)",
        "flag = FALSE",
        "NOT flag",
        "! flag",
        "flag < TRUE",
        "flag OR NULL",
        "NOT (flag AND n = 1)",
        "n BETWEEN NULL AND 3",
        "n NOT BETWEEN NULL AND 3",
    ),
    "NaN, the zeros, the infinities": (
        "x = x",
        "x = 0D",
        "x = -0.0D",
        "x = 0",
        "x <=> -0.0D",
        "x > 1e308",
        "x >= 1.7976931348623157E308",
        "x < 0",
        "x <> x",
        "x IN (0D)",
        "x IN (-0.0D, 1D)",
        "x > m",
        "x = k",
        "x + x = x",
        "x * 0 = 0",
    ),
    "numbers of mixed types": (
        "k = 9007199254740992D",
        "k = 9007199254740993",
        "k = 9007199254740993D",
        "k > 9007199254740992D",
        "k >= 9.223372036854775807e18",
        *(f"k {op} 9223372036854775808" for op in ("<", "<=", ">", ">=", "=", "<>", "<=>")),
        *(f"-9223372036854775809.5 {op} n" for op in ("<", "<=", ">", ">=", "=", "<>", "<=>")),
        "k < -(-9223372036854775808.5)",
        "k BETWEEN 0 AND 9223372036854775808",
        "k NOT BETWEEN 0 AND 9223372036854775808",
        "k IN (1, 9223372036854775808)",
        "x < 9223372036854775808",
        "m < 9223372036854775808",
        "k = -9223372036854775808",
        "k > 9223372036854775806.5",
        "n = 1.0",
        "n = 1.00BD",
        "n >= 0.5",
        "n < 2.5",
        "n <> 1.5",
        "n = -2147483648",
        "n > -2147483649",
        "n <= 2147483647L",
        "n IN (1, 2.0, 7D)",
        "n IN (1.0, 9007199254740993)",
        "k IN (9007199254740992D, 1)",
        "k IN (9007199254740993, 1.5)",
        "m = 2.5",
        "m = 2.500",
        "m > 0.333",
        "m = 0.33D",
        "m < 1e0",
        "m IN (1, 0.33, 2.500)",
        "m = n",
        "m > k",
        "n = k",
        "n < k",
        "007 = n",
        ".5 < n",
        "3. > n",
        "m = 25e-1BD",
        "m < 1e2BD",
    ),
    "dates and timestamps": (
        "d = '2020-01-31'",
        "d = '2020-1-31'",
        "d = DATE '2020-01-31'",
        "d IN ('2020-01-31', '2020-02-29')",
        "d IN (DATE '2020-01-31', '2020-02-29', NULL)",
        "d BETWEEN '2020-01-01' AND DATE '2020-02-28'",
        "d < ts",
        "d = ts",
        "d = TIMESTAMP '2020-01-31 00:00:00'",
        "d < TIMESTAMP '2020-01-31 00:00:01'",
        "ts = DATE '2020-01-31'",
        "ts > '2020-01-31'",
        "ts = '2020-01-31 00:00:00'",
        "ts = '2020-01-31T00:00:00Z'",
        "ts = '2020-01-31 02:00:00+02:00'",
        "ts <= '2020-01-31 23:59:59.999999'",
        "ts > '2020-01-31 23:59:59.99'",
        "ts IN ('2020-01-31', TIMESTAMP '1970-01-01')",
        "ts < TIMESTAMP '1970-01-01'",
        "ts >= '9999-12-31 23:59'",
        "d >= '9999-12-31'",
        "d = '0001-01-01'",
        "d < '1582-10-15'",
        "date '2020-01-31' = d",
    ),
    "what binds tighter": (
        "NOT n = 1 AND k = 1",
        "NOT n = 1 OR k = 1",
        "n = 1 OR n = 2 AND k = 1",
        "! n = 1 AND k = 1",
        "NOT n BETWEEN 1 AND 2 AND k > 0",
        "n BETWEEN 0 AND 2 OR flag",
        "NOT n IS NULL AND n < 7",
        "NOT s LIKE 'a%' AND s < 'b'",
        "NOT NOT flag",
        "x - 1 - 1 = -2",
        "x - (1 - 1) = 0",
        "x + 2 * 3 = 6",
        "(x + 2) * 3 = 6",
        "x / 2 * 2 = x",
        "- x + 1 = 1",
        "-(x + 1) = -1",
        "- - x = x",
        "x - -1 = 1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases_mean_what_they_mean_in_spark(name, spark):
    assert_spark_agrees(
        spark, NAMED, NAMED_EVENTS, [FilterText(text, text) for text in CASES[name]]
    )


# Ours with operators, Spark's with the functions that give NULL on overflow.
CALCULATIONS = (
    ("m / 3 = 0.11", "try_divide(m, 3) = 0.11"),
    ("m / 3 > 0.1099999", "try_divide(m, 3) > 0.1099999"),
    ("m / 3 = 0.83333333333", "try_divide(m, 3) = 0.83333333333"),
    ("m / 3L >= 0.8333333", "try_divide(m, 3L) >= 0.8333333"),
    ("m / n > 0", "try_divide(m, n) > 0"),
    ("m / -7 < 0", "try_divide(m, -7) < 0"),
    ("m / -(7) < -0.047142857142", "try_divide(m, -(7)) < -0.047142857142"),
    ("m * 1.234 = 3.085", "try_multiply(m, 1.234) = 3.085"),
    ("m * m * m > 1", "try_multiply(try_multiply(m, m), m) > 1"),
    ("n + m = 2", "try_add(n, m) = 2"),
    ("k + m > 9007199254740990", "try_add(k, m) > 9007199254740990"),
    ("n + 1 IS NULL", "try_add(n, 1) IS NULL"),
    ("n - 1 IS NULL", "try_subtract(n, 1) IS NULL"),
    ("k * 2 IS NULL", "try_multiply(k, 2) IS NULL"),
    ("n + 1L > 2147483647", "try_add(n, 1L) > 2147483647"),
    ("n / 2 = 0.5", "try_divide(n, 2) = 0.5"),
    ("n / 0 IS NULL", "try_divide(n, 0) IS NULL"),
    ("x / 0 IS NULL", "try_divide(x, 0) IS NULL"),
    ("m / 0.0 IS NULL", "try_divide(m, 0.0) IS NULL"),
    ("k / 3 > 3002399751580330.5", "try_divide(k, 3) > 3002399751580330.5"),
    ("m + x > 1", "try_add(m, x) > 1"),
    ("n + NULL IS NULL", "try_add(n, NULL) IS NULL"),
    (
        "w * v = 52011895714636870585952717202348.034102",
        "try_multiply(w, v) = 52011895714636870585952717202348.034102",
    ),
    (
        "w * v = 52011895714636870585952717202348.034101",
        "try_multiply(w, v) = 52011895714636870585952717202348.034101",
    ),
    ("w * w IS NULL", "try_multiply(w, w) IS NULL"),
    ("w / v IS NULL", "try_divide(w, v) IS NULL"),
    ("w / v > 4115226300411522630041152", "try_divide(w, v) > 4115226300411522630041152"),
    ("w + w IS NULL", "try_add(w, w) IS NULL"),
    ("w + v > 12345678901234567890123459", "try_add(w, v) > 12345678901234567890123459"),
)


def test_calculations_mean_what_they_mean_in_spark(spark):
    twins = [FilterText(*pair) for pair in CALCULATIONS]
    assert_spark_agrees(spark, NAMED, NAMED_EVENTS, twins)


def test_negation_rounds_long_decimals_as_spark_does(spark):
    events = [event for event in NAMED_EVENTS if str(event["w"])[:4] != "9999"]
    texts = (
        "-w = -12345678901234567890123456.78901235",
        "-w = 12345678901234567890123456.7890123450",
        "-w < 0",
        "-w + w = 0",
        "-(-(w)) = w",
    )
    assert_spark_agrees(spark, NAMED, events, [FilterText(text, text) for text in texts])


def test_what_spark_refuses_is_refused(spark):
    for text in (r"s LIKE 'a\\'", r"s LIKE '\\a'", "s = 'a", "n = 1 2", "nope = 1", "n = 5x"):
        with pytest.raises(FilterError):
            parse(text, NAMED)
        with pytest.raises(PySparkException):
            spark_truths(spark, NAMED, NAMED_EVENTS, [text])
