"""Reading rejects back: for messages, and for people who ask what happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
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
                part,
                parse_options=pacsv.ParseOptions(newlines_in_values=True),
                # As they are: a rejected row may look like a number or a date.
                convert_options=pacsv.ConvertOptions(
                    column_types=dict.fromkeys(("file", "line", "raw", "reason"), pa.string())
                ),
            ).to_pylist()
        case _:
            # Not splitlines: text may hold separators that JSON does not escape.
            lines = part.read_text(encoding="utf-8").split("\n")
            rows = [json.loads(line) for line in lines if line]
    return rows
