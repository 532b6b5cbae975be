"""The journal of a subscription table: a line for every change that was taken up.

The line is what commits a change: everything it depends on is on the disk before it is appended.
A last line without its end was never committed, and is cut off by whoever writes next. Light on
purpose: `crossroads versions` reads it, also while a stream is writing it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crossroads.errors import InputError, OutputError
from crossroads.indexfile.layout import sync_folder

JOURNAL = "journal.jsonl"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a change did. A subscription may be in two of them: replaced and resumed."""

    added: int = 0
    replaced: int = 0
    removed: int = 0
    paused: int = 0
    resumed: int = 0
    expired: int = 0  # dropped, long after their `valid_until`
    rejected: int = 0

    @property
    def applied(self) -> int:
        """Changes that people asked for and got; to drop what expired is nobody's wish."""
        return self.added + self.replaced + self.removed + self.paused + self.resumed


@dataclass(frozen=True, slots=True)
class Stamp:
    """By which a file is recognised without reading it. Not by its inode: copies of a checkpoint
    and its inputs on another machine are the same files."""

    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file taken up, whether or not it changed anything."""

    number: int  # of the entry, from 1, without gaps
    version: int  # of the table after it
    changed: bool  # whether it made that version
    committed_ms: int
    kind: str  # snapshot or log
    file: str  # in a folder, its path within
    stamp: Stamp
    content_hash: str
    counts: Counts
    living: int  # subscriptions that are neither paused nor expired

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, found: dict[str, Any]) -> Entry:
        parts = {"stamp": Stamp(**found["stamp"]), "counts": Counts(**found["counts"])}
        return cls(**(found | parts))


@dataclass
class Journal:
    """One writer at a time; the folder's owner sees to that."""

    path: Path
    entries: list[Entry] = field(default_factory=list)
    _bytes: int = 0  # of the committed lines

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """For writing: what a crash left of an uncommitted line is removed."""
        path = folder / JOURNAL
        if not path.exists():
            path.touch()
            sync_folder(folder)
        entries, size = _read(path)
        if path.stat().st_size > size:
            _truncate(path, size)
        return cls(path, entries, size)

    @property
    def newest(self) -> int:
        """The version of the table; 0 before anything was taken up."""
        return self.entries[-1].version if self.entries else 0

    @property
    def last(self) -> int:
        return len(self.entries)

    def append(self, entry: Entry) -> None:
        assert entry.number == self.last + 1, (entry.number, self.last)
        line = json.dumps(entry.to_json(), ensure_ascii=False).encode() + b"\n"
        try:
            with self.path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _truncate(self.path, self._bytes)  # half of it may be there
            raise OutputError(
                f"cannot write {self.path}: {error.strerror or error}",
                hint="check the free space and the permissions of the checkpoint",
            ) from error
        self._bytes += len(line)
        self.entries.append(entry)


def read_history(folder: Path) -> Sequence[Entry]:
    """For reading only: an unfinished last line is somebody's who is writing it right now."""
    return _read(folder / JOURNAL)[0]


def _read(path: Path) -> tuple[list[Entry], int]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    end = data.rfind(b"\n") + 1
    lines = data[:end].split(b"\n")[:-1]
    try:
        entries = [Entry.of(json.loads(line)) for line in lines]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path} is damaged", hint="restore it, or start with a new checkpoint"
        ) from error
    return entries, end


def _truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())
