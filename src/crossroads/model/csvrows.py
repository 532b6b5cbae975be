"""How the bytes of a CSV divide into rows: where each begins and ends, its line, its fields.

The rules are those of Arrow's CSV parser, so that both see the same rows: a quote opens a quoted
field only at the start of a field, `""` inside is one quote, a row ends at LF, CR LF or CR outside
quotes, an empty line is no row. One rule is added, because one forgotten quote must not swallow the
rest of a file: a quoted field that does not close before the end, or makes its row longer than
`ROW_BYTES_MAX`, breaks only the line it opens in (fields = BROKEN), and reading goes on with the
next line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

ROW_BYTES_MAX = 1 << 20  # far beyond any sane quoted field, and small enough to hold and search
BROKEN = -1

_QUOTE, _COMMA, _LF, _CR = 34, 44, 10, 13
_FIELD_START, _FIELD, _QUOTED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Rows:
    """The whole rows at the beginning of some bytes."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]  # without the line end
    lines: npt.NDArray[np.int64]
    fields: npt.NDArray[np.int32]  # how many, or BROKEN
    consumed: int  # bytes: what follows is the beginning of a row that is not whole yet
    next_line: int  # the line at which it begins


def find_rows(data: bytes, *, line: int, final: bool, row_bytes_max: int = ROW_BYTES_MAX) -> Rows:
    """Rows of bytes that begin at a row, on that line; `final`: nothing follows them."""
    view = np.frombuffer(data, dtype=np.uint8)
    room = data.count(b"\n") + data.count(b"\r") + 1
    starts, ends = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    lines, fields = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int32)
    count, consumed, next_line = _find(
        view, line, final, row_bytes_max, starts, ends, lines, fields
    )
    return Rows(
        starts[:count], ends[:count], lines[:count], fields[:count], int(consumed), int(next_line)
    )


@njit(cache=True)
def _find(
    data: npt.NDArray[np.uint8],
    line: int,
    final: bool,
    row_bytes_max: int,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    lines: npt.NDArray[np.int64],
    fields: npt.NDArray[np.int32],
) -> tuple[int, int, int]:
    count, at = 0, 0
    while at < data.size:
        end, after, found, lines_used = _row(data, at, final, row_bytes_max)
        if after < 0:
            break
        if end > at:
            starts[count], ends[count], lines[count], fields[count] = at, end, line, found
            count += 1
        line += lines_used
        at = after
    return count, at, line


@njit(cache=True)
def _row(  # noqa: C901
    data: npt.NDArray[np.uint8], start: int, final: bool, row_bytes_max: int
) -> tuple[int, int, int, int]:
    """(end, begin of the next row or -1 if not whole, fields or BROKEN, lines used)."""
    # one flat loop on purpose: this looks at every byte of the input
    size = data.size
    state, fields, breaks, first_end, first_after = _FIELD_START, 1, 0, -1, -1
    at = start
    while at < size:
        byte = data[at]
        if byte in (_LF, _CR):
            after = at + 1
            if byte == _CR:
                if after == size and not final:
                    return -1, -1, 0, 0
                if after < size and data[after] == _LF:
                    after += 1
            if state != _QUOTED:
                return at, after, fields, breaks + 1
            breaks += 1
            if first_end < 0:
                first_end, first_after = at, after
            at = after
            if at - start > row_bytes_max:
                return first_end, first_after, BROKEN, 1
            continue
        if byte == _QUOTE:
            if state == _FIELD_START:
                state = _QUOTED
            elif state == _QUOTED:
                if at + 1 < size and data[at + 1] == _QUOTE:
                    at += 1
                elif at + 1 == size and not final:
                    return -1, -1, 0, 0
                else:
                    state = _FIELD
        elif byte == _COMMA and state != _QUOTED:
            fields += 1
            state = _FIELD_START
        elif state == _FIELD_START:
            state = _FIELD
        at += 1
    if not final:
        return -1, -1, 0, 0
    if state != _QUOTED:
        return size, size, fields, breaks + 1
    if first_end < 0:
        return size, size, BROKEN, 1
    return first_end, first_after, BROKEN, 1
