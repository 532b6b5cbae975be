"""The subscriptions of plan `keyed`: found in an index store, or built there, or kept by Spark.

What decides is the content of the files. If the store has it, nothing is read but the manifest. If
not, a mapping is fitted to a sample (unless the store is pinned to one) and the indexes of all
cells are built in Spark's workers. The driver never holds the subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from crossroads.errors import IndexFileError, UsageError
from crossroads.mapping.balance import balanced
from crossroads.mapping.fit import fit
from crossroads.mapping.limits import explosion
from crossroads.model.schema import Schema
from crossroads.pipeline.cellbuild import (
    BuiltSet,
    HeldSet,
    Source,
    StoredSet,
    build_held,
    build_stored,
)
from crossroads.pipeline.cellcount import keyed_cells
from crossroads.pipeline.indexed import scratch_folder
from crossroads.pipeline.indexstore import IndexStore, Manifest, Pinned, StoredFile
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import require_columns
from crossroads.pipeline.session import is_local
from crossroads.pipeline.sharing import Sharing, run_shared
from crossroads.pipeline.sidesample import sample_sides
from crossroads.pipeline.source import SourceFile, Split
from crossroads.pipeline.storefolder import Folder
from crossroads.pipeline.subscriptionframe import NAMES, REJECTS, ROOT, ROWS, Keying, Looked, look
from crossroads.pipeline.subscriptions import COLUMNS, FIRST_VERSION

MAPPING = "key-space-split"  # unless asked for another: one cell per event
BUILD_TASKS_MAX = 512  # a task builds several cells, one after the other, if there are more
ROWS_PER_BUILD_TASK = 20_000  # at least, while a core has one
ROOT_SHARE_NOTED = 0.1  # of the subscriptions: then every event does much of the work itself


@dataclass(frozen=True)
class KeyedSet:
    """Subscriptions as indexes by cell. What the summary and the look-up tables need to know."""

    pinned: Pinned
    built: BuiltSet
    files: list[SourceFile]
    reused: bool
    notes: list[str] = field(default_factory=list)
    version: int = FIRST_VERSION

    @property
    def manifest(self) -> Manifest:
        return self.built.manifest

    @property
    def usable(self) -> int:
        return self.manifest.usable

    @property
    def rejected(self) -> int:
        return self.manifest.rejected

    @property
    def content_hash(self) -> str:
        return self.manifest.content_hash

    @property
    def root(self) -> StoredFile | None:
        return self.manifest.of_kind(ROWS).get(ROOT)

    @cached_property
    def waiting(self) -> npt.NDArray[np.int64]:
        """By cell: how many subscriptions stand in it."""
        counts = np.zeros(self.pinned.cells.count, np.int64)
        for number, file in self.manifest.of_kind(ROWS).items():
            if number != ROOT:
                counts[number] = file.count
        return counts

    def rejects(self) -> Iterator[tuple[int, list[Reject]]]:
        """Split by split, under the names that the files have now."""
        for number, file in self.manifest.of_kind(REJECTS).items():
            path = self.files[self.manifest.sources[number]].path
            rows = self.built.table(file).to_pylist()
            yield number, [Reject(path, one["line"], one["raw"], one["reason"]) for one in rows]

    def names(self) -> pa.Table:
        """`id` and `subscriber` by ordinal; NULL where there is no subscription."""
        tables = [self.built.table(file) for file in self.manifest.of_kind(NAMES).values()]
        return pa.concat_tables(tables).combine_chunks()


# -- how a run comes to it -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for."""

    schema: Schema
    files: list[SourceFile]
    splits: list[Split]  # of the subscriptions
    events: list[Split]
    mapping: str | None = None
    cells: int | None = None
    store: str | None = None


def keyed_set(spark: SparkSession, wanted: Wanted, staging: Path) -> KeyedSet:
    for split in wanted.splits:
        require_columns(split, COLUMNS, COLUMNS)
    source = Source.of(wanted.files, wanted.splits)
    store = _store(spark, wanted)
    if store is None:
        return _kept_by_spark(spark, wanted, source, staging)
    pinned = store.pinned(wanted.schema, wanted.mapping, wanted.cells)
    manifest = None if pinned is None else store.find(pinned, source.content_hash)
    if pinned is not None and manifest is not None:
        folder = store.set_folder(pinned, source.content_hash)
        return _noted(wanted, pinned, StoredSet(folder, manifest, verify=True), reused=True)

    def build(sharing: Sharing) -> KeyedSet:
        return _stored(spark, wanted, source, store, pinned, sharing)

    return run_shared(spark, staging, wanted.files, build, ship=True)


_kept: dict[str, KeyedSet] = {}


def _kept_by_spark(spark: SparkSession, wanted: Wanted, source: Source, staging: Path) -> KeyedSet:
    """Built once per application; another set takes its place."""
    asked = (spark.sparkContext.applicationId, wanted.schema.hash, wanted.mapping, wanted.cells)
    key = "\0".join(map(str, (*asked, source.content_hash)))
    if key in _kept:
        return replace(_kept[key], files=wanted.files, reused=True)

    def build(sharing: Sharing) -> KeyedSet:
        looked = look(spark, wanted.splits, sharing)
        cores = spark.sparkContext.defaultParallelism
        pinned = fitted(wanted, looked, cores)
        keying = _keying(wanted, pinned, looked, cores)
        held = build_held(spark, source, keying, scratch_folder(), sharing)
        return _noted(wanted, pinned, held, reused=False)

    found = run_shared(spark, staging, wanted.files, build, ship=True)
    for old in _kept.values():
        if isinstance(old.built, HeldSet):
            old.built.frame.unpersist()
    _kept.clear()
    _kept[key] = found
    return found


def _store(spark: SparkSession, wanted: Wanted) -> IndexStore | None:
    """Without one asked for: on one machine a folder of this process, on a cluster none."""
    if wanted.store is not None:
        return IndexStore(Folder.of(wanted.store))
    if not is_local(spark.sparkContext.master or ""):
        return None
    asked = f"{wanted.schema.hash}\0{wanted.mapping}\0{wanted.cells}"
    name = f"store-{sha256(asked.encode()).hexdigest()[:16]}"
    return IndexStore(Folder.of(scratch_folder() / name))


def _stored(
    spark: SparkSession,
    wanted: Wanted,
    source: Source,
    store: IndexStore,
    pinned: Pinned | None,
    sharing: Sharing,
) -> KeyedSet:
    looked = look(spark, wanted.splits, sharing)
    cores = spark.sparkContext.defaultParallelism
    if pinned is None:
        pinned = store.pin(wanted.schema, fitted(wanted, looked, cores))
    folder = store.set_folder(pinned, source.content_hash)
    keying = _keying(wanted, pinned, looked, cores)
    durable = wanted.store is not None
    manifest = build_stored(spark, source, keying, folder, sharing, durable=durable)
    manifest = store.publish(pinned, manifest)
    with suppress(IndexFileError):  # housekeeping is no reason to fail what is done
        store.prune()
    return _noted(wanted, pinned, StoredSet(folder, manifest, verify=False), reused=False)


def _keying(wanted: Wanted, pinned: Pinned, looked: Looked, cores: int) -> Keying:
    tasks = min(pinned.cells.count + 1, BUILD_TASKS_MAX)
    tasks = min(tasks, max(cores, looked.rows // ROWS_PER_BUILD_TASK))
    return Keying(wanted.schema, pinned.mapping, pinned.cells, looked, tasks)


def fitted(wanted: Wanted, looked: Looked, cores: int) -> Pinned:
    """A mapping and cells that suit a sample; refused where they would explode."""
    sample = sample_sides(wanted.splits, wanted.events, wanted.schema)
    mapping = fit(wanted.mapping or MAPPING, wanted.schema, sample)
    asked = wanted.cells or keyed_cells(looked.rows, cores, mapping.spec.bits)
    cells = balanced(mapping, sample, asked)
    problem = explosion(mapping, sample, cells)
    if problem is not None:
        raise UsageError(problem, hint="crossroads advise says what each would do with your data")
    return Pinned(mapping, cells, asked)


def _noted(wanted: Wanted, pinned: Pinned, built: BuiltSet, *, reused: bool) -> KeyedSet:
    notes = list(pinned.mapping.spec.notes)
    root = built.manifest.of_kind(ROWS).get(ROOT)
    if root is not None and root.count > ROOT_SHARE_NOTED * max(1, built.manifest.usable):
        notes.append(
            f"{root.count:,} of {built.manifest.usable:,} subscriptions have no cell with "
            f"--mapping {pinned.mapping.name}: every event is compared with them"
        )
    return KeyedSet(pinned, built, wanted.files, reused, notes)


def held_frame(built: BuiltSet) -> HeldSet | None:
    return built if isinstance(built, HeldSet) else None
