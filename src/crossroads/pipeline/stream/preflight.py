"""What can be refused before Spark starts, which takes ten seconds and a gigabyte."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from crossroads.errors import SourceError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.session import checked_master
from crossroads.pipeline.stream.request import StreamRequest
from crossroads.pipeline.stream.sources import Source

_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def refuse_early(request: StreamRequest, source: Source, output: Path | None) -> None:
    """`output`: the folder of the sink, if it is one."""
    if request.master is not None:
        checked_master(request.master)
    if not Path(request.subscriptions).exists():
        raise SourceError(
            f"the subscriptions {request.subscriptions} do not exist",
            hint="give a file, or a folder of change files, which may be empty",
        )
    _refuse_overlaps(request, output)
    jar_files(request.jars)
    for one in request.packages:
        if not _COORDINATES.fullmatch(one):
            raise UsageError(
                f"--packages: {one!r} are no coordinates", hint="use GROUP:ARTIFACT:VERSION"
            )
    source.check()


def jar_files(given: Sequence[str]) -> list[str]:
    """Files, and for a folder those in it."""
    found: list[str] = []
    for one in given:
        path = Path(one)
        jars = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not jars or not all(jar.is_file() for jar in jars):
            raise UsageError(f"--jars {one}: there are no .jar files")
        found += (str(jar.absolute()) for jar in jars)
    return found


def _refuse_overlaps(request: StreamRequest, output: Path | None) -> None:
    """Written files would be read as input, or input be taken for what was written."""
    read: dict[str, str | Path] = {"--subscriptions": request.subscriptions}
    if not request.events.startswith("kafka:"):
        read["--events"] = request.events
    if not isinstance(request.schema, Schema):
        read["--schema"] = request.schema
    written = {
        "--checkpoint": request.checkpoint,
        "--output": output,
        "--rejects": request.rejects,
        "--archive": request.archive,
    }
    for flag, folder in written.items():
        if folder is not None:
            for name, path in read.items():
                _refuse_overlap(flag, folder, name, path)


def _refuse_overlap(flag: str, folder: str | Path, name: str, path: str | Path) -> None:
    # realpath, unlike Path.resolve, also takes what cannot exist
    writes, reads = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if writes.is_relative_to(reads) or reads.is_relative_to(writes):
        raise UsageError(
            f"one of {flag} {folder} and {name} {path} lies in the other",
            hint="the first is written to, the second is read: give them places of their own",
        )
