"""Which files make the batch at hand, from the logs that Spark's file source keeps.

    SPARK/offsets/12               how far in the source's own log batch 12 goes: {"logOffset": 12}
    SPARK/sources/0/12             the files of entry 12, a line of JSON each; 9.compact has all

Spark writes both before it hands over the batch, and makes its DataFrame of nothing else; to ask
that for the names takes a job of its own, as long as matching a small batch. The files are Spark's,
so anything in them that is not as we know it means: ask the DataFrame instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

FORMAT = "v1"
COMPACTED = ".compact"
COMPACTED_BYTES_MAX = 1 << 20  # it has all files that ever came: asking Spark may be quicker


class _Unknown(Exception):
    """Not the log as we know it."""


def files_of_last_batch(spark: Path) -> list[tuple[str, int]] | None:
    """Path and time of change in ms of each; None if the logs do not say it plainly.

    The last batch in the log of offsets is the one at work: Spark plans no other before it is done.
    """
    try:
        last = max(int(path.name) for path in (spark / "offsets").iterdir() if _numbered(path))
        before = _end(spark, last - 1) if last else -1
        entries = range(before + 1, _end(spark, last) + 1)
        return [file for entry in entries for file in _files(spark / "sources" / "0", entry)]
    except (_Unknown, OSError, ValueError, LookupError, TypeError):
        return None


def _numbered(path: Path) -> bool:
    return path.name.isdecimal()


def _lines(path: Path) -> list[Any]:
    """What follows the line with the format."""
    version, *lines = path.read_text("utf-8").split("\n")  # names may have other line breaks
    if version != FORMAT:
        raise _Unknown(path)
    return [json.loads(line) for line in lines if line]


def _end(spark: Path, batch: int) -> int:
    _, source = _lines(spark / "offsets" / str(batch))  # there is one source
    return int(source["logOffset"])


def _files(log: Path, entry: int) -> list[tuple[str, int]]:
    plain, compacted = log / str(entry), log / f"{entry}{COMPACTED}"
    if plain.exists():
        found = _lines(plain)
    elif compacted.stat().st_size <= COMPACTED_BYTES_MAX:
        found = [line for line in _lines(compacted) if line["batchId"] == entry]
    else:
        raise _Unknown(compacted)
    if any(line["batchId"] != entry for line in found):
        raise _Unknown(plain)
    return [(_local(line["path"]), int(line["timestamp"])) for line in found]


def _local(url: str) -> str:
    if not url.startswith("file:///"):
        raise _Unknown(url)
    return unquote(url.removeprefix("file://"), errors="strict")
