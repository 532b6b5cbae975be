"""What a stream asks of the rows of a split, beyond being events.

A batch job stops at a file it cannot read, because a person is waiting and can correct it. A stream
goes on: what cannot be read, is too large, comes too late or was there before is a reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.model.values import text_of

REPEATED = "the event id was seen before"


@dataclass(frozen=True, slots=True)
class Late:
    """Events before this moment come too late; those without a time are never late."""

    attribute: str
    before: date  # or a datetime, which is one

    def among(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        times = table[self.attribute]
        late = pc.less(times, pa.scalar(self.before, times.type))
        found: npt.NDArray[np.bool_] = np.asarray(late.fill_null(False))
        return found

    @property
    def reason(self) -> str:
        return f"late: {self.attribute} is before {text_of(self.before)}, the limit for this batch"


@dataclass(frozen=True, slots=True)
class Terms:
    """Small, and pickled with every split of a stream."""

    record_bytes_max: int | None = None  # longer records are rejected unread
    time: str | None = None  # the attribute that lateness is judged by
    late: Late | None = None
    repeated: tuple[int, ...] = ()  # rows of the split whose id was seen before
    forgiving: bool = False  # what cannot be read is a reject, and no error

    def problems(
        self, table: pa.Table, rows: npt.NDArray[np.int64], *, unwritten: bool
    ) -> dict[int, str]:
        """By place in the table why an event that is fine by itself is not taken.

        `unwritten`: a record was never one piece of text (Parquet); its texts make its size.
        """
        found: dict[int, str] = {}
        if unwritten and self.record_bytes_max is not None:
            found |= _oversize_texts(table, self.record_bytes_max)
        if self.late is not None:
            late = np.flatnonzero(self.late.among(table)).tolist()
            found |= dict.fromkeys(late, self.late.reason)
        if self.repeated:
            again = np.flatnonzero(np.isin(rows, self.repeated)).tolist()
            found |= dict.fromkeys(again, REPEATED)
        return found


def oversize(size: int, most: int) -> str:
    return f"oversize: {size:,} bytes, more than the {most:,} that a record may have"


def _oversize_texts(table: pa.Table, most: int) -> dict[int, str]:
    texts = [column for column in table.columns if pa.types.is_string(column.type)]
    lengths = [np.asarray(pc.binary_length(one).fill_null(0), np.int64) for one in texts]
    if not lengths:
        return {}
    sizes: npt.NDArray[np.int64] = np.sum(lengths, axis=0)
    return {at: oversize(int(sizes[at]), most) for at in np.flatnonzero(sizes > most).tolist()}
