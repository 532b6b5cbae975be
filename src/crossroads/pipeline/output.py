"""An output folder that is always whole: the old one until the very moment it is the new one.

    with OutputFolder("out") as output:          # takes the lock, clears what killed runs left
        ... write into output.staging ...
        output.commit()                          # exchanges the folders in one step

Beside NAME there are, while a run lives, `.NAME.lock` (held by an flock, so that it is free as soon
as its process is gone, however it ends) and `.NAME.staging-*`. Where the file system can exchange
two folders atomically (Linux), there is no moment without a whole NAME. Elsewhere the old folder
is moved to `.NAME.old-*` first; a run killed between the two renames leaves no NAME, and the next
run puts the old one back before it does anything else.
A folder is ours to replace if it is empty, or if its summary.json says so and nothing that a run
does not write lies beside that.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from crossroads.errors import OutputError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.raw import Reject

SUMMARY = "summary.json"
MARKER = ("made_by", "crossroads")  # in summary.json: this folder is ours to replace
WRITTEN = {  # all that a finished run may leave in the folder
    SUMMARY,
    "notifications",
    "events",
    "subscriptions",
    "subscribers",
    "rejected_events",
    "rejected_subscriptions",
    "rejected_subscriptions_old",
    "rejected_subscriptions_new",
    "appeared",
    "vanished",
}
FORMATS = ("parquet", "jsonl", "csv")
# Together half a minute: a Spark whose driver is gone ends within seconds.
REMOVE_ATTEMPTS = 60
REMOVE_PAUSE_SECONDS = 0.5

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_REJECTS = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("raw", pa.string()), ("reason", pa.string())]
)


class OutputFolder:
    """One run's exclusive hold on an output folder. Not for sharing between threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()  # `..` has no name to put files beside
        if not self.path.name:
            raise UsageError(f"{self.path} cannot be the output", hint="choose a folder in it")
        self.staging = self._sibling(f"staging-{uuid.uuid4().hex}")
        self._lock: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._recover()
            self._refuse_foreign()
            self.staging.mkdir()
        except OSError as error:
            self._release()
            raise _cannot("write", self.path, error) from error
        except OutputError:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)
        self._release()

    def commit(self) -> None:
        """The staged folder becomes the output. Everything in it is on disk before that."""
        try:
            write_durably(self.staging)
            if not self.path.exists():
                self.staging.rename(self.path)
            else:
                # checked again: the folder may have been filled by hand in the meantime
                self._refuse_foreign()
                self._replace()
            _sync(self.path.parent)
        except OSError as error:
            raise _cannot("replace", self.path, error) from error

    def _replace(self) -> None:
        if exchange(self.staging, self.path):
            old = self.staging
        else:
            old = self._sibling(f"old-{uuid.uuid4().hex}")
            self.path.rename(old)
            self.staging.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)

    def _sibling(self, ending: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{ending}")

    # -- entering ------------------------------------------------------------------------------

    def _take_lock(self) -> None:
        # The lock file stays: removing it would let two runs hold "the" lock on different files.
        lock = self._sibling("lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise OutputError(
                f"output folder {self.path} is in use by another run",
                hint="wait for it to end, or choose another folder",
            ) from error
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()  # which also unlocks
            self._lock = None

    def _recover(self) -> None:
        """With the lock in hand, whatever lies beside the folder was left by a killed run."""
        beside = sorted(self.path.parent.glob(f".{_literal(self.path.name)}.old-*"))
        if beside and not self.path.exists():
            beside.pop().rename(self.path)
        staged = self.path.parent.glob(f".{_literal(self.path.name)}.staging-*")
        for leftover in [*beside, *staged]:
            _remove(leftover)

    def _refuse_foreign(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise OutputError(f"{self.path} is a file", hint="choose a folder for the output")
        names = {each.name for each in self.path.iterdir()}
        if names and not _is_ours(self.path):
            raise OutputError(
                f"{self.path} is not empty and not an output of crossroads: it is left alone",
                hint="choose another folder, or remove it yourself",
            )
        if foreign := sorted(names - WRITTEN):
            raise OutputError(
                f"{self.path} holds {foreign[0]!r}, which crossroads has not written: "
                "it is left alone",
                hint="move that elsewhere, or choose another folder",
            )


def refuse_overlap(output: str | Path, inputs: Iterable[str | Path | Schema]) -> None:
    """The output folder is replaced whole: nothing to read may lie in it, nor it in a folder read.

    A schema that was made in memory lies nowhere.
    """
    # realpath, unlike Path.resolve, also takes what cannot exist; the readers have a word for that
    folder = Path(os.path.realpath(output))
    for given in inputs:
        if isinstance(given, Schema):
            continue
        path = Path(os.path.realpath(given))
        if path.is_relative_to(folder):
            raise UsageError(
                f"the input {given} lies in the output folder {output}, which is replaced",
                hint="choose another folder for the output",
            )
        if os.path.isdir(path) and folder.is_relative_to(path):  # noqa: PTH112 (never raises)
            raise UsageError(
                f"the output folder {output} lies in the input {given}, and would be read as input",
                hint="choose another folder for the output",
            )


def write_summary(folder: Path, summary: dict[str, object]) -> None:
    """summary.json, with the mark by which a later run knows that the folder is ours."""
    key, value = MARKER
    text = json.dumps({key: value, **summary}, indent=2, ensure_ascii=False)
    with replacing(folder / SUMMARY) as file:
        file.write(text.encode() + b"\n")


def _is_ours(folder: Path) -> bool:
    key, value = MARKER
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(summary, dict) and summary.get(key) == value


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))


# -- on disk -----------------------------------------------------------------------------------


def write_durably(folder: Path) -> None:
    """Everything under a folder, and the folders themselves, survive a power cut after this."""
    for where, _, names in os.walk(folder):
        for name in names:
            _sync(Path(where) / name)
        _sync(Path(where))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(leftover: Path) -> None:
    """Workers of a killed run may write for a moment longer than it holds the lock."""
    for _ in range(REMOVE_ATTEMPTS):
        with contextlib.suppress(OSError):
            shutil.rmtree(leftover)
        if not leftover.exists():
            return
        time.sleep(REMOVE_PAUSE_SECONDS)
    shutil.rmtree(leftover)


def _literal(name: str) -> str:
    """For a glob: the name itself, whatever characters it has."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _cannot(verb: str, path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot {verb} {path}: {error.strerror or error}",
        hint="check its permissions and the free space",
    )


# -- parts -------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears whole under its name, or not at all; a second one replaces it."""
    # The folder itself, not those above it: a worker whose run was killed and cleaned up must not
    # bring its staging folder back.
    path.parent.mkdir(exist_ok=True)
    # hidden, so that nobody reads it, and unlike that of another attempt at the same part
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def part_path(folder: Path, number: int, format: str) -> Path:  # noqa: A002
    return folder / f"part-{number:05d}.{format}"


def write_part(folder: Path, number: int, table: pa.Table, format: str) -> Path:  # noqa: A002
    """`part-NNNNN.FORMAT`: a retried task writes the same name again, so nothing doubles."""
    path = part_path(folder, number, format)
    with replacing(path) as file:
        _WRITERS[format](table, file)
    return path


def write_rejects(
    folder: Path,
    rejects: Sequence[Reject],
    format: str,  # noqa: A002
    number: int = 0,
) -> Path:
    """The rejects of one task, under `rejected_events/` or `rejected_subscriptions/`."""
    rows = {name: [getattr(reject, name) for reject in rejects] for name in _REJECTS.names}
    return write_part(folder, number, pa.table(rows, schema=_REJECTS), format)


def _write_parquet(table: pa.Table, file: BinaryIO) -> None:
    pq.write_table(table, file, compression="zstd", compression_level=1)


def _write_jsonl(table: pa.Table, file: BinaryIO) -> None:
    for batch in table.to_batches(max_chunksize=65_536):
        lines = (json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
        file.write("".join(line + "\n" for line in lines).encode())


def _write_csv(table: pa.Table, file: BinaryIO) -> None:
    # "needed" quotes every text, so that NULL (nothing) stays apart from the empty text ("")
    pacsv.write_csv(table, file, pacsv.WriteOptions(quoting_style="needed"))


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    "parquet": _write_parquet,
    "jsonl": _write_jsonl,
    "csv": _write_csv,
}
