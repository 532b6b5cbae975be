"""What was decided about every batch, written down before it is matched.

    CHECKPOINT/batches/000000012.json          the record: made durable, then used
    CHECKPOINT/batches/000000012.done.json     what came of it: made durable before the sink is told

Spark replays a batch with the same input after a crash. With the same record it is matched with the
same subscriptions, the same limit for late events and into the same parts, so whatever was told
before the crash is told again to the letter, and an idempotent sink knows it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from crossroads.errors import CheckpointError
from crossroads.indexfile.layout import sync_folder

KEPT = 1_000  # records of the last batches, for people who ask; Spark itself keeps 100


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Decided before the batch is matched; a replay finds it and decides nothing."""

    batch: int
    started_ms: int  # since 1970; what valid_until and the duplicate window are judged by
    subscription_version: int
    plan: str
    mapping: str | None = None
    cells: int | None = None
    split_bytes: int  # input is cut as it was, whatever machine replays it
    cores: int
    latest: int | None = None  # time of the latest event before this batch, in its own units
    late_before: str | None = None  # events before this moment are late


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch came to. `latest` belongs to the next record."""

    batch: int
    events: int
    rejected: int
    repeated: int
    notifications: int
    latest: int | None = None


class Journal:
    """One writer: the driver of the stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def record(self, batch: int) -> Record | None:
        return _read(self._path(batch), Record)

    def begin(self, record: Record) -> None:
        _write(self._path(record.batch), record)

    def outcome(self, batch: int) -> Outcome | None:
        return _read(self._done(batch), Outcome)

    def finish(self, outcome: Outcome) -> None:
        _write(self._done(outcome.batch), outcome)
        old = outcome.batch - KEPT
        if old >= 0:
            self._path(old).unlink(missing_ok=True)
            self._done(old).unlink(missing_ok=True)

    def last(self) -> Record | None:
        """The record of the latest batch that was begun."""
        names = sorted(path.name for path in self.folder.glob("*.json") if path.stem.isdecimal())
        return self.record(int(names[-1].removesuffix(".json"))) if names else None

    def outcomes(self) -> Iterator[Outcome]:
        for path in sorted(self.folder.glob("*.done.json")):
            found = _read(path, Outcome)
            if found is not None:
                yield found

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:09d}.json"

    def _done(self, batch: int) -> Path:
        return self.folder / f"{batch:09d}.done.json"


Kind = TypeVar("Kind", Record, Outcome)


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {error}",
            hint="restore the checkpoint, or start a new stream with another one",
        ) from error


def _write(path: Path, what: Record | Outcome) -> None:
    write_durably(path, msgspec.json.encode(what))


def write_durably(path: Path, data: bytes) -> None:
    """Whole under its name, and still there after a loss of power."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(
            f"cannot write {path}: {error.strerror or error}",
            hint="check the permissions and the free space of the checkpoint",
        ) from error
