"""Two versions of a subscription table: what was added, removed and changed between them.

What cannot make a difference is left out: subscriptions with the same id, the same subscriber and
the same filter, in words or (`reworded`) in meaning as it was parsed. The rest becomes a table of
**asked** filters to match: one for what was added, removed or only given to another subscriber, and
two, the old and the new one, for a filter that changed. A subscription that is rejected in a table
notifies nobody, as if it were not in it; but nobody has removed or added it, and so it is called
what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.model.filter import Filter
from crossroads.model.instantiate import instantiate
from crossroads.model.shapes import FilterTable
from crossroads.pipeline.subscriptions import SubscriptionSet

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Kind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    FILTER = "filter changed"
    SUBSCRIBER = "subscriber changed"
    BOTH = "filter and subscriber changed"
    REJECTED_NOW = "rejected now"
    REJECTED_BEFORE = "rejected before"


class Side(StrEnum):
    """What a match of an asked filter means: it was notified before, it is now, or both."""

    OLD = "old"
    NEW = "new"
    MOVED = "moved"  # before to the old subscriber, now to the new one


@dataclass(frozen=True)
class Change:
    """One subscription that differs. What does not exist on a side is None."""

    id: str
    kind: Kind
    old_subscriber: str | None
    new_subscriber: str | None
    old_filter: str | None
    new_filter: str | None

    def asked(self) -> tuple[tuple[Side, str], ...]:
        """The filters to match for it."""
        if self.kind is Kind.SUBSCRIBER:
            assert self.new_filter is not None
            return ((Side.MOVED, self.new_filter),)
        sides = ((Side.OLD, self.old_filter), (Side.NEW, self.new_filter))
        return tuple((side, text) for side, text in sides if text is not None)


@dataclass(frozen=True)
class Comparison:
    changes: tuple[Change, ...]
    unchanged: int  # word for word
    reworded: int  # another text for the same filter

    def counts(self) -> dict[str, int]:
        found = dict.fromkeys(Kind, 0)
        for change in self.changes:
            found[change.kind] += 1
        by_kind = {kind.value: count for kind, count in found.items()}
        return {**by_kind, "reworded": self.reworded, "unchanged": self.unchanged}


def compare(old: SubscriptionSet, new: SubscriptionSet) -> Comparison:
    """What is different between two tables that were read with one schema."""
    old_usable, new_usable = _usable(old), _usable(new)
    found = pc.index_in(new.ids, value_set=old.ids).fill_null(-1).to_numpy(zero_copy_only=False)
    kept = new_usable & (found >= 0)
    kept[kept] = old_usable[found[kept]]
    new_rows, old_rows = np.flatnonzero(kept), found[kept].astype(np.int64)
    same_subscriber = _equal(new.subscribers, new_rows, old.subscribers, old_rows)
    same_text = _equal(new.filters, new_rows, old.filters, old_rows)
    same_filter = same_text.copy()
    same_filter[~same_text] = _same_meaning(
        new.table, new_rows[~same_text], old.table, old_rows[~same_text]
    )
    gone = old_usable.copy()
    gone[old_rows] = False
    broken_before, broken_now = old.rejected_ids, new.rejected_ids
    differ = np.flatnonzero(~(same_subscriber & same_filter))
    changes = [
        *(_removed(old, row, broken_now) for row in np.flatnonzero(gone).tolist()),
        *(_added(new, row, broken_before) for row in np.flatnonzero(new_usable & ~kept).tolist()),
        *(
            _changed(
                (old, int(old_rows[at])),
                (new, int(new_rows[at])),
                same_filter=bool(same_filter[at]),
                same_subscriber=bool(same_subscriber[at]),
            )
            for at in differ.tolist()
        ),
    ]
    same = same_subscriber & same_filter
    return Comparison(
        tuple(sorted(changes, key=lambda change: change.id)),
        unchanged=int(np.count_nonzero(same & same_text)),
        reworded=int(np.count_nonzero(same & ~same_text)),
    )


def _usable(table: SubscriptionSet) -> Mask:
    found = np.ones(len(table.ids), np.bool_)
    found[list(table.table.errors)] = False
    return found


def _equal(left: pa.Array, left_rows: Ints, right: pa.Array, right_rows: Ints) -> Mask:
    same = pc.equal(left.take(pa.array(left_rows)), right.take(pa.array(right_rows)))
    return np.array(same.to_numpy(zero_copy_only=False), np.bool_)


def _same_meaning(
    left: FilterTable, left_rows: Ints, right: FilterTable, right_rows: Ints
) -> list[bool]:
    """Whether the texts were parsed to equal filters: other blanks, letters, ways to write 5."""
    pairs = zip(_filters(left, left_rows), _filters(right, right_rows), strict=True)
    return [one == other for one, other in pairs]


def _filters(table: FilterTable, rows: Ints) -> Iterator[Filter]:
    """The typed filters in some rows; those have no errors."""
    group = np.full(table.size, -1, np.int64)
    place = np.zeros(table.size, np.int64)
    for number, one in enumerate(table.groups):
        group[one.rows] = number
        place[one.rows] = np.arange(len(one.rows))
    for row in rows.tolist():
        if row in table.singles:
            yield table.singles[row]
        else:
            yield instantiate(table.groups[group[row]], int(place[row]))


def _cells(table: SubscriptionSet, row: int) -> tuple[str, str, str]:
    return table.ids[row].as_py(), table.subscribers[row].as_py(), table.filters[row].as_py()


def _removed(old: SubscriptionSet, row: int, broken_now: frozenset[str]) -> Change:
    id_, subscriber, filter_ = _cells(old, row)
    kind = Kind.REJECTED_NOW if id_ in broken_now else Kind.REMOVED
    return Change(id_, kind, subscriber, None, filter_, None)


def _added(new: SubscriptionSet, row: int, broken_before: frozenset[str]) -> Change:
    id_, subscriber, filter_ = _cells(new, row)
    kind = Kind.REJECTED_BEFORE if id_ in broken_before else Kind.ADDED
    return Change(id_, kind, None, subscriber, None, filter_)


def _changed(
    old: tuple[SubscriptionSet, int],
    new: tuple[SubscriptionSet, int],
    *,
    same_filter: bool,
    same_subscriber: bool,
) -> Change:
    id_, old_subscriber, old_filter = _cells(*old)
    _, new_subscriber, new_filter = _cells(*new)
    kind = Kind.FILTER if same_subscriber else Kind.SUBSCRIBER if same_filter else Kind.BOTH
    return Change(id_, kind, old_subscriber, new_subscriber, old_filter, new_filter)
