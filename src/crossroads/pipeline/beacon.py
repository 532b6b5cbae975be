"""Whether a worker sees the driver's files, and not others of the same names.

A module of few imports: a worker that has never done anything for us answers at once.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BEACON = "_beacon"  # scratch: removed before the output is committed

Stamp = tuple[int, int]  # of a file: its size, and when it was changed, in whole seconds


@dataclass(frozen=True)
class Beacon:
    """A file with a word that only this run knows: who can read it sees the driver's folder."""

    path: str
    word: str

    @staticmethod
    def put(folder: Path) -> Beacon:
        word = uuid.uuid4().hex
        beacon = Beacon(str(folder / f"{BEACON}-{word}"), word)  # a run may put several
        Path(beacon.path).write_text(beacon.word)
        return beacon

    @property
    def folder(self) -> Path:
        return Path(self.path).parent

    def is_seen(self) -> bool:
        try:
            return Path(self.path).read_text() == self.word
        except (OSError, UnicodeDecodeError):
            return False


def stamp(path: str) -> Stamp | None:
    """None where there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a name may be no path here at all)
    except (OSError, ValueError):
        return None
    return found.st_size, int(found.st_mtime)


@dataclass(frozen=True)
class Sight:
    """What there is to see; `look` says, where it is called, what is seen of it."""

    beacon: Beacon
    stamps: Mapping[str, Stamp | None]

    def look(self, _: object) -> tuple[bool, bool]:
        """(the output folder, the input files)"""
        same = all(stamp(path) == known for path, known in self.stamps.items())
        return self.beacon.is_seen(), same
