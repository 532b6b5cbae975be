"""Subscriptions that no single host has to hold: split by split to blocks of rows by cell.

Twice through the files. The first look counts rows and finds ids that occur several times, by their
hashes, so that the second can number and reject every row where it is read. What comes out is, per
cell, the rows that stand in it; per split, the names of its subscriptions and what was rejected.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crossroads.errors import InputError
from crossroads.mapping.cells import CellRanges, Cells
from crossroads.mapping.contract import Mapping as KeyMapping
from crossroads.model.identity import identity_hashes
from crossroads.model.schema import Schema
from crossroads.pipeline.blocks import (
    Batches,
    Block,
    batch_of,
    gathered,
    grouped,
    made,
    packed,
)
from crossroads.pipeline.direct import task_count
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import require_fields, text_blocks
from crossroads.pipeline.sharing import Sharing
from crossroads.pipeline.source import Split
from crossroads.pipeline.subscriptions import COLUMNS, Checked, checked

Ints = npt.NDArray[np.int64]

ROWS_MAX = 2**31 - 1  # ordinals of subscriptions are int32, in the index and in compact output

ROOT = -1  # the number of the root among the cells
ROWS, NAMES, REJECTS = range(3)  # kinds of blocks: of a cell, of a split, of a split
_REPORT, _HASHES, _TWICE = range(3)  # kinds of blocks of the first look

REJECTED = pa.schema([("line", pa.int64()), ("raw", pa.string()), ("reason", pa.string())])


# -- the first look --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Looked:
    """What all tasks of the second reading must know."""

    sizes: Mapping[int, int]  # by split: its rows, broken ones too
    repeated: Mapping[str, int]  # ids that occur several times, and how often

    @property
    def rows(self) -> int:
        return sum(self.sizes.values())

    @property
    def bases(self) -> dict[int, int]:
        """By split the ordinal of its first row."""
        found, base = {}, 0
        for number in sorted(self.sizes):
            found[number] = base
            base += self.sizes[number]
        return found


def look(spark: SparkSession, splits: Sequence[Split], sharing: Sharing) -> Looked:
    buckets = task_count(len(splits), spark.sparkContext.defaultParallelism)
    frame = split_frame(spark, splits, sharing)

    def hash_ids(batches: Batches) -> Iterator[pa.RecordBatch]:
        for split in splits_of(batches):
            yield batch_of(list(_hashed(split, buckets)))

    found = gathered(made(frame, hash_ids), buckets)
    rows = made(found, _equal_hashes).collect()
    sizes: dict[int, int] = {}
    present: dict[str, set[str]] = {}
    paths = {split.number: split.path for split in splits}
    for row in rows:
        if row.kind == _REPORT:
            said = json.loads(bytes(row.data))
            sizes[row.number] = said["rows"]
            if said["present"] is not None:
                present.setdefault(paths[row.number], set()).update(said["present"])
    require_fields(present, COLUMNS)
    if sum(sizes.values()) > ROWS_MAX:
        raise InputError(
            f"{sum(sizes.values()):,} subscriptions are more than one run can number",
            hint=f"at most {ROWS_MAX:,}: divide them into several runs",
        )
    twice = [np.frombuffer(bytes(row.data), np.uint64) for row in rows if row.kind == _TWICE]
    suspects = np.concatenate([np.empty(0, np.uint64), *twice])
    return Looked(sizes, _repeated(frame, suspects) if suspects.size else {})


def _hashed(split: Split, buckets: int) -> Iterator[Block]:
    rows, present, hashes = 0, None, []
    for block in text_blocks(split, COLUMNS):
        if block.rows.size:
            rows = int(block.rows[-1]) + 1
        if block.present is not None:
            present = (present or set()) | block.present
        hashes.append(identity_hashes(_column(block.table, "id").drop_null()))
    said = {"rows": rows, "present": None if present is None else sorted(present)}
    report = pa.py_buffer(json.dumps(said).encode())
    yield Block(split.number % buckets, _REPORT, split.number, 0, report)
    every = np.sort(np.concatenate([np.empty(0, np.uint64), *hashes]))
    cuts = np.array([(bucket << 64) // buckets for bucket in range(1, buckets)], np.uint64)
    ends = [0, *np.searchsorted(every, cuts).tolist(), every.size]
    for bucket, (begin, end) in enumerate(pairwise(ends)):
        if begin < end:
            yield Block(bucket, _HASHES, bucket, split.number, pa.py_buffer(every[begin:end]))


def _equal_hashes(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Reports as they are; of the hashes of one bucket those that occur several times."""
    for kind, number, blocks in grouped(batches):
        if kind == _REPORT:
            yield batch_of(list(blocks))
            continue
        every = np.sort(np.concatenate([np.frombuffer(one.data, np.uint64) for one in blocks]))
        twice = np.unique(every[1:][every[1:] == every[:-1]])
        if twice.size:
            yield batch_of([Block(number, _TWICE, number, 0, pa.py_buffer(twice))])


def _repeated(frame: DataFrame, suspects: npt.NDArray[np.uint64]) -> dict[str, int]:
    """Different ids may share a hash: the texts decide."""

    def suspected(batches: Batches) -> Iterator[pa.RecordBatch]:
        for split in splits_of(batches):
            for block in text_blocks(split, COLUMNS):
                ids = _column(block.table, "id").drop_null()
                there = np.isin(identity_hashes(ids), suspects)
                yield pa.record_batch({"id": ids.filter(pa.array(there))})

    texts = frame.mapInArrow(suspected, "id string")
    counts = texts.groupBy("id").count().where("count > 1").collect()
    return {row["id"]: row["count"] for row in counts}


# -- the second reading ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Keying:
    """How rows come to their cells; pickled with every task."""

    schema: Schema
    mapping: KeyMapping
    cells: Cells
    looked: Looked
    partitions: int  # that the blocks go to


def keyed_blocks(
    spark: SparkSession, splits: Sequence[Split], keying: Keying, sharing: Sharing
) -> DataFrame:
    """Blocks of ROWS by cell (or ROOT), of NAMES and REJECTS by split, each kind in place."""
    bases = keying.looked.bases

    def key(batches: Batches) -> Iterator[pa.RecordBatch]:
        for split in splits_of(batches):
            yield from _keyed_split(split, keying, bases[split.number])

    return gathered(made(split_frame(spark, splits, sharing), key), keying.partitions)


def _keyed_split(split: Split, keying: Keying, base: int) -> Iterator[pa.RecordBatch]:
    names, rejects = _Names(keying.looked.sizes[split.number]), list[Reject]()
    turn = split.number << 32  # behind everything of the splits before
    for block in text_blocks(split, COLUMNS):
        found = checked(block.table, keying.schema, keying.looked.repeated)
        rows = block.rows[found.places]
        rejects += block.rejects + found.rejects
        names.add(rows, found)
        yield batch_of(list(_by_cell(found, rows + base, keying, turn)))
        turn += 1
    place = split.number % keying.partitions
    blocks = [Block(place, NAMES, split.number, 0, packed(names.table()))]
    if rejects:
        blocks.append(Block(place, REJECTS, split.number, 0, packed(_reject_table(rejects))))
    yield batch_of(blocks)


def _by_cell(found: Checked, ordinals: Ints, keying: Keying, turn: int) -> Iterator[Block]:
    ranges = keying.cells.cells_of_ranges(keying.mapping.keys_of_subscriptions(found.table))
    at, cell = copies(ranges, keying.cells.count)
    order = np.argsort(cell, kind="stable")
    at, cell = at[order], cell[order]
    table = pa.table(
        {
            "ordinal": pa.array(ordinals, pa.int32()),
            **dict(zip(COLUMNS, (found.ids, found.subscribers, found.filters), strict=True)),
            "first": _lists(ranges.offsets, ranges.first),
            "last": _lists(ranges.offsets, ranges.last),
        }
    ).take(pa.array(at))
    begins = np.flatnonzero(np.diff(cell, prepend=np.int64(ROOT - 1)))
    for begin, end in pairwise([*begins.tolist(), cell.size]):
        number = int(cell[begin])
        place = (number + 1) % keying.partitions
        yield Block(place, ROWS, number, turn, packed(table.slice(begin, end - begin)))


def copies(ranges: CellRanges, count: int) -> tuple[Ints, Ints]:
    """Pairs (subscription, cell): who stands where. At the root there stands nobody else's copy."""
    root = ranges.rooted(count)
    owner = np.repeat(np.arange(root.size), np.diff(ranges.offsets))
    lengths = np.where(root[owner], 0, ranges.last.astype(np.int64) - ranges.first + 1)
    begins = ranges.first - (np.cumsum(lengths) - lengths)
    at = np.repeat(owner, lengths)
    cell = np.repeat(begins, lengths) + np.arange(at.size)
    rooted = np.flatnonzero(root)
    return np.concatenate([at, rooted]), np.concatenate([cell, np.full(rooted.size, ROOT)])


class _Names:
    """Of every row of a split who it is; NULL where there is no subscription."""

    def __init__(self, size: int) -> None:
        self._at = np.full(size, -1, np.int64)
        self._ids: list[pa.Array] = []
        self._subscribers: list[pa.Array] = []
        self._count = 0

    def add(self, rows: Ints, found: Checked) -> None:
        usable = np.ones(rows.size, np.bool_)
        usable[list(found.table.errors)] = False
        self._at[rows[usable]] = self._count + np.flatnonzero(usable)
        self._ids.append(found.ids)
        self._subscribers.append(found.subscribers)
        self._count += rows.size

    def table(self) -> pa.Table:
        at = pa.array(self._at, mask=self._at < 0)
        parts = {"id": self._ids, "subscriber": self._subscribers}
        return pa.table(
            {
                name: pa.chunked_array([*arrays], pa.string()).combine_chunks().take(at)
                for name, arrays in parts.items()
            }
        )


def _reject_table(rejects: Iterable[Reject]) -> pa.Table:
    ordered = sorted(rejects, key=lambda one: one.line)
    columns = {name: [getattr(one, name) for one in ordered] for name in REJECTED.names}
    return pa.table(columns, schema=REJECTED)


def _lists(offsets: Ints, values: npt.NDArray[np.int32]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)


# -- splits as rows --------------------------------------------------------------------------------


def split_frame(spark: SparkSession, splits: Sequence[Split], sharing: Sharing) -> DataFrame:
    """A row per split; a task per split, or a core's share of them where they are few."""
    rows = [(pickle.dumps(one),) for one in sharing.placed(splits)]
    context = spark.sparkContext
    given = context.parallelize(rows, task_count(len(rows), context.defaultParallelism))
    return spark.createDataFrame(given, "split binary")


def splits_of(batches: Batches) -> Iterator[Split]:
    for batch in batches:
        for cell in batch.column("split").to_pylist():
            yield pickle.loads(cell).here()  # our own bytes, made by this very job
