"""What a checkpoint is the checkpoint of: `stream.json`, and a lock while a driver uses it.

Another schema, source or sink on the same checkpoint would mix two streams; it is refused with what
differs. The stream's own name, made once, tells sinks whose deliveries they hold.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from crossroads.errors import CheckpointError
from crossroads.model.schema import Schema
from crossroads.pipeline.stream.journal import write_durably

CARD = "stream.json"
LOCK = ".lock"
BATCHES = "batches"  # the records of its batches
SPARK = "spark"  # Structured Streaming's own checkpoint, within ours
FORMAT = 1  # of the checkpoint; another one is never guessed at


class Card(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    stream: str  # its name, for sinks
    schema: dict[str, Any]  # as `Schema.describe` has it
    schema_hash: str
    source: str
    sink: str


class Checkpoint:
    """The folder of a stream, ours alone while it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise CheckpointError(
                f"cannot use {self.folder} as a checkpoint: {error.strerror or error}",
                hint="check its permissions",
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise CheckpointError(
                f"another stream is running on the checkpoint {self.folder}",
                hint="stop it first, or give this one a checkpoint of its own",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)  # which also gives the lock back

    def card(self, schema: Schema, source: str, sink: str) -> Card:
        """Of this stream; made at its first start, compared at every other."""
        path = self.folder / CARD
        found = read_card(self.folder)
        if found is None:
            found = Card(
                format=FORMAT,
                stream=uuid.uuid4().hex,
                schema=schema.describe(),
                schema_hash=schema.hash,
                source=source,
                sink=sink,
            )
            write_durably(path, msgspec.json.encode(found))
            return found
        if found.schema_hash != schema.hash:
            changes = "; ".join(schema.changes_from(found.schema)) or "details differ"
            raise CheckpointError(
                f"{self.folder} is the checkpoint of another schema: {changes}",
                hint="use the schema it was started with, or a new checkpoint",
            )
        if self._is_unused():
            # Nothing was taken or told yet: a slip of the first start may be corrected.
            found = msgspec.structs.replace(found, source=source, sink=sink)
            write_durably(path, msgspec.json.encode(found))
        for what, now, before in (
            ("reads", source, found.source),
            ("writes to", sink, found.sink),
        ):
            if now != before:
                raise CheckpointError(
                    f"{self.folder} is the checkpoint of a stream that {what} {before}, not {now}",
                    hint="a checkpoint belongs to one source and one sink: use a new one",
                )
        return found

    def _is_unused(self) -> bool:
        begun = (self.folder / BATCHES).glob("*.json")
        planned = (self.folder / SPARK / "offsets").glob("[0-9]*")  # by Spark, before we hear of it
        return not any(begun) and not any(planned)


def read_card(folder: Path) -> Card | None:
    """None if the folder is not (yet) a checkpoint."""
    path = folder / CARD
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Card)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if found.format != FORMAT:
        raise CheckpointError(
            f"{folder} is a checkpoint of format {found.format}; this release reads {FORMAT}",
            hint="use the release it was made with, or a new checkpoint",
        )
    return found
