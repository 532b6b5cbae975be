"""The beginning of some files with all their columns, for those who have no schema yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from crossroads.errors import SourceError
from crossroads.model.table import Raw
from crossroads.pipeline.raw import raw_blocks
from crossroads.pipeline.source import (
    Split,
    TruncatedGzip,
    leaf_names,
    list_files,
    plan_splits,
    read_chunks,
)

SAMPLE_ROWS_MAX = 100_000  # types show themselves early; more would only cost time


@dataclass(frozen=True, slots=True)
class Sample:
    columns: Mapping[str, Raw]
    count: int
    typed: bool  # text was meant as text; in a CSV everything is written as text


def read_sample(path: str | Path, rows_max: int = SAMPLE_ROWS_MAX) -> Sample:
    """The first rows of the first file that has any; nested names are dotted."""
    for split in plan_splits(list_files(path), None):
        names = _names(split, rows_max)
        blocks = []
        count = 0
        for block in raw_blocks(split, names, exact_numbers=False, batch_rows=rows_max):
            blocks.append(block)
            count += block.count
            if count >= rows_max:
                break
        if count:
            parts = {
                name: [_part(block.columns.get(name), block.count) for block in blocks]
                for name in names
            }
            columns = {name: _joined(each) for name, each in parts.items()}
            cut = {name: column[:rows_max] for name, column in columns.items()}
            return Sample(cut, min(count, rows_max), split.format != "csv")
    raise SourceError(f"{path} has no rows to learn from")


def _part(column: Raw | None, count: int) -> Raw:
    return pa.nulls(count) if column is None else column


def _joined(parts: list[Raw]) -> Raw:
    """One column of all blocks; where their types differ, one of Python objects."""
    arrays = [part for part in parts if isinstance(part, pa.Array | pa.ChunkedArray)]
    types = {array.type for array in arrays} - {pa.null()}
    if len(arrays) == len(parts) and len(types) <= 1:
        type_ = types.pop() if types else pa.null()
        chunks: list[pa.Array] = []
        for array in arrays:
            same = array if array.type == type_ else pa.nulls(len(array), type_)
            chunks += same.chunks if isinstance(same, pa.ChunkedArray) else [same]
        return pa.chunked_array(chunks, type=type_)
    values: list[object] = []
    for part in parts:
        values += part.to_pylist() if isinstance(part, pa.Array | pa.ChunkedArray) else part
    return values


def _names(split: Split, rows_max: int) -> list[str]:
    match split.format:
        case "csv":
            return list(split.header)
        case "parquet":
            with pq.ParquetFile(split.path) as parquet:
                return leaf_names(parquet.schema_arrow)
    found: dict[str, None] = {}
    for text in islice(_lines(split), rows_max):
        try:
            _add_names(msgspec.json.decode(text, type=dict[str, Any]), "", found)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # the block reader rejects it with a reason
    return list(found)


def _lines(split: Split) -> Iterator[bytes]:
    kept = b""
    try:
        for chunk in read_chunks(split.path, split.compressed, split.start, split.end):
            *whole, kept = (kept + chunk).split(b"\n")
            yield from whole
    except TruncatedGzip:
        return
    yield kept


def _add_names(value: Mapping[str, Any], prefix: str, found: dict[str, None]) -> None:
    for key, inner in value.items():
        if isinstance(inner, dict):
            _add_names(inner, f"{prefix}{key}.", found)
        else:
            found.setdefault(prefix + key)
