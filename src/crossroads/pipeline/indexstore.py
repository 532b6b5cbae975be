"""An index store: per set of subscriptions an index per cell, built once and used by many jobs.

    STORE/store.json               the schema, the mapping and its cells: one for all sets
    STORE/sets/KEY/cell-*.xroads   the index of a cell; names and rejects of the splits
    STORE/sets/KEY/manifest.json   what belongs to the set; written last
    STORE/sets/KEY/used            when a job last used it

A set is there when its manifest is, so a build that dies leaves nothing that anyone would use.
Files are named after their build: two jobs that build the same set at once do not touch each
other's, and whoever is second finds the manifest written already. KEY is made of the content of the
subscriptions and of the mapping, so that files of one mapping never serve another.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping as Dict
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256

from pyarrow import fs

from crossroads.errors import (
    DamagedIndex,
    ForeignIndex,
    IndexFileError,
    OtherSchema,
    UsageError,
)
from crossroads.mapping.cells import Cells
from crossroads.mapping.contract import Mapping
from crossroads.mapping.fit import mapping_of
from crossroads.mapping.spec import MappingSpec
from crossroads.model.schema import Schema
from crossroads.pipeline.storefolder import Folder

STORE, SETS, MANIFEST, USED = "store.json", "sets", "manifest.json", "used"
FORMAT_VERSION = 1
KEEP_SETS = 3  # that `prune` leaves, besides the current one: a day's versions to go back to
# Younger than this nothing is pruned: another job may be building it, or about to open it.
PRUNE_AGE_SECONDS = 24 * 3600.0

Files = Dict[str, fs.FileInfo]


@dataclass(frozen=True)
class Pinned:
    """What all sets of a store share."""

    mapping: Mapping
    cells: Cells
    asked: int  # how many cells were asked for: where keys cannot be cut there are fewer

    @property
    def id(self) -> str:
        return sha256(f"{self.mapping.spec.id}\0{self.cells.to_json()}".encode()).hexdigest()


@dataclass(frozen=True)
class StoredFile:
    kind: int  # of `subscriptionframe`: the rows of a cell, names, rejects
    number: int  # of the cell or of the split
    name: str
    bytes: int
    count: int  # subscriptions, or rejects


@dataclass(frozen=True)
class Manifest:
    """One set of subscriptions: its files, and what is said about it."""

    content_hash: str
    rows: int  # of the subscriptions' files, broken ones too
    usable: int
    rejected: int
    sources: Dict[int, int]  # by split: which of the subscriptions' files, in order, it is of
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        return sum(one.bytes for one in self.files)

    def of_kind(self, kind: int) -> dict[int, StoredFile]:
        return {one.number: one for one in self.files if one.kind == kind}

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT_VERSION, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: bytes) -> Manifest:
        read = json.loads(text)
        return Manifest(
            str(read["content_hash"]),
            int(read["rows"]),
            int(read["usable"]),
            int(read["rejected"]),
            {int(split): int(source) for split, source in read["sources"].items()},
            tuple(StoredFile(**one) for one in read["files"]),
        )


class IndexStore:
    """Any number of jobs may use and build at the same time."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    # -- what it is pinned to ----------------------------------------------------------------------

    def pinned(self, schema: Schema, mapping: str | None, cells: int | None) -> Pinned | None:
        """None: the store is new. Refuses another schema, and another mapping than asked for."""
        text = self.folder.read(STORE)
        if text is None:
            return None
        try:
            read = json.loads(text)
            version, described, hash_ = read["format"], read["schema"], read["schema_hash"]
            spec = MappingSpec.from_json(read["mapping"])
            cells_there, asked = Cells.from_json(read["cells"]), int(read["asked"])
        except (ValueError, KeyError, TypeError, UsageError) as error:
            raise self._damaged(STORE) from error
        if version != FORMAT_VERSION:
            raise ForeignIndex(
                f"the index store {self.folder.shown} has format version {version}, this release "
                f"reads {FORMAT_VERSION}",
                hint="choose another --index-store",
            )
        if hash_ != schema.hash:
            changes = "; ".join(schema.changes_from(described)) or "details differ"
            raise OtherSchema(
                f"the index store {self.folder.shown} was made for another schema: {changes}",
                hint="choose another --index-store for this schema",
            )
        found = Pinned(mapping_of(spec, schema), cells_there, asked)
        self._refuse_other(found, mapping, cells)
        return found

    def _refuse_other(self, found: Pinned, mapping: str | None, cells: int | None) -> None:
        for flag, asked, there in (
            ("--mapping", mapping, found.mapping.name),
            ("--cells", cells, found.asked),
        ):
            if asked is not None and asked != there:
                raise UsageError(
                    f"the index store {self.folder.shown} was made with {flag} {there}, "
                    f"not {flag} {asked}",
                    hint=f"leave {flag} out to use the store as it is, or choose another "
                    "--index-store",
                )

    def pin(self, schema: Schema, found: Pinned) -> Pinned:
        """Pin the store, unless somebody just has: then that is what it is pinned to."""
        text = json.dumps(
            {
                "format": FORMAT_VERSION,
                "schema": schema.describe(),
                "schema_hash": schema.hash,
                "mapping": found.mapping.spec.to_json(),
                "cells": found.cells.to_json(),
                "asked": found.asked,
            },
            indent=1,
        )
        self.folder.create(STORE, text.encode())
        there = self.pinned(schema, None, None)
        assert there is not None
        return there

    # -- sets --------------------------------------------------------------------------------------

    def set_folder(self, pinned: Pinned, content_hash: str) -> Folder:
        key = sha256(f"{pinned.id}\0{content_hash}".encode()).hexdigest()[:32]
        return self.folder.child(SETS).child(key)

    def find(self, pinned: Pinned, content_hash: str) -> Manifest | None:
        """None: nobody has built it. Every file of a set that is there must be there too."""
        folder = self.set_folder(pinned, content_hash)
        text = folder.read(MANIFEST)
        if text is None:
            return None
        manifest = _read_manifest(text)
        if manifest is None:
            raise self._damaged(MANIFEST, folder)
        there = folder.files()
        for one in manifest.files:
            if one.name not in there or there[one.name].size != one.bytes:
                raise DamagedIndex(
                    f"the index store lacks {folder.shown}/{one.name}, or a part of it",
                    hint=f"delete {folder.shown}: it is built again",
                )
        self._mark(folder)
        return manifest

    def publish(self, pinned: Pinned, manifest: Manifest) -> Manifest:
        """The set is there from now on; if somebody was faster, theirs is, and ours is removed."""
        folder = self.set_folder(pinned, manifest.content_hash)
        faster = self.find(pinned, manifest.content_hash)
        if faster is not None:
            for one in manifest.files:
                folder.delete(one.name)
            return faster
        folder.replace(MANIFEST, manifest.to_json().encode())
        self._mark(folder)
        return manifest

    def _mark(self, folder: Folder) -> None:
        """A store that cannot be written to still serves what it has."""
        with suppress(IndexFileError):
            folder.replace(USED, f"{time.time():.0f}\n".encode())

    def prune(self, keep: int = KEEP_SETS) -> list[str]:
        """Delete sets that were not used for long, but the last `keep`, and what dead builds left.

        Returns the names of what was deleted.
        """
        sets = self.folder.child(SETS)
        now = time.time()
        ages: list[tuple[float, str]] = []
        for name in sets.files():
            files = sets.child(name).files()
            ages.append((_age(files, now), name))
            if MANIFEST in files:
                self._prune_leftovers(sets.child(name), files, now)
        gone = []
        for _, name in sorted(ages)[keep:]:
            # Looked at once more: a job may have found it since.
            if _age(sets.child(name).files(), now) > PRUNE_AGE_SECONDS:
                # The manifest first: whoever comes now finds no set rather than half of one.
                sets.child(name).delete(MANIFEST)
                sets.child(name).delete_all()
                gone.append(name)
        return gone

    def _prune_leftovers(self, folder: Folder, files: Files, now: float) -> None:
        """Files of a set that its manifest does not name: of builds that died, or came second."""
        manifest = _read_manifest(folder.read(MANIFEST))
        if manifest is None:
            return  # damaged, or gone meanwhile: nobody can tell what belongs to it
        named = {MANIFEST, USED, *(one.name for one in manifest.files)}
        for name, info in files.items():
            if name not in named and _age({name: info}, now) > PRUNE_AGE_SECONDS:
                folder.delete(name)

    def _damaged(self, name: str, folder: Folder | None = None) -> DamagedIndex:
        where = folder or self.folder
        return DamagedIndex(
            f"{where.shown}/{name} is damaged", hint=f"delete {where.shown}: it is built again"
        )


def _read_manifest(text: bytes | None) -> Manifest | None:
    """None: it says nothing, or nothing that can be understood."""
    try:
        return None if text is None else Manifest.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _age(files: Files, now: float) -> float:
    """Seconds since the newest of them was written."""
    return now - max((info.mtime_ns or 0 for info in files.values()), default=0) / 1e9


def build_id() -> str:
    """No two builds share one."""
    return uuid.uuid4().hex[:12]
