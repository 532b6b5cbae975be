"""Plan `naive`: the definition as Spark's own nested-loop join. The reference, and the rival.

Filters of one shape are one join: events × a broadcast table of literals, under the shape's
condition. What shares no shape is asked filter by filter, many in one pass over the events. Each
join reads the events anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.model.filter import Filter, Literal, RLike
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.columns import EVENT_ROW, ORDINAL, Conditions, literal_column, quoted
from crossroads.pipeline.parameters import Parametrised, parametrise
from crossroads.pipeline.regexhits import RegexHits

FILTERS_PER_PASS = (
    256  # asked in one pass: a larger expression takes Spark longer to plan than to run
)
_TRUE = "_true"


def naive_pairs(
    events: DataFrame, table: FilterTable, *, keep: Sequence[str] = (EVENT_ROW,)
) -> DataFrame:
    """Every pair that matches, once: the columns to `keep` of the event, and `_ordinal` (int).

    `events` has the attributes of the table's schema as flat columns, besides those to keep.
    """
    shared, alone = parametrise(table)
    found = [_joined(events, one, keep) for one in shared]
    found += _asked(events, alone, keep)
    return reduce(DataFrame.unionAll, found) if found else _nothing(events, keep)


def _nothing(events: DataFrame, keep: Sequence[str]) -> DataFrame:
    kept = [field for field in events.schema.fields if field.name in keep]
    schema = T.StructType([*kept, T.StructField(ORDINAL, T.IntegerType())])
    return events.sparkSession.createDataFrame([], schema)


def _kept(keep: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in keep]


# -- filters of one shape ------------------------------------------------------------------------


def _joined(events: DataFrame, one: Parametrised, keep: Sequence[str]) -> DataFrame:
    hits, one = RegexHits.of_parameters(one)
    literals = {f"_p{k}": column for k, column in enumerate(one.columns)}
    rows = pa.array(one.ordinals, pa.int32())
    true = pa.repeat(pa.scalar(True), len(rows))
    table = pa.table({ORDINAL: rows, _TRUE: true, **literals})
    right = F.broadcast(events.sparkSession.createDataFrame(table))
    left = hits.added_to(events)
    condition = Conditions(_parameter, lambda leaf: _pattern(hits, leaf)).condition(one.template)
    if one.columns:
        # Spark would take an equality out of the condition and make a hash join of it. Compared
        # with a column whose values it does not know, the condition stays what it is: one
        # question about a pair.
        joined = left.join(right, condition == F.col(_TRUE))
    else:
        joined = left.where(condition).crossJoin(right)
    return joined.select(*_kept(keep), ORDINAL)


def _parameter(literal: Literal) -> Column:
    return literal_column(literal) if literal.source is None else F.col(f"_p{literal.source[0]}")


def _pattern(hits: RegexHits, leaf: RLike) -> Column:
    return hits.parameter(leaf, _parameter(leaf.pattern))


# -- the others ----------------------------------------------------------------------------------


def _asked(
    events: DataFrame, filters: dict[int, Filter], keep: Sequence[str]
) -> Iterator[DataFrame]:
    every = sorted(filters.items())
    for start in range(0, len(every), FILTERS_PER_PASS):
        some = every[start : start + FILTERS_PER_PASS]
        hits = RegexHits.of(filter_ for _, filter_ in some)
        conditions = Conditions(literal_column, hits.constant)
        answers = [
            F.when(conditions.condition(filter_), F.lit(ordinal)) for ordinal, filter_ in some
        ]
        matched = F.explode(F.array_compact(F.array(*answers))).alias(ORDINAL)
        yield hits.added_to(events).select(*_kept(keep), matched)
