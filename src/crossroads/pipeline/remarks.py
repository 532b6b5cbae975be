"""What is odd about filters that are right: impossible, all-embracing, slow, or about other values.

Filters of one shape are examined together, column by column, so that a million take seconds. What
can only be seen filter by filter (`cover`) is looked at for at most `EXAMINED_MAX` of them, evenly
spread; `Remarks` says how many that were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.matching.definition import truth
from crossroads.matching.explain import explain
from crossroads.matching.patternkeys import pattern_key
from crossroads.model.columnar import Alternative, Bound, TooManyAlternatives, alternatives
from crossroads.model.filter import (
    Filter,
    In,
    Like,
    Predicate,
    RLike,
    TextTest,
    attributes,
    attributes_of,
    operands,
    predicates,
)
from crossroads.model.instantiate import instantiate, split_likes
from crossroads.model.intervals import all_values
from crossroads.model.normal import BOXES_MAX, Check, Cover, cover
from crossroads.model.shapes import FilterTable, ShapeGroup
from crossroads.model.types import Type, key_bounds
from crossroads.pipeline.domains import Doubt, doubtful_constants, doubtful_rows

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EXAMINED_MAX = 20_000  # filters looked at one by one: about two seconds


class Oddity(StrEnum):
    """Kinds of remarks, in words for people."""

    NEVER = "can never match"
    ALWAYS = "matches every event"
    SLOW = "slow: tried on every event"
    NO_SUCH_VALUE = "value that does not exist"
    OUTSIDE_DOMAIN = "constant outside the domain"
    BROAD = "matches most events of the sample"


@dataclass(frozen=True, slots=True)
class Remark:
    """One oddity of many filters; `describe(i)` is the sentence about `rows[i]`."""

    kind: Oddity
    rows: Ints
    describe: Callable[[int], str]


@dataclass(slots=True)
class Remarks:
    found: list[Remark] = field(default_factory=list)
    one_by_one: int = 0  # filters that only an examination of each can judge fully
    examined: int = 0  # of those: how many were examined

    def add(self, kind: Oddity, rows: Iterable[int], describe: Callable[[int], str]) -> None:
        chosen = rows if isinstance(rows, np.ndarray) else np.fromiter(rows, np.int64)
        if chosen.size:
            self.found.append(Remark(kind, chosen, describe))


@dataclass(frozen=True, slots=True)
class _Pending:
    """Filters to be examined one by one, and what to look for."""

    rows: Ints
    filter: Callable[[int], Filter]
    kinds: frozenset[Oddity]


_BY_COVER = frozenset({Oddity.NEVER, Oddity.ALWAYS, Oddity.SLOW})
_BY_CONSTANT = frozenset({Oddity.NO_SUCH_VALUE, Oddity.OUTSIDE_DOMAIN})


def remarks_on(table: FilterTable, examined_max: int = EXAMINED_MAX) -> Remarks:
    remarks = Remarks()
    pending: list[_Pending] = []
    for group in table.groups:
        _constants_of_group(remarks, table, group)
        for part in split_likes(group):
            pending += _judge_group(remarks, part)
    if table.singles:
        rows = np.sort(np.fromiter(table.singles, np.int64))  # a sample is spread over the file
        single = partial(_single, table, rows)
        pending.append(_Pending(rows, single, _BY_COVER | _BY_CONSTANT))
    _examine(remarks, table, pending, examined_max)
    return remarks


def _single(table: FilterTable, rows: Ints, at: int) -> Filter:
    return table.singles[int(rows[at])]


# -- a whole shape at once -----------------------------------------------------------------------


def _judge_group(remarks: Remarks, group: ShapeGroup) -> Iterator[_Pending]:
    found = columnar_alternatives(group)
    if found is None:
        yield _Pending(group.rows, partial(instantiate, group), _BY_COVER)
        return
    never = np.ones(group.rows.size, np.bool_)
    for one in found:
        never &= empty_rows(one, group.rows.size)
    remarks.add(Oddity.NEVER, group.rows[never], lambda _: NEVER_TEXT)
    slow = next((check for one in found if (check := _slow_check(one)) is not None), None)
    if slow is not None:
        remarks.add(Oddity.SLOW, group.rows[~never], _slow_sentences(group, slow, ~never))
    # Who matches everything matches an event of NULLs, whatever the constants: rarely so.
    if truth(group.template, {}) is True:
        kinds = frozenset({Oddity.ALWAYS})
        yield _Pending(group.rows, partial(instantiate, group), kinds)


def columnar_alternatives(group: ShapeGroup) -> list[Alternative] | None:
    """As the index compiles them; None where it takes the filters one by one."""
    if any(isinstance(leaf, Like) for leaf in predicates(group.template)):
        return None
    try:
        return alternatives(group)
    except TooManyAlternatives:
        return None


def empty_rows(one: Alternative, size: int) -> Bools:
    """In which rows no event can lie in all sides of the alternative."""
    nulls = {side.dimension.attribute for side in one.sides if side.null}
    if any(not side.null and side.dimension.attribute in nulls for side in one.sides):
        return np.ones(size, np.bool_)
    empty = np.zeros(size, np.bool_)
    for dimension in {side.dimension for side in one.sides if not side.null}:
        here = [side for side in one.sides if side.dimension == dimension]
        least, most = _bounds_of(here[0].type)
        lows = [least, *(side.low for side in here)]
        highs = [most, *(side.high for side in here)]
        # Intervals have a common point exactly when no one begins after another one's end.
        for low in lows:
            for high in highs:
                if low is not None and high is not None and not (low is least and high is most):
                    empty |= _apart(low, high)
    return empty


def _bounds_of(type_: Type) -> tuple[Bound | None, Bound | None]:
    if type_.wide:
        return None, None  # only NULL tests come by column, and they have no bounds
    low, high = key_bounds(type_)
    if isinstance(low, bytes):
        return Bound(pa.scalar(low, pa.large_binary())), None
    assert isinstance(high, int)
    return Bound(np.array([low], np.int64)), Bound(np.array([high - 1], np.int64))


def _apart(low: Bound, high: Bound) -> Bools:
    """Nothing lies above the one bound and below the other."""
    touching = low.strict or high.strict
    if isinstance(low.constants, np.ndarray) and isinstance(high.constants, np.ndarray):
        a, b = low.constants, high.constants
        apart: Bools = (a >= b) if touching else (a > b)
        return apart | (a + 1 == b) if low.strict and high.strict else apart
    compare = pc.greater_equal if touching else pc.greater
    found: Bools = np.asarray(compare(low.constants, high.constants))
    return found


def _slow_check(one: Alternative) -> Check | None:
    bounded = any(side.null or side.low or side.high for side in one.sides)
    return None if bounded else unaided_check(one.checks)


def _slow_sentences(group: ShapeGroup, check: Check, chosen: Bools) -> Callable[[int], str]:
    part = ShapeGroup(check.predicate, group.rows, group.slots).take(np.flatnonzero(chosen))

    def describe(at: int) -> str:
        predicate = instantiate(part, at)
        return slow_text(Check(predicate, check.wanted))  # type: ignore[arg-type]

    return describe


def _constants_of_group(remarks: Remarks, table: FilterTable, group: ShapeGroup) -> None:
    for doubt, rows in doubtful_rows(group, table.schema):
        kind = Oddity.NO_SUCH_VALUE if doubt is Doubt.NO_SUCH_VALUE else Oddity.OUTSIDE_DOMAIN

        def describe(at: int, rows: Ints = rows, doubt: Doubt = doubt) -> str:
            found = doubtful_constants(instantiate(group, int(rows[at])), table.schema)
            return "; ".join(text for kind, text in found if kind is doubt)

        remarks.add(kind, group.rows[rows], describe)


# -- one by one ----------------------------------------------------------------------------------


def _examine(
    remarks: Remarks, table: FilterTable, pending: list[_Pending], examined_max: int
) -> None:
    remarks.one_by_one = sum(each.rows.size for each in pending)
    share = min(1.0, examined_max / max(1, remarks.one_by_one))
    said: dict[Oddity, list[tuple[int, str]]] = {}
    for each in pending:
        count = max(1, int(each.rows.size * share))
        places = np.unique(np.linspace(0, each.rows.size - 1, count).astype(np.int64))
        remarks.examined += places.size
        for at in places.tolist():
            for kind, text in examine(each.filter(at), table, each.kinds):
                said.setdefault(kind, []).append((int(each.rows[at]), text))
    for kind, found in said.items():
        remarks.add(kind, (row for row, _ in found), partial(_said, found))


def _said(found: list[tuple[int, str]], at: int) -> str:
    return found[at][1]


def examine(
    filter_: Filter, table: FilterTable, kinds: frozenset[Oddity] = _BY_COVER | _BY_CONSTANT
) -> Iterator[tuple[Oddity, str]]:
    """Everything odd about one filter."""
    if kinds & _BY_COVER:
        found = _by_cover(filter_)
        if found is not None and found[0] in kinds:
            yield found
    if kinds & _BY_CONSTANT:
        by_doubt: dict[Doubt, list[str]] = {}
        for doubt, text in doubtful_constants(filter_, table.schema):
            by_doubt.setdefault(doubt, []).append(text)
        for doubt, texts in by_doubt.items():
            unknown = doubt is Doubt.NO_SUCH_VALUE
            yield (Oddity.NO_SUCH_VALUE if unknown else Oddity.OUTSIDE_DOMAIN), "; ".join(texts)


def _by_cover(filter_: Filter) -> tuple[Oddity, str] | None:
    if not attributes(filter_):  # 1 = 1: decided before any event comes
        always = truth(filter_, {}) is True
        return (Oddity.ALWAYS, ALWAYS_TEXT) if always else (Oddity.NEVER, NEVER_TEXT)
    found = cover(filter_)
    if not found.alternatives:
        return Oddity.NEVER, NEVER_TEXT
    if found.exact and any(one.is_everything for one in found.alternatives):
        return Oddity.ALWAYS, ALWAYS_TEXT
    why = _slow_cover(found)
    return None if why is None else (Oddity.SLOW, why)


def _slow_cover(found: Cover) -> str | None:
    for one in found.alternatives:
        if any(values != all_values(values.type) for values in one.box.values()):
            continue
        if not found.exact:
            return f"over {BOXES_MAX} alternatives that have no range in common; {_SPLIT_IT}"
        check = unaided_check(one.checks)
        if check is not None:
            return slow_text(check)
    return None


# -- what makes a filter slow --------------------------------------------------------------------

NEVER_TEXT = "its conditions contradict each other, or one of them is never true"
ALWAYS_TEXT = "it is true of every event, whatever its values"
_NARROW_IT = "add AND with a constant, such as an equality or a range on an attribute"
_SPLIT_IT = "make several subscriptions of it"


def unaided_check(checks: Iterable[Check]) -> Check | None:
    """A check of a filter without any range, unless a text pattern leads to its events."""
    asked = list(checks)
    if pattern_key(asked) is not None:
        return None
    # Outside a list lies nearly everything: the matches cost more than the checks.
    slow = [check for check in asked if not isinstance(check.predicate, In)]
    return min(slow, key=str) if slow else None


def slow_text(check: Check) -> str:
    """Why, and what to do."""
    said = readable(check.predicate)
    shown = said if check.wanted else f"NOT ({said})"
    match check.predicate:
        case Like() if check.wanted:
            why = "a pattern without any plain text cannot be looked up"
        case TextTest() | Like() | RLike() if not check.wanted:
            why = "what a text does not contain cannot be looked up"
        case predicate:
            several = len(_attributes(predicate)) > 1
            why = "compares attributes with each other" if several else "calculates for each event"
    return f"{shown}: {why}; {_NARROW_IT}"


def readable(predicate: Predicate) -> str:
    """A predicate as a person would write it."""
    return explain(predicate, {}).text


def _attributes(predicate: Predicate) -> set[str]:
    return {attr.name for side in operands(predicate) for attr in attributes_of(side)}
