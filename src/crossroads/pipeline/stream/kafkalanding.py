"""Records of Kafka → JSON lines on disk, such that a line's number is its record's offset.

A worker writes what it is given of a topic partition into one file, a line per offset. Offsets
without a record (marks of transactions, what compaction removed) and records that cannot be events
(no value, too large) are blank lines, which the reader counts and skips. Where many offsets are
missing a new split begins instead. So a reject of the reader names the offset without knowing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.pipeline.stream.kafkacloudevents import Unusable, one_line, structured
from crossroads.pipeline.terms import oversize

GAP_LINES_MAX = 1_000  # missing offsets written as blank lines; more begin a new split
RAW_CHARACTERS_MAX = 1_000  # of a reject that travels to the driver: enough to recognise it
TOMBSTONE = "no value (a tombstone)"
BLANK = "an empty value"

# What workers tell the driver: a row for each split and for each reject.
REPORT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),  # offset
        ("file", pa.string()),  # of a split; NULL in a reject
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("records", pa.int64()),
        ("oldest_ms", pa.int64()),
        ("raw", pa.string()),
        ("reason", pa.string()),
    ]
)


@dataclass
class _Piece:
    """A split that is being written."""

    topic: str
    partition: int
    first: int
    next: int  # offset
    start: int
    records: int = 0
    oldest_ms: int | None = None


@dataclass
class LandingFile:
    """Written by one task. Rows come as `kafkasource` selects them, in the order of offsets."""

    file: BinaryIO
    name: str
    record_bytes_max: int
    split_bytes: int
    _position: int = 0
    _piece: _Piece | None = None
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        lines = self._lines(batch)
        partitions = batch["partition"].to_numpy()
        offsets = batch["offset"].to_numpy()
        times = batch["time_ms"].to_numpy()
        topics = batch["topic"].dictionary_encode()
        names = topics.dictionary.to_pylist()
        which = topics.indices.to_numpy()
        breaks = np.diff(offsets) != 1
        breaks |= (np.diff(partitions) != 0) | (np.diff(which) != 0)
        edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(lines)]
        for start, stop in pairwise(edges):
            if start < stop:
                place = (names[which[start]], int(partitions[start]), int(offsets[start]))
                self._write(*place, lines[start:stop], int(times[start:stop].min()))

    def finish(self) -> pa.RecordBatch:
        self._close()
        return pa.RecordBatch.from_pylist(self._rows, schema=REPORT)

    def _write(
        self, topic: str, partition: int, offset: int, lines: Sequence[bytes], oldest_ms: int
    ) -> None:
        """Neighbouring offsets: after those before them in the same split, or in a new one."""
        piece = self._piece
        goes_on = (
            piece is not None
            and (piece.topic, piece.partition) == (topic, partition)
            and 0 <= offset - piece.next <= GAP_LINES_MAX
            and self._position - piece.start < self.split_bytes
        )
        if piece is None or not goes_on:
            self._close()
            piece = self._piece = _Piece(topic, partition, offset, offset, self._position)
        data = b"\n" * (offset - piece.next) + b"\n".join(lines) + b"\n"
        self.file.write(data)
        self._position += len(data)
        piece.next = offset + len(lines)
        piece.records += len(lines) - lines.count(b"")
        piece.oldest_ms = min(oldest_ms, piece.oldest_ms or oldest_ms)

    def _close(self) -> None:
        piece, self._piece = self._piece, None
        if piece is not None and piece.records:
            self._rows.append(
                {
                    "topic": piece.topic,
                    "partition": piece.partition,
                    "first": piece.first,
                    "file": self.name,
                    "start": piece.start,
                    "stop": self._position,
                    "records": piece.records,
                    "oldest_ms": piece.oldest_ms,
                }
            )

    def _lines(self, batch: pa.RecordBatch) -> list[bytes]:
        values, sizes, headers = batch["value"], batch["bytes"], batch["headers"]
        lines: list[bytes] = values.to_pylist()
        for row in _unusual(values, sizes, headers, lines, self.record_bytes_max):
            value = values[row].as_py()
            try:
                lines[row] = self._line(value, sizes[row].as_py(), headers[row].as_py())
            except Unusable as problem:
                lines[row] = b""
                self._rows.append(
                    {
                        "topic": batch["topic"][row].as_py(),
                        "partition": batch["partition"][row].as_py(),
                        "first": batch["offset"][row].as_py(),
                        "raw": _shown(value),
                        "reason": str(problem),
                    }
                )
        return lines

    def _line(
        self, value: bytes | None, size: int | None, headers: Iterable[Mapping[str, object]] | None
    ) -> bytes:
        if size is not None and size > self.record_bytes_max:
            raise Unusable(oversize(size, self.record_bytes_max))  # of which we have a part only
        if headers is not None:
            line = structured(headers, value)
            if len(line) > self.record_bytes_max:
                raise Unusable(oversize(len(line), self.record_bytes_max))
            return line
        if value is None:
            raise Unusable(TOMBSTONE)
        if not value or value.isspace():
            raise Unusable(BLANK)
        return one_line(value)


def _unusual(
    values: pa.Array, sizes: pa.Array, headers: pa.Array, lines: Sequence[bytes | None], most: int
) -> list[int]:
    """Rows that are not a line as they are: few or none, so that the others cost nothing."""
    large = pc.greater(sizes, most).fill_null(True)
    broken = pc.match_substring(values, "\n").fill_null(True)
    found: npt.NDArray[np.bool_] = np.asarray(pc.or_(pc.or_(large, broken), headers.is_valid()))
    blank = [line is not None and (not line or line.isspace()) for line in lines]
    return np.flatnonzero(found | np.array(blank, dtype=np.bool_)).tolist()


def _shown(value: bytes | None) -> str:
    text = (value or b"")[: 4 * RAW_CHARACTERS_MAX + 4].decode(errors="replace")
    return text if len(text) <= RAW_CHARACTERS_MAX else text[: RAW_CHARACTERS_MAX - 1] + "…"
