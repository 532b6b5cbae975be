"""Index files: a compiled subscription set with its ids, saved once, opened by many processes.

    info = save_index(path, index, subscriptions=table, subscription_version=7, content_hash="…")
    opened = open_index(path, schema)
    opened.ids[ordinal]

A file is written beside its place and renamed into it, so whoever opens it sees all of it or the
one before. Opening maps it into memory: processes on one machine share the pages.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.errors import DamagedIndex, OtherSchema, UsageError
from crossroads.indexfile.layout import Stored, read_arrays, write_arrays
from crossroads.matching.index import MatchIndex
from crossroads.matching.state import index_from_state, index_state
from crossroads.model.schema import Attribute, Schema
from crossroads.model.types import parse_type
from crossroads.model.values import canonical

Array = npt.NDArray[Any]

OPEN_MAX = 8  # files a process keeps open in `cached_index`: a job needs one, a rebuild two
_STRING_BYTES_MAX = 2**31 - 1  # offsets of a plain string column are int32
_COLUMNS = ("id", "subscriber")
_EXTRA = "extra."
_EMPTY = np.zeros(1, np.int32)  # where no string ends: Arrow may leave the buffer out


@dataclass(frozen=True)
class IndexFileInfo:
    """What was written."""

    path: Path
    bytes: int
    subscriptions: int
    subscription_version: int
    content_hash: str
    schema_hash: str


@dataclass(frozen=True, eq=False)
class OpenedIndex:
    """An index with the names of its subscriptions: ordinal i is `ids[i]` of `subscribers[i]`."""

    index: MatchIndex
    ids: pa.Array
    subscribers: pa.Array
    subscription_version: int
    content_hash: str
    bytes: int
    extra: Mapping[str, Array]  # what whoever saved it put beside

    @property
    def schema(self) -> Schema:
        return self.index.schema


def save_index(
    path: str | Path,
    index: MatchIndex,
    *,
    subscriptions: pa.Table,
    subscription_version: int,
    content_hash: str,
    durable: bool = True,
    extra: Mapping[str, Array] | None = None,
) -> IndexFileInfo:
    """`subscriptions` has the columns id and subscriber, a row per ordinal of the index.

    An index that only serves the run that makes it need not be `durable`. `extra` arrays are kept
    beside the index, under their names.
    """
    arrays, content = contents(index, subscriptions, subscription_version, content_hash, extra)
    size = write_arrays(Path(path), arrays, content, durable=durable)
    return IndexFileInfo(
        Path(path), size, index.size, subscription_version, content_hash, index.schema.hash
    )


def contents(
    index: MatchIndex,
    subscriptions: pa.Table,
    subscription_version: int,
    content_hash: str,
    extra: Mapping[str, Array] | None = None,
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a file, and what its header says."""
    if subscriptions.num_rows != index.size:
        raise UsageError(
            f"{subscriptions.num_rows} subscriptions for an index of {index.size} filters"
        )
    arrays, meta = index_state(index)
    kinds: dict[str, str] = {}
    for name in _COLUMNS:
        kinds[name], parts = _strings(subscriptions.column(name), name)
        arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    arrays |= {_EXTRA + name: array for name, array in (extra or {}).items()}
    content = {
        "schema": index.schema.describe(),
        "schema_hash": index.schema.hash,
        "subscription_version": subscription_version,
        "content_hash": content_hash,
        "columns": kinds,
        "index": meta,
    }
    return arrays, content


def open_index(
    path: str | Path,
    schema: Schema | None = None,
    *,
    verify: bool = True,
    resident: bool = False,
) -> OpenedIndex:
    """Map an index file. Refuses what is not ours, damaged, or made for another schema.

    `verify` reads the whole file once (about 0.1 s per 100 MB); without it only the header is
    checked, which is for files this process, or the one that sent us, has verified before.
    `resident` is for files in memory (`IndexInMemory`).
    """
    stored = read_arrays(Path(path), verify=verify, resident=resident)
    content = stored.content
    if schema is None:
        schema = _schema(content["schema"])
    elif schema.hash != content["schema_hash"]:
        changes = "; ".join(schema.changes_from(content["schema"])) or "details differ"
        raise OtherSchema(
            f"{path} was made for another schema: {changes}", hint="build the index again"
        )
    index = index_from_state(schema, stored.arrays, content["index"])
    ids, subscribers = (_column(stored, name) for name in _COLUMNS)
    if not len(ids) == len(subscribers) == index.size:
        raise DamagedIndex(f"{path} does not have one id and subscriber per filter")
    return OpenedIndex(
        index,
        ids,
        subscribers,
        int(content["subscription_version"]),
        str(content["content_hash"]),
        stored.size,
        {
            name.removeprefix(_EXTRA): array
            for name, array in stored.arrays.items()
            if name.startswith(_EXTRA)
        },
    )


_Key = tuple[str, int, int, int]
_opened: dict[_Key, OpenedIndex] = {}
_opening = threading.Lock()


def cached_index(path: str | Path, *, verify: bool = True, resident: bool = False) -> OpenedIndex:
    """`open_index`, once per process and version of the file: tasks of a worker share it.

    A file that was replaced has another inode or time, and is opened anew. A `resident` one is kept
    alone: forgetting the one before gives its memory back.
    """
    try:
        state = Path(path).stat()
    except OSError:
        return open_index(path, verify=verify)  # which says what is wrong
    key = (str(Path(path).absolute()), state.st_ino, state.st_mtime_ns, state.st_size)
    with _opening:
        found = _opened.pop(key, None) or open_index(path, verify=verify, resident=resident)
        _opened[key] = found  # behind the others: the first in the dict was used longest ago
        while len(_opened) > (1 if resident else OPEN_MAX):
            # Whoever still matches with it keeps it alive; the map goes with the last of them.
            del _opened[next(iter(_opened))]
    return found


# -- columns of text -------------------------------------------------------------------------------


def _strings(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[str, dict[str, Array]]:
    """(Arrow type, buffers) of a column, offsets starting at zero."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(chunks) == 1 and pa.types.is_string(chunks[0].type):
        joined = chunks[0]  # the usual case: nothing is copied
    else:
        large = [chunk.cast(pa.large_string()) for chunk in chunks]
        joined = pa.concat_arrays(large or [pa.array([], pa.large_string())])
    if name == "id" and joined.null_count:
        raise UsageError("a subscription without an id cannot be saved")
    _, offsets, data = joined.buffers()
    width = np.int32 if pa.types.is_string(joined.type) else np.int64
    ends = np.frombuffer(offsets, width)[joined.offset :][: len(joined) + 1] if offsets else _EMPTY
    flat = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    text = flat[int(ends[0]) : int(ends[-1])]
    parts: dict[str, Array] = {"text": text, "ends": ends - ends[0] if ends[0] else ends}
    if joined.null_count:
        parts["valid"] = np.packbits(np.asarray(joined.is_valid()), bitorder="little")
    if text.size <= _STRING_BYTES_MAX:
        parts["ends"] = parts["ends"].astype(np.int32, copy=False)
        return "string", parts
    return "large_string", parts


def _column(stored: Stored, name: str) -> pa.Array:
    kind = pa.string() if stored.content["columns"][name] == "string" else pa.large_string()
    ends, text = stored.arrays[f"{name}.ends"], stored.arrays[f"{name}.text"]
    valid = stored.arrays.get(f"{name}.valid")
    buffers = [None if valid is None else pa.py_buffer(valid), *map(pa.py_buffer, (ends, text))]
    return pa.Array.from_buffers(kind, len(ends) - 1, buffers)


def _schema(description: Mapping[str, Any]) -> Schema:
    """The schema that `describe` described. Values are in canonical text whatever the format."""
    return Schema(
        description["name"],
        tuple(description["id"]),
        tuple(_attribute(name, parts) for name, parts in description["attributes"].items()),
        description["domains"] == "enforce",
    )


def _attribute(name: str, parts: Mapping[str, Any]) -> Attribute:
    type_ = parse_type(parts["type"])
    return Attribute(
        name=name,
        type=type_,
        min=canonical(type_, parts.get("min")),
        max=canonical(type_, parts.get("max")),
        values=tuple(canonical(type_, value) for value in parts.get("values", ())),
        format=parts.get("format"),
    )
