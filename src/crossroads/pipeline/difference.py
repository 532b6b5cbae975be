"""Matches of the asked filters (`versions`) → the notifications that appear and those that vanish.

A notification is (event, subscription, subscriber). What is told to another subscriber than before
has vanished and appeared; what both the old and the new filter of a subscription match is neither.
The two matches of one event may lie in different parts of the answer, so it is taken in pieces by a
hash of the event's id: in memory there is one piece at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds

from crossroads.model.identity import identity_hashes
from crossroads.pipeline.versions import Change, Kind, Side

COLUMNS = ("event_id", "subscription_id", "subscriber")
PAIRS = pa.schema([(name, pa.string()) for name in ("event_id", "subscription_id")])
PAIRS_AT_A_TIME = 8 << 20  # matches of a piece: about 1 GB with the ids as text

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Told:
    """Notifications that appear, or that vanish; and of each change how many."""

    table: pa.Table
    counts: Ints


@dataclass
class Asked:
    """The filters to match, in order: whose they are and what a match of theirs means."""

    changes: Sequence[Change]
    texts: list[str] = field(default_factory=list)
    whose: list[int] = field(default_factory=list)
    sides: list[Side] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, change in enumerate(self.changes):
            for side, text in change.asked():
                self.texts.append(text)
                self.whose.append(number)
                self.sides.append(side)

    def table(self) -> pa.Table:
        """As subscriptions: each is named after its place."""
        names = pa.array([str(at) for at in range(len(self.texts))], pa.string())
        filters = pa.array(self.texts, pa.string())
        return pa.table({"id": names, "subscriber": names, "filter": filters})


def pieces(answer: ds.Dataset, total: int, most: int = PAIRS_AT_A_TIME) -> Iterator[pa.Table]:
    """The pairs in pieces of about `most`; all pairs of an event are in the same one."""
    count = max(1, -(-total // most))
    for number in range(count):
        chosen = []
        for batch in answer.to_batches(columns=["event_id", "subscription_id"]):
            if count > 1:
                hashes = identity_hashes(batch.column("event_id"))
                batch = batch.filter(pa.array(hashes % np.uint64(count) == number))
            if batch.num_rows:
                chosen.append(batch)
        yield pa.Table.from_batches(chosen) if chosen else PAIRS.empty_table()


def split(pairs: pa.Table, asked: Asked) -> tuple[Told, Told]:
    """(appeared, vanished) among pairs of an event's id and the place of an asked filter."""
    place = np.asarray(pairs["subscription_id"].cast(pa.int64()).combine_chunks())
    whose = np.array(asked.whose, np.int64)[place]
    sides = np.array([side.value for side in asked.sides], dtype=object)[place]
    old, new = sides != Side.NEW.value, sides != Side.OLD.value
    compared = np.array([change.kind is Kind.FILTER for change in asked.changes], np.bool_)[whose]
    both = _on_both_sides(pairs["event_id"], whose, old & compared, new & compared, asked)
    return (
        _told(pairs, whose, new & ~both, asked, [c.new_subscriber for c in asked.changes]),
        _told(pairs, whose, old & ~both, asked, [c.old_subscriber for c in asked.changes]),
    )


def _on_both_sides(
    events: pa.ChunkedArray,
    whose: Ints,
    old: npt.NDArray[np.bool_],
    new: npt.NDArray[np.bool_],
    asked: Asked,
) -> npt.NDArray[np.bool_]:
    """Pairs whose event and subscription occur on the other side too."""
    codes = events.combine_chunks().dictionary_encode().indices
    keys = np.asarray(codes).astype(np.int64) * max(1, len(asked.changes)) + whose
    found = np.zeros(len(keys), np.bool_)
    found[old] = np.isin(keys[old], keys[new])
    found[new] = np.isin(keys[new], keys[old])
    return found


def _told(
    pairs: pa.Table,
    whose: Ints,
    chosen: npt.NDArray[np.bool_],
    asked: Asked,
    subscribers: list[str | None],
) -> Told:
    rows = pa.array(np.flatnonzero(chosen))
    owners = pa.array(whose[chosen])
    ids = pa.array([change.id for change in asked.changes], pa.string())
    columns = [
        pairs["event_id"].combine_chunks().take(rows),
        ids.take(owners),
        pa.array(subscribers, pa.string()).take(owners),
    ]
    counts = np.bincount(whose[chosen], minlength=len(asked.changes)).astype(np.int64)
    return Told(pa.table(columns, names=list(COLUMNS)), counts)
