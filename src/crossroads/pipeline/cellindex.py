"""The index of one cell: the subscriptions that stand in it, compiled, and where else they stand.

Its ordinals are places within the cell; beside it are kept the ordinals over all subscriptions, and
the cells of each subscription, by which a pair that meets in several cells is reported in one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.indexfile import OpenedIndex, save_index
from crossroads.mapping.cells import reported_here
from crossroads.matching.index import Matches, MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.notify import Receivers
from crossroads.pipeline.subscriptions import FIRST_VERSION

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CellIndex:
    number: int
    opened: OpenedIndex

    @property
    def index(self) -> MatchIndex:
        return self.opened.index

    @property
    def ordinals(self) -> Int32Array:
        """By place in the cell: the ordinal over all subscriptions."""
        return self.opened.extra["ordinals"]

    def reported(self, matches: Matches, offsets: Int64Array, cells: Int32Array) -> Matches:
        """Without the pairs that a smaller cell reports; event e is in cells offsets[e] … ."""
        extra = self.opened.extra
        here = reported_here(
            self.number,
            matches.events.astype(np.int64),
            offsets,
            cells,
            matches.ordinals,
            extra["offsets"],
            extra["first"],
            extra["last"],
        )
        if here.all():
            return matches
        kept = np.concatenate([[0], np.cumsum(here)])
        return Matches(kept[matches.offsets], matches.ordinals[here])

    def everywhere(self, matches: Matches) -> Matches:
        """The same with ordinals over all subscriptions."""
        return Matches(matches.offsets, self.ordinals[matches.ordinals])

    def told(self, matches: Matches) -> tuple[Matches, Receivers]:
        """The same with ordinals among those who are told at all, and who they are: a cell may have
        a million subscriptions, of which a few match."""
        here = np.zeros(self.index.size, np.bool_)
        here[matches.ordinals] = True
        places = np.cumsum(here, dtype=np.int32) - np.int32(1)
        used = pa.array(np.flatnonzero(here))
        receivers = Receivers(self.opened.ids.take(used), self.opened.subscribers.take(used))
        return Matches(matches.offsets, places[matches.ordinals]), receivers


def save_cell(
    path: Path, tables: Iterable[pa.Table], schema: Schema, content_hash: str, *, durable: bool
) -> int:
    """Compile the rows of a cell (see `subscriptionframe`); how many they are."""
    rows = pa.concat_tables(tables).combine_chunks()
    index = MatchIndex.build(read_filters(rows["filter"], schema))
    first, last = (pa.concat_arrays(rows[name].chunks) for name in ("first", "last"))
    offsets = first.offsets.to_numpy().astype(np.int64)
    save_index(
        path,
        index,
        subscriptions=rows.select(["id", "subscriber"]),
        subscription_version=FIRST_VERSION,
        content_hash=content_hash,
        durable=durable,
        extra={
            "ordinals": np.concatenate([part.to_numpy() for part in rows["ordinal"].chunks]),
            "offsets": offsets - offsets[0],
            "first": first.flatten().to_numpy(),
            "last": last.flatten().to_numpy(),
        },
    )
    return index.size
