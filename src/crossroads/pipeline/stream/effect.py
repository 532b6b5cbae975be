"""What a file of subscriptions, or of changes, does to the table it meets: the net of it.

Changes of one file happen in its order, and only what is left of them in the end is applied: an
upsert that says what the table says already, or a pause taken back, changes nothing. An upsert
states the whole subscription, so it also ends a pause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.matching.live import Snapshot
from crossroads.model.schema import Schema
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.stream.changes import Op, Rows, refusals, reject, repeated_ids
from crossroads.pipeline.stream.versionjournal import Counts
from crossroads.pipeline.stream.versionstore import ROW, UNTIL

# Expired subscriptions are not reported; they are dropped from the table a day later, with the next
# change. By then no batch is replayed that could have been recorded before they expired.
EXPIRED_KEPT_MS = 24 * 3_600 * 1_000


@dataclass(frozen=True)
class Effect:
    """What to do to the table, who is paused after it, and what was rejected."""

    rows: pa.Table  # as ROW: to add, or to put in the place of the old
    removes: list[str]
    paused: frozenset[str]
    counts: Counts
    rejects: list[Reject]


def effect_of_snapshot(
    rows: Rows, schema: Schema, table: Snapshot, paused: frozenset[str], now_ms: int
) -> Effect:
    """From the table as it is to the usable rows of another. Only rows that differ are parsed."""
    base = table.subscriptions() if table.levels else ROW.empty_table()
    lasting = np.asarray(pc.greater(rows.table[UNTIL], now_ms - EXPIRED_KEPT_MS))
    wanted = rows.table.filter(pa.array(lasting))
    repeated = repeated_ids(wanted)
    place = pc.index_in(wanted["id"], value_set=base["id"].combine_chunks())
    known = np.asarray(place.is_valid())
    differs = ~_same_as(base, wanted, place.combine_chunks())
    differs |= np.asarray(pc.is_in(wanted["id"], value_set=pa.array(repeated, pa.string())))
    refused = refusals(wanted.filter(pa.array(differs)), schema, repeated)
    good = np.ones(wanted.num_rows, np.bool_)
    good[np.flatnonzero(differs)[refused.rows]] = False
    ids = wanted["id"].filter(pa.array(good)).combine_chunks()
    absent = pc.invert(pc.is_in(base["id"], value_set=ids))
    expired = set(_expired(table, now_ms))
    gone = base["id"].filter(absent).to_pylist()
    resumed = paused & set(ids.filter(pc.is_in(ids, value_set=_strings(paused))).to_pylist())
    counts = Counts(
        added=int(np.count_nonzero(good & ~known)),
        replaced=int(np.count_nonzero(good & known & differs)),
        removed=len(set(gone) - expired),
        resumed=len(resumed),
        expired=len(expired & set(gone)),
    )
    rejects = rows.rejects + refused.rejects
    changed = wanted.filter(pa.array(good & differs))
    return _effect(changed, gone, paused - resumed - set(gone), counts, rejects)


def effect_of_changes(rows: Rows, table: Snapshot, paused: frozenset[str], now_ms: int) -> Effect:
    """Row by row, on the rows that are usable by themselves."""
    after: dict[str, _Standing] = {}
    rejects = list(rows.rejects)
    pairs = zip(rows.table["op"].to_pylist(), rows.table["id"].to_pylist(), strict=True)
    for row, (op, name) in enumerate(pairs):
        standing = after.get(name) or _standing(table, paused, name)
        if op == Op.UPSERT:
            after[name] = _Standing(there=True, row=row)
        elif not standing.there:
            reason = f"there is no subscription {name[:80]!r} to {op}"
            rejects.append(reject(rows.table, row, reason))
        elif op == Op.REMOVE:
            after[name] = _Standing(there=False)
        else:
            after[name] = replace(standing, paused=op == Op.PAUSE)
    return _net(rows.table, after, table, paused, rejects, now_ms)


@dataclass(frozen=True, slots=True)
class _Standing:
    there: bool
    paused: bool = False
    row: int | None = None  # of the file, that says what the subscription is; None: as it was


def _standing(table: Snapshot, paused: frozenset[str], name: str) -> _Standing:
    return _Standing(there=table.find(name) is not None, paused=name in paused)


def _net(
    rows: pa.Table,
    after: dict[str, _Standing],
    table: Snapshot,
    paused: frozenset[str],
    rejects: list[Reject],
    now_ms: int,
) -> Effect:
    taken: list[int] = []
    removes: list[str] = []
    added = replaced = 0
    before = {name: _standing(table, paused, name) for name in after}
    for name, one in after.items():
        was = before[name]
        if not one.there:
            removes += [name] if was.there else []
        elif one.row is not None and not was.there:
            added += 1
            taken.append(one.row)
        elif one.row is not None and not _same(table, name, rows, one.row):
            replaced += 1
            taken.append(one.row)
    now_paused = {name for name, one in after.items() if one.there and one.paused}
    started = now_paused - paused
    ended = {name for name in paused & after.keys() if after[name].there} - now_paused
    counts = Counts(
        added=added,
        replaced=replaced,
        removed=len(removes),
        paused=len(started),
        resumed=len(ended),
    )
    expired = [name for name in _expired(table, now_ms) if name not in after]
    still = (paused | now_paused) - ended - set(removes) - set(expired)
    counts = replace(counts, expired=len(expired))
    chosen = rows.take(pa.array(sorted(taken), pa.int64()))
    return _effect(chosen, [*removes, *expired], still, counts, rejects)


def _effect(
    rows: pa.Table,
    removes: list[str],
    paused: frozenset[str],
    counts: Counts,
    rejects: list[Reject],
) -> Effect:
    rejects = sorted(rejects, key=lambda one: one.line)
    if not counts.applied:  # to drop what has expired is no reason for a version
        counts = replace(counts, expired=0)
    rows = rows.select(ROW.names).cast(ROW).combine_chunks()
    return Effect(rows, removes, paused, replace(counts, rejected=len(rejects)), rejects)


def _same(table: Snapshot, name: str, rows: pa.Table, row: int) -> bool:
    found = table.find(name)
    assert found is not None, name
    level, at = found
    return all(rows[column][row] == level.rows[column][at] for column in ROW.names)


def _same_as(base: pa.Table, rows: pa.Table, place: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows say what the row of the base says at their place."""
    same = np.asarray(place.is_valid())
    for column in ROW.names:
        there = base[column].combine_chunks().take(place)
        equal = pc.equal(rows[column].combine_chunks(), there)
        same &= np.asarray(equal.fill_null(False))
    return same


def _expired(table: Snapshot, now_ms: int) -> Iterable[str]:
    """Ids of those that were valid until a day ago or longer."""
    for level in table.levels:
        over = level.rows[UNTIL].to_numpy() <= now_ms - EXPIRED_KEPT_MS
        rows = np.flatnonzero(over & ~level.dead)
        if rows.size:
            yield from level.rows["id"].take(pa.array(rows)).to_pylist()


def _strings(names: Iterable[str]) -> pa.Array:
    return pa.array(list(names), pa.string())
