"""Dates and timestamps out of columns of text: the common ways of writing them, at machine speed.

A **layout** is the strict reading of a `strptime` format: every field has its full width (`%d` is
two digits), the calendar is checked, nothing may be left over. So whatever a layout accepts, the
scalar `canonical` reads the same way; what it does not accept is left to the scalar, which also
knows the lenient ways (`1-2-2000`) and how to say what is wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_UNREADABLE = -(2**63)

# One step of a layout: a field, or (below 256) that very byte.
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _FRACTION, _OFFSET = range(256, 264)
_FIELDS = {
    "Y": _YEAR,
    "m": _MONTH,
    "d": _DAY,
    "H": _HOUR,
    "M": _MINUTE,
    "S": _SECOND,
    "f": _FRACTION,
}
_STEPS_MAX = 40

DATE_LAYOUTS = ("%Y-%m-%d",)
TIMESTAMP_LAYOUTS = tuple(
    f"%Y-%m-%d{clock}{zone}"
    for zone in ("", "Z", "%z")
    for clock in ("", *(f"{t}%H:%M{rest}" for t in " T" for rest in (":%S", ":%S.%f", "")))
)


def compile_layouts(layouts: tuple[str, ...]) -> npt.NDArray[np.int16] | None:
    """One row of steps per layout, padded with -1; None if a directive is beyond layouts."""
    rows = np.full((len(layouts), _STEPS_MAX), -1, dtype=np.int16)
    for row, layout in zip(rows, layouts, strict=True):
        steps = _steps(layout)
        if steps is None or len(steps) > _STEPS_MAX:
            return None
        row[: len(steps)] = steps
    return rows


def _steps(layout: str) -> list[int] | None:
    steps: list[int] = []
    letters = iter(layout)
    for letter in letters:
        if letter == "%":
            directive = next(letters, "")
            if directive == "z" and layout in TIMESTAMP_LAYOUTS:
                # Python's own %z has more ways (+0200, +02:00:30): only for layouts of ours
                steps.append(_OFFSET)
            elif directive in _FIELDS:
                steps.append(_FIELDS[directive])
            else:
                return None
        elif letter.isspace() and layout not in TIMESTAMP_LAYOUTS:
            steps.append(ord(" "))
        elif letter.isascii():
            # strptime ignores case in literals; the strict reading does not need to
            steps.append(ord(letter))
        else:
            return None
    fields = [step for step in steps if step >= 256]
    complete = {_YEAR, _MONTH, _DAY} <= set(fields) and len(fields) == len(set(fields))
    return steps if complete else None


@njit(cache=True)
def read_moments(
    offsets: npt.NDArray[np.int32],
    data: npt.NDArray[np.uint8],
    layouts: npt.NDArray[np.int16],
) -> tuple[Ints, Mask]:
    """Microseconds since 1970 of each text, and which could be read (empty texts never are)."""
    count = offsets.size - 1
    moments = np.zeros(count, dtype=np.int64)
    readable = np.zeros(count, dtype=np.bool_)
    likely = 0  # neighbours are written alike: start with the layout that fitted last
    for i in range(count):
        start, end = offsets[i], offsets[i + 1]
        if start == end:
            continue
        for attempt in range(layouts.shape[0]):
            which = (likely + attempt) % layouts.shape[0]
            moment = _read(data, start, end, layouts[which])
            if moment != _UNREADABLE:
                moments[i] = moment
                readable[i] = True
                likely = which
                break
    return moments, readable


@njit(cache=True)
def _number(data: Bytes, at: int, end: int, width: int) -> int:
    if at + width > end:
        return -1
    number = 0
    for k in range(at, at + width):
        digit = data[k] - 48
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


@njit(cache=True)
def _read(data: Bytes, start: int, end: int, steps: npt.NDArray[np.int16]) -> int:  # noqa: C901
    # one flat switch on purpose: a step is a few machine instructions
    year, month, day, hour, minute, second, fraction, shift = 0, 0, 0, 0, 0, 0, 0, 0
    at = start
    for step in steps:
        if step < 0:
            break
        if step < 256:
            if at >= end or data[at] != step:
                return _UNREADABLE
            at += 1
        elif step == _YEAR:
            year = _number(data, at, end, 4)
            at += 4
        elif step == _FRACTION:
            width = 0
            while width < 6 and _number(data, at + width, end, 1) >= 0:
                width += 1
            if width == 0:
                return _UNREADABLE
            fraction = _number(data, at, end, width) * 10 ** (6 - width)
            at += width
        elif step == _OFFSET:
            shift = _offset(data, at, end)
            if shift == _UNREADABLE:
                return _UNREADABLE
            at += 6
        else:
            number = _number(data, at, end, 2)
            at += 2
            if number < 0:
                return _UNREADABLE
            if step == _MONTH:
                month = number
            elif step == _DAY:
                day = number
            elif step == _HOUR:
                hour = number
            elif step == _MINUTE:
                minute = number
            else:
                second = number
    if at != end or hour > 23 or minute > 59 or second > 59:
        return _UNREADABLE
    # the first and the last year are left to the scalar: a shift could leave the calendar
    if year < 2 or year > 9998 or month < 1 or month > 12 or day < 1:
        return _UNREADABLE
    if day > 28 and day > _days_in_month(year, month):
        return _UNREADABLE
    seconds = _days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - shift
    return seconds * 1_000_000 + fraction


@njit(cache=True)
def _offset(data: Bytes, at: int, end: int) -> int:
    hours, minutes = _number(data, at + 1, end, 2), _number(data, at + 4, end, 2)
    if at + 6 > end or data[at + 3] != 58 or hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return _UNREADABLE
    if data[at] == 43:
        return hours * 3_600 + minutes * 60
    if data[at] == 45:
        return -hours * 3_600 - minutes * 60
    return _UNREADABLE


@njit(cache=True)
def _days_in_month(year: int, month: int) -> int:
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (4, 6, 9, 11) else 31


@njit(cache=True)
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; years begin in March here, so that a leap day comes last."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
