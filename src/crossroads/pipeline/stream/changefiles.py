"""What users gave as their subscriptions, looked at again and again: which files are new.

A single file is a snapshot: it is replaced whole, and each new content counts. A folder is a log:
files are added, and never change once they are there. Names that begin with . or _ are not data, so
a file can be written under such a name and renamed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from crossroads.pipeline.stream.versionjournal import Entry, Stamp

SNAPSHOT, LOG = "snapshot", "log"
CHECKED_PER_LOOK = 1_000  # files of a log looked at again: the others with the next looks
NAMED_MAX = 3  # files named in a warning

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NewFile:
    """One to take up: its name, and what it was when it was found."""

    path: Path
    kind: str
    name: str  # as in the journal
    stamp: Stamp
    inode: int
    content_hash: str

    def unchanged(self) -> bool:
        """Whether it still is what was found, now that it has been read."""
        try:
            return _look_at(self.path) == (self.stamp, self.inode)
        except OSError:
            return False


class SnapshotFile:
    """Remembers what it looked like, so that it is not read as long as it looks the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[Stamp, int] | None = None

    def new(self, entries: Sequence[Entry], warn: Warn) -> Iterator[NewFile]:
        """The file, if its content is not that of the last entry."""
        try:
            looks = _look_at(self._path)
            if looks == self._seen:
                return
            content_hash = _content_hash(self._path)
        except OSError as error:
            warn(f"cannot read {self._path}: {error.strerror or error}; the subscriptions stay")
            return
        last = entries[-1] if entries else None
        if last is None or last.kind != SNAPSHOT or last.content_hash != content_hash:
            yield NewFile(self._path, SNAPSHOT, self._path.name, *looks, content_hash)
        self._seen = looks  # not reached if whoever took it up gave up


class ChangeFolder:
    """Knows by the journal which files were taken up."""

    def __init__(self, path: Path, entries: Sequence[Entry]) -> None:
        self._path = path
        self._taken = {entry.file: entry for entry in entries if entry.kind == LOG}
        self._looked: dict[str, Stamp] = {}  # files that changed, and were spoken of
        self._again: Iterator[str] = iter(())

    def taken(self, entry: Entry) -> None:
        self._taken[entry.file] = entry

    def new(self, warn: Warn) -> Iterator[NewFile]:
        """In the order of their names. One that cannot be read ends it: those after it wait, for
        they may change what it says."""
        try:
            names = sorted(self._names())
        except OSError as error:
            warn(f"cannot read {error.filename}: {error.strerror or error}")
            return
        self._check_old(names, warn)
        last = max(self._taken, default="")
        for name in names:
            if name in self._taken:
                continue
            path = self._path / name
            try:
                looks = _look_at(path)
                found = NewFile(path, LOG, name, *looks, _content_hash(path))
            except OSError as error:
                warn(f"cannot read {path}: {error.strerror or error}; those after it wait")
                return
            if name < last:
                warn(f"{path} sorts before {last}, which was applied already: applied after it")
            yield found

    def _names(self) -> Iterator[str]:
        def fail(error: OSError) -> None:
            raise error  # os.walk would skip a folder it may not enter

        for where, folders, files in os.walk(self._path, onerror=fail):
            folders[:] = [name for name in folders if not _hidden(name)]
            inside = Path(where).relative_to(self._path)
            yield from ((inside / name).as_posix() for name in files if not _hidden(name))

    def _check_old(self, names: Sequence[str], warn: Warn) -> None:
        """Files that were taken up stay as they were; if not, what they said still counts."""
        gone = sorted(self._taken.keys() - set(names))
        if gone:
            shown = ", ".join(gone[:NAMED_MAX]) + (", …" if len(gone) > NAMED_MAX else "")
            warn(f"{len(gone)} files of {self._path} are gone ({shown}): what they changed stays")
        chosen = list(islice(self._again, CHECKED_PER_LOOK))
        if len(chosen) < CHECKED_PER_LOOK:
            self._again = iter(list(self._taken))
            chosen += islice(self._again, CHECKED_PER_LOOK - len(chosen))
        for name in set(chosen).difference(gone):
            self._check(name, warn)

    def _check(self, name: str, warn: Warn) -> None:
        entry, path = self._taken[name], self._path / name
        try:
            stamp, _ = _look_at(path)
            if stamp in (entry.stamp, self._looked.get(name)):
                return
            changed = _content_hash(path) != entry.content_hash
        except OSError:
            return  # gone a moment ago: the next look says so
        self._looked[name] = stamp
        if changed:
            warn(
                f"{path} has changed since it was applied, and is not applied again: "
                "put the change in a new file"
            )


def _look_at(path: Path) -> tuple[Stamp, int]:
    found = path.stat()
    return Stamp(found.st_size, found.st_mtime_ns), found.st_ino


def _content_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))
