"""A folder that grows by whole batches: `notifications/batch=000000012/part-00000.parquet`.

The parts are written by workers into a staging folder on the same file system, and one rename makes
a batch visible, all of it. A batch that is there already is never written again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from pathlib import Path

from crossroads.errors import OutputError
from crossroads.indexfile.layout import sync_folder
from crossroads.pipeline.notify import NOTIFICATIONS
from crossroads.pipeline.stream.journal import write_durably
from crossroads.pipeline.stream.sinks import FLUSHES_PER_BATCH, Delivery

OWNER = "_stream"  # the name of the stream whose batches these are; hidden from readers by its _


class FolderSink:
    """`exactly_once=False` adds a batch as often as it is handed over, as a plain sink would."""

    def __init__(self, output: Path, *, stream: str = "", exactly_once: bool = True) -> None:
        self.output = output.absolute()
        self.folder = self.output / NOTIFICATIONS
        self.stream = stream
        self.exactly_once = exactly_once

    @property
    def name(self) -> str:
        return f"folder {self.output}"

    def open(self) -> None:
        """A batch is known by its number: those of another stream would be taken for ours."""
        owner = self.folder / OWNER
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = owner.read_text() if owner.exists() else None
            # Names with a dot are what a driver killed right here was about to rename.
            others = [one for one in self.folder.iterdir() if not one.name.startswith(".")]
            if found is None and not others:
                write_durably(owner, self.stream.encode())
                return
        except OSError as error:
            raise OutputError(
                f"cannot use {self.output}: {error.strerror or error}",
                hint="check its permissions",
            ) from error
        if found != self.stream:
            whose = "another stream" if found is not None else "something else"
            raise OutputError(
                f"{self.folder} has the output of {whose}",
                hint="give this stream a folder of its own, or the checkpoint that belongs to it",
            )

    def has(self, number: int) -> bool:
        return self.exactly_once and batch_folder(self.folder, number).is_dir()

    def publish(self, delivery: Delivery) -> None:
        if delivery.rows:
            source = delivery.staging / NOTIFICATIONS
            publish_folder(source, self.folder, delivery.number, once=self.exactly_once)

    def close(self) -> None:
        """Nothing is held open."""


def batch_folder(folder: Path, number: int) -> Path:
    batch, flush = divmod(number, FLUSHES_PER_BATCH)
    name = f"batch={batch:09d}" + (f".{flush:05d}" if flush else "")
    return folder / name


def publish_folder(parts: Path, folder: Path, number: int, *, once: bool = True) -> None:
    """Move a folder of parts to its place among the batches, durably; once."""
    target = batch_folder(folder, number)
    if not once:
        target = target.with_name(f"{target.name}-{uuid.uuid4().hex}")
    elif target.is_dir():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts.iterdir():
            sync_file(part)
        sync_folder(parts)
        _move(parts, target)
        sync_folder(folder)
    except OSError as error:
        raise OutputError(
            f"cannot add to {folder}: {error.strerror or error}",
            hint="check its permissions and the free space",
        ) from error


def _move(parts: Path, target: Path) -> None:
    try:
        parts.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Another file system: beside its place first, so that it still appears at once.
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        shutil.copytree(parts, beside)
        for part in beside.iterdir():
            sync_file(part)
        beside.rename(target)


def sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def emptied(folder: Path) -> Path:
    """A folder with nothing in it: leftovers of a run that was killed are of no use."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder
