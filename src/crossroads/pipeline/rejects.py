"""Reading rejects back: for messages, and for people who ask what happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from crossroads.pipeline.raw import Reject


def read_rejects(folder: Path) -> Iterator[Reject]:
    """All rejects of a folder that `output.write_rejects` wrote, in order."""
    for part in sorted(folder.glob("part-*")):
        for row in _rows(part):
            yield Reject(row["file"], int(row["line"]), row["raw"], row["reason"])


def first_reject(folder: Path) -> Reject | None:
    return next(read_rejects(folder), None)


def _rows(part: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]]
    match part.suffix:
        case ".parquet":
            rows = pq.read_table(part).to_pylist()
        case ".csv":
            rows = pacsv.read_csv(
                part, parse_options=pacsv.ParseOptions(newlines_in_values=True)
            ).to_pylist()
        case _:
            rows = [json.loads(line) for line in part.read_text().splitlines()]
    return rows
