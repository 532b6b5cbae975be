"""Which sampled subscriptions are expensive, why, and what would help.

A subscription costs by the events it is asked about, and by those it is told of. Where it is found
by a key, only events at that key ask it; without one, all of them do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.pipeline.keyedsample import KeyedSample, SampledCells
from crossroads.pipeline.prices import PRICES
from crossroads.pipeline.remarks import Oddity, Remark, remarks_on
from crossroads.pipeline.situation import Surveyed
from crossroads.pipeline.wording import share_text, shortened

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SHOWN_MAX = 10  # subscriptions described; the counts are of all that were sampled
ALIKE_MAX = 3  # of them with the same reasons: ten of one kind say no more than a few
FILTER_LENGTH_SHOWN = 120  # characters
ID_LENGTH_SHOWN = 60
BROAD_SHARE = 0.1  # of the events: a subscription that is told of more is worth a look
MANY_CELLS_SHARE = 0.125  # of the cells: from here on, keys hardly help to find it
TEXT_NS = 2.0  # per event, of a subscription found in a text that is searched for all at once


class Reason(StrEnum):
    SLOW = "asked of every event"
    ROOT = "no key finds it"
    CELLS = "stands in many cells"
    BROAD = "told of many events"
    TEXT = "found by searching a text"


@dataclass(frozen=True)
class Why:
    reason: Reason
    text: str
    help: str


@dataclass(frozen=True)
class Expensive:
    id: str
    filter: str  # shortened
    told: float  # share of the sampled events that match it
    cells: int  # of the mapping looked at; 0 where it stands at the root
    same: int  # sampled subscriptions with this very filter
    why: tuple[Why, ...]


@dataclass(frozen=True)
class Expenses:
    """Of a sample: how many are expensive by which reason, and the most expensive ones."""

    mapping: str | None  # whose keys and cells are meant
    cells: int
    counts: dict[str, int]
    most: tuple[Expensive, ...]


def expenses(
    surveyed: Surveyed, names: pa.Table, keyed: KeyedSample | None, cells: int
) -> Expenses:
    """`names` has `id` and `filter` of the sampled subscriptions; `keyed`: the mapping to judge
    keys by, None if there is none that could be used."""
    found = _Findings(surveyed, keyed, cells)
    counts = {reason.value: int(rows.sum()) for reason, rows in found.rows.items() if rows.any()}
    mapping = None if keyed is None else keyed.mapping.name
    return Expenses(mapping, found.cells, counts, tuple(_most_expensive(found, names)))


def _most_expensive(found: _Findings, names: pa.Table) -> Iterator[Expensive]:
    """The dearest first; no filter twice, and not too many of one kind."""
    texts = names["filter"].to_pylist()
    same, kinds = Counter(texts), Counter[tuple[Reason, ...]]()
    seen: set[str] = set()
    cost = found.cost()
    for row in np.argsort(-cost, kind="stable").tolist():
        if not cost[row] or kinds.total() == SHOWN_MAX:
            return
        kind = tuple(reason for reason, rows in found.rows.items() if rows[row])
        if texts[row] in seen or kinds[kind] == ALIKE_MAX:
            continue
        seen.add(texts[row])
        kinds[kind] += 1
        yield Expensive(
            shortened(str(names["id"][row].as_py()), ID_LENGTH_SHOWN),
            shortened(texts[row], FILTER_LENGTH_SHOWN),
            float(found.told[row]),
            int(found.per_subscription[row]),
            same[texts[row]],
            tuple(found.why(row)),
        )


class _Findings:
    """By reason which rows of the sample it is true of, and the sentences about them."""

    def __init__(self, surveyed: Surveyed, keyed: KeyedSample | None, cells: int) -> None:
        size = surveyed.sample.filters.size
        self.told: Floats = np.bincount(surveyed.matches.ordinals, minlength=size) / max(
            1, surveyed.matches.offsets.size - 1
        )
        self.keyed = keyed
        self.met: Floats = np.zeros(size)
        self.per_subscription: Ints = np.zeros(size, np.int64)
        self.cells = 0
        root: Bools = np.zeros(size, np.bool_)
        if keyed is not None:
            placed = keyed.in_cells(keyed.cells(cells))
            self.cells, root = placed.count, placed.placed.root
            self.per_subscription = placed.per_subscription
            self.met = _met_share(placed, surveyed.sample.events.num_rows)
        self.slow = _slow(surveyed)
        self.searched = _searched(surveyed)
        self.rows: dict[Reason, Bools] = {
            Reason.SLOW: _mask(size, self.slow),
            Reason.ROOT: root,
            Reason.CELLS: self.per_subscription >= max(2.0, MANY_CELLS_SHARE * self.cells),
            Reason.BROAD: self.told >= BROAD_SHARE,
            Reason.TEXT: _mask(size, self.searched),
        }

    def cost(self) -> Floats:
        """Nanoseconds per event, by the prices of the plans; none of those without a reason."""
        found: Floats = (
            PRICES.pair * (self.met + self.rows[Reason.SLOW])
            + PRICES.write * self.told
            + TEXT_NS * self.rows[Reason.TEXT]
        )
        return np.where(np.logical_or.reduce(list(self.rows.values())), found, 0.0)

    def why(self, row: int) -> Iterator[Why]:
        sentences: dict[Reason, Callable[[int], tuple[str, str]]] = {
            Reason.SLOW: self._unfound,
            Reason.ROOT: self._root,
            Reason.CELLS: self._cells,
            Reason.BROAD: self._broad,
            Reason.TEXT: self._text,
        }
        for reason, say in sentences.items():
            if self.rows[reason][row]:
                yield Why(reason, *say(row))

    def _unfound(self, row: int) -> tuple[str, str]:
        remark, at = self.slow[row]
        # A remark says why and, behind its last semicolon, what to do.
        why, _, advice = remark.describe(at).rpartition("; ")
        return why, advice

    def _root(self, row: int) -> tuple[str, str]:
        return (
            f"{self._mapping} has no key for it, so every event of a keyed plan asks it",
            f"add AND with an equality or a narrow range on {self._attributes}",
        )

    def _cells(self, row: int) -> tuple[str, str]:
        return (
            f"it stands in {self.per_subscription[row]:,} of {self.cells:,} cells of "
            f"{self._mapping}, a copy in each",
            f"narrow its range, or add one, on {self._attributes}",
        )

    def _broad(self, row: int) -> tuple[str, str]:
        return (
            f"it matches {share_text(self.told[row])} of the sampled events",
            "if that is meant, so many notifications are its price; else narrow it",
        )

    def _text(self, row: int) -> tuple[str, str]:
        return (
            f"it is found by what {self.searched[row]} contains: the text of every event is "
            "searched",
            "an equality or LIKE 'beginning%' is found by a key",
        )

    @property
    def _mapping(self) -> str:
        assert self.keyed is not None
        return self.keyed.mapping.name

    @property
    def _attributes(self) -> str:
        """By which the mapping finds subscriptions."""
        assert self.keyed is not None
        axes = self.keyed.mapping.spec.axes
        return " or ".join(dict.fromkeys(axis.dimension.attribute for axis in axes))


def _mask(size: int, rows: Iterable[int]) -> Bools:
    mask: Bools = np.zeros(size, np.bool_)
    mask[list(rows)] = True
    return mask


def _met_share(placed: SampledCells, events: int) -> Floats:
    """How many meetings with events a subscription has, for each event."""
    return np.where(placed.placed.root, 1.0, placed.met() / max(1, events))


def _slow(surveyed: Surveyed) -> dict[int, tuple[Remark, int]]:
    """Rows that nothing finds, not even an index; and where that is explained."""
    return {
        row: (remark, at)
        for remark in remarks_on(surveyed.sample.filters).found
        if remark.kind is Oddity.SLOW
        for at, row in enumerate(remark.rows.tolist())
    }


def _searched(surveyed: Surveyed) -> dict[int, str]:
    """Rows that the index finds by a text pattern, and the attribute whose text it is."""
    index = surveyed.index
    found: dict[int, str] = {}
    for finder in index.patterns:
        places = np.concatenate([finder.needle_candidates, finder.regex_candidates])
        for row in index.candidates.owners[places].tolist():
            found[row] = finder.attribute
    return found
