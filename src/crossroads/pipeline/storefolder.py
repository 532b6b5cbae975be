"""A folder of an index store: on this machine's file system, or on any that pyarrow knows by URI.

Files appear whole: they are written under another name first and then moved. On a local (or
mounted) file system they are read in place; from elsewhere they are copied to a cache of this host,
which all its workers share, and read there.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from crossroads.errors import IndexFileError, UsageError
from crossroads.indexfile.layout import sync_folder

CACHE_BYTES_MAX = 16 << 30  # of one host's cache: what was used longest ago goes first
CACHE = "crossroads-index-cache"  # below the folder for temporary files

Result = TypeVar("Result")


@dataclass(frozen=True)
class Folder:
    """Small, and pickled with every task; `uri` is a path, or says which file system it is on."""

    uri: str

    @staticmethod
    def of(given: str | Path) -> Folder:
        """Refuses what cannot be a place for files, before anything is written."""
        text = str(given)
        if "://" not in text:
            return Folder(str(Path(text).absolute()))
        try:
            _file_system(text)
        except (pa.ArrowException, OSError, ImportError, ValueError) as error:
            raise UsageError(
                f"{text} cannot be an index store: {_first_line(error)}",
                hint="use a folder, or a URI such as hdfs://host/path, s3://bucket/path",
            ) from error
        path, mark, about = text.partition("?")
        return Folder(f"{path.rstrip('/')}{mark}{about}")

    def child(self, name: str) -> Folder:
        return Folder(self.uri_of(name))

    def uri_of(self, name: str) -> str:
        """Of something in it. What stands behind a question mark is about the file system."""
        if "://" not in self.uri:
            return f"{self.uri}/{name}"
        path, mark, about = self.uri.partition("?")
        return f"{path.rstrip('/')}/{name}{mark}{about}"

    @property
    def shown(self) -> str:
        """For people: a URI may have a password in it."""
        if "://" not in self.uri:
            return self.uri
        url = urlsplit(self.uri)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"

    @property
    def local(self) -> Path | None:
        """Where files can be opened as they are; None: they must be fetched."""
        found, path = _file_system(self.uri)
        return Path(path) if isinstance(found, fs.LocalFileSystem) else None

    # -- small files -------------------------------------------------------------------------------

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""
        found, path = _file_system(self.uri)
        try:
            with found.open_input_stream(f"{path}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise self._cannot("read", error, name) from error

    def replace(self, name: str, data: bytes) -> None:
        """The file is the new one, or still the old one; and here to stay, like all before it."""
        self.put(name, lambda path: _write_durably(path, data))
        folder = self.local
        if folder is not None:
            sync_folder(folder)

    def create(self, name: str, data: bytes) -> bool:
        """Unless there is one already; False then. Of several who try at once, one succeeds where
        the file system has links; elsewhere several may, the last one for good."""
        folder = self.local
        if folder is None:
            if self.read(name) is not None:
                return False
            self.replace(name, data)
            return True
        temporary = folder / f".{name}.{uuid.uuid4().hex}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_durably(temporary, data)
            return _appear(temporary, folder / name)
        except OSError as error:
            raise self._cannot("write", error) from error
        finally:
            with suppress(OSError):
                temporary.unlink()

    # -- large ones --------------------------------------------------------------------------------

    def put(self, name: str, write: Callable[[Path], Result]) -> tuple[int, Result]:
        """`write` fills a file under a path that it is given; then it is here. Its size, and what
        `write` has returned."""
        found, path = _file_system(self.uri)
        try:
            found.create_dir(path, recursive=True)
            folder = self.local
            if folder is not None:
                temporary = folder / f".{name}.{uuid.uuid4().hex}"
                try:
                    result = write(temporary)
                    size = temporary.stat().st_size
                    temporary.replace(folder / name)
                finally:
                    with suppress(OSError):
                        temporary.unlink()
                return size, result
            with tempfile.TemporaryDirectory(prefix="crossroads-") as scratch:
                here = Path(scratch, "file")
                result = write(here)
                unfinished = f"{path}/.{name}.{uuid.uuid4().hex}"
                with here.open("rb") as source, found.open_output_stream(unfinished) as out:
                    copyfileobj(source, out)
                found.move(unfinished, f"{path}/{name}")
                return here.stat().st_size, result
        except IndexFileError as error:  # of `write`: it names the unfinished file
            if isinstance(error.__cause__, OSError):
                raise self._cannot("write", error.__cause__) from error
            raise
        except (OSError, pa.ArrowException) as error:
            raise self._cannot("write", error) from error

    def fetch(self, name: str, size: int) -> Path:
        """A path under which the file can be opened here."""
        folder = self.local
        path = folder / name if folder is not None else cached_copy(self, name, size, host_cache())
        try:
            found = path.stat().st_size
        except OSError as error:
            raise IndexFileError(
                f"the index store has no {self.shown}/{name} that can be read here",
                hint="on a cluster, all machines must see the store: use a shared folder or a URI",
            ) from error
        if found != size:
            raise IndexFileError(
                f"{path} has {found:,} bytes where the index store says {size:,}",
                hint=f"delete {self.shown}: it is built again",
            )
        return path

    # -- the folder --------------------------------------------------------------------------------

    def files(self) -> dict[str, fs.FileInfo]:
        """What lies in it, by name; nothing if it does not exist."""
        found, path = _file_system(self.uri)
        try:
            listed = found.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except (OSError, pa.ArrowException) as error:
            raise self._cannot("read", error) from error
        return {info.base_name: info for info in listed}

    def delete(self, name: str) -> None:
        """Gone is gone, whoever was faster."""
        found, path = _file_system(self.uri)
        with suppress(OSError, pa.ArrowException):
            found.delete_file(f"{path}/{name}")

    def delete_all(self) -> None:
        found, path = _file_system(self.uri)
        with suppress(OSError, pa.ArrowException):
            found.delete_dir(path)

    def _cannot(self, verb: str, error: Exception, name: str = "") -> IndexFileError:
        return IndexFileError(
            f"cannot {verb} the index store {self.shown}{'/' + name if name else ''}: "
            f"{_first_line(error)}",
            hint="check its permissions and the free space",
        )


@cache
def _file_system(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    found, path = fs.FileSystem.from_uri(uri)
    return found, path.rstrip("/")


def _appear(written: Path, path: Path) -> bool:
    """Under its name, unless there is a file of that name."""
    try:
        os.link(written, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        written.replace(path)
    return True


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _first_line(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (reason.strip().splitlines() or [type(error).__name__])[0]


# -- copies on this host ---------------------------------------------------------------------------


def host_cache() -> Path:
    """Of this user: index files are data of theirs."""
    return Path(tempfile.gettempdir(), f"{CACHE}-{os.getuid()}")


def cached_copy(
    folder: Folder, name: str, size: int, cache_folder: Path, limit: int = CACHE_BYTES_MAX
) -> Path:
    """The file's copy on this host, made now if there is none. Any number of processes may ask:
    each sees a whole copy, and the worst is that two of them fetch it."""
    key = sha256(f"{folder.uri}/{name}\0{size}".encode()).hexdigest()
    copy = cache_folder / key
    found, path = _file_system(folder.uri)
    try:
        cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if copy.stat().st_size == size:  # a host that lost power may have kept a part
                os.utime(copy)  # used just now
                return copy
        _make_room(cache_folder, limit - size)
        temporary = cache_folder / f".{key}.{uuid.uuid4().hex}"
        try:
            with found.open_input_stream(f"{path}/{name}") as source, temporary.open("wb") as out:
                copyfileobj(source, out)
            temporary.replace(copy)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, pa.ArrowException) as error:
        raise IndexFileError(
            f"cannot copy {folder.shown}/{name} to {cache_folder}: {_first_line(error)}",
            hint="check that it is there, and the free space",
        ) from error
    return copy


def _make_room(cache_folder: Path, limit: int) -> None:
    """Delete what was used longest ago. Whoever has it mapped keeps its pages."""
    kept = []
    for one in cache_folder.glob("[!.]*"):  # hidden ones are being written
        with suppress(FileNotFoundError):
            state = one.stat()
            kept.append((state.st_mtime_ns, state.st_size, one))
    total = sum(size for _, size, _ in kept)
    for _, size, one in sorted(kept):
        if total <= max(limit, 0):
            return
        one.unlink(missing_ok=True)
        total -= size
