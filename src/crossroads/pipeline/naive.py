"""Plan `naive`: the definition as Spark's own nested-loop join. The reference, and the rival.

Filters of one shape are one join: events × a broadcast table of literals, under the shape's
condition. What shares no shape is asked filter by filter, many in one pass over the events. Each
join reads the events anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql import types as T  # noqa: N812

from crossroads.model.filter import Filter, Literal, RLike
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.columns import EVENT_ROW, ORDINAL, Conditions, literal_column, quoted
from crossroads.pipeline.parameters import FILTERS_PER_PASS, Parametrised, parametrise
from crossroads.pipeline.regexhits import RegexHits

_TRUE = "_true"


def naive_pairs(
    events: DataFrame, table: FilterTable, *, keep: Sequence[str] = (EVENT_ROW,)
) -> DataFrame:
    """Every pair that matches, once: the columns to `keep` of the event, and `_ordinal` (int).

    `events` has the attributes of the table's schema as flat columns, besides those to keep.
    """
    shared, alone = parametrise(table)
    return pairs_of(events, shared, alone, keep=keep)


def pairs_of(
    events: DataFrame,
    shared: Sequence[Parametrised],
    alone: Mapping[int, Filter],
    *,
    keep: Sequence[str],
) -> DataFrame:
    """The same for filters that are parametrised already."""
    found = [_joined(events, one, keep) for one in shared]
    found += _asked(events, alone, keep)
    return reduce(DataFrame.unionAll, found) if found else nothing(events, keep)


def nothing(events: DataFrame, keep: Sequence[str]) -> DataFrame:
    """The pairs of no filters."""
    kept = [field for field in events.schema.fields if field.name in keep]
    schema = T.StructType([*kept, T.StructField(ORDINAL, T.IntegerType())])
    return events.sparkSession.createDataFrame([], schema)


def kept(keep: Sequence[str]) -> list[Column]:
    """The columns of events that pairs carry along."""
    return [F.col(quoted(name)) for name in keep]


# -- filters of one shape ------------------------------------------------------------------------


def _joined(events: DataFrame, one: Parametrised, keep: Sequence[str]) -> DataFrame:
    hits, one = RegexHits.of_parameters(one)
    rows = pa.array(one.ordinals, pa.int32())
    true = pa.repeat(pa.scalar(True), len(rows))
    table = pa.table({ORDINAL: rows, _TRUE: true, **literal_columns(one)})
    right = F.broadcast(events.sparkSession.createDataFrame(table))
    left = hits.added_to(events)
    condition = shape_condition(one, hits)
    if one.columns:
        # Spark would take an equality out of the condition and make a hash join of it. Compared
        # with a column whose values it does not know, the condition stays what it is: one
        # question about a pair.
        joined = left.join(right, condition == F.col(_TRUE))
    else:
        joined = left.where(condition).crossJoin(right)
    return joined.select(*kept(keep), ORDINAL)


def literal_columns(one: Parametrised) -> dict[str, pa.Array]:
    """The table of literals that the condition of a shape refers to."""
    return {f"_p{k}": column for k, column in enumerate(one.columns)}


def shape_condition(one: Parametrised, hits: RegexHits) -> Column:
    """About a row that has an event's attributes and a filter's literals."""

    def pattern(leaf: RLike) -> Column:
        return hits.parameter(leaf, _parameter(leaf.pattern))

    return Conditions(_parameter, pattern).condition(one.template)


def _parameter(literal: Literal) -> Column:
    return literal_column(literal) if literal.source is None else F.col(f"_p{literal.source[0]}")


# -- the others ----------------------------------------------------------------------------------


def _asked(
    events: DataFrame, filters: Mapping[int, Filter], keep: Sequence[str]
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
        yield hits.added_to(events).select(*kept(keep), matched)
