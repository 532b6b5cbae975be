"""RLIKE for Spark plans: which patterns match an event's text, found with RE2, as a column.

Spark's own RLIKE means something else, so the patterns are numbered by attribute and each text is
searched for all of its attribute's patterns by an Arrow UDF, once, before events meet filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own habit)
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, IntegerType

from crossroads.model.filter import Attr, Filter, Literal, RLike, predicates
from crossroads.model.regex import compile_regex, regex_search
from crossroads.pipeline.columns import quoted
from crossroads.pipeline.parameters import Parametrised


class RegexHits:
    """Numbers the patterns of a set of filters; adds the columns that say which ones match."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}  # by attribute: pattern → its number

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> RegexHits:
        """Of filters whose patterns are constants."""
        hits = cls()
        for filter_ in filters:
            for leaf in _searches(filter_):
                hits._number(leaf, str(leaf.pattern.value))
        return hits

    @classmethod
    def of_parameters(cls, one: Parametrised) -> tuple[RegexHits, Parametrised]:
        """Of filters whose patterns are a column; the column then holds the numbers."""
        hits = cls()
        columns = list(one.columns)
        for leaf in _searches(one.template):
            assert leaf.pattern.source is not None
            at = leaf.pattern.source[0]
            encoded = one.columns[at].dictionary_encode()
            numbers = [hits._number(leaf, text) for text in encoded.dictionary.to_pylist()]
            columns[at] = pa.array(numbers, pa.int32()).take(encoded.indices)
        return hits, Parametrised(one.template, one.ordinals, tuple(columns))

    def _number(self, leaf: RLike, pattern: str) -> int:
        assert isinstance(leaf.operand, Attr)
        known = self._numbers.setdefault(leaf.operand.name, {})
        return known.setdefault(pattern, len(known))

    def added_to(self, events: DataFrame) -> DataFrame:
        found = [
            _finder(tuple(known))(F.col(quoted(name))).alias(self._column(name))
            for name, known in self._numbers.items()
        ]
        return events.select("*", *found) if found else events

    def constant(self, leaf: RLike) -> Column:
        """The answer to an RLIKE whose pattern is a constant."""
        if isinstance(leaf.operand, Literal):
            return _settled(leaf)
        return self._asked(leaf, F.lit(self._number(leaf, str(leaf.pattern.value))))

    def parameter(self, leaf: RLike, number: Column) -> Column:
        """The answer to an RLIKE whose pattern's number is in a column."""
        if isinstance(leaf.operand, Literal):
            return _settled(leaf)
        return self._asked(leaf, number)

    def _asked(self, leaf: RLike, number: Column) -> Column:
        assert isinstance(leaf.operand, Attr)
        # NULL for NULL text: then the whole list is NULL.
        return F.array_contains(F.col(self._column(leaf.operand.name)), number)

    def _column(self, name: str) -> str:
        return f"_hits_{list(self._numbers).index(name)}"


def _searches(filter_: Filter) -> list[RLike]:
    return [
        leaf
        for leaf in predicates(filter_)
        if isinstance(leaf, RLike) and isinstance(leaf.operand, Attr)
    ]


def _settled(leaf: RLike) -> Column:
    assert isinstance(leaf.operand, Literal)
    text = leaf.operand.value
    known = None if text is None else regex_search(str(leaf.pattern.value), str(text))
    return F.lit(known).cast("boolean")


def _finder(patterns: tuple[str, ...]) -> Callable[[Column], Column]:
    def find(texts: pa.Array) -> pa.Array:
        return matching_patterns(patterns, texts)

    # The kind of UDF is read off the hints of `find`; the stubs know only the way that warns.
    finder: Callable[[Column], Column] = arrow_udf(find, ArrayType(IntegerType()))  # type: ignore[call-overload]
    return finder


def matching_patterns(patterns: tuple[str, ...], texts: pa.Array) -> pa.Array:
    """Per text the numbers of the patterns found in it; NULL for NULL. Distinct texts are few."""
    compiled = [compile_regex(pattern) for pattern in patterns]
    encoded = texts.dictionary_encode()
    lists = [
        [number for number, regex in enumerate(compiled) if regex.search(text) is not None]
        for text in encoded.dictionary.to_pylist()
    ]
    return pa.array(lists, pa.list_(pa.int32())).take(encoded.indices)
