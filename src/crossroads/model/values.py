"""One value at the door: from what people write (text, Python, JSON) to the value, and back."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation

from crossroads.model.types import (
    BIGINT_MAX,
    BIGINT_MIN,
    INT_MAX,
    INT_MIN,
    Kind,
    Type,
    Value,
)

# What a URL must have at least: a scheme, and something after it without blanks.
URL_PATTERN = r"[A-Za-z][A-Za-z0-9+.-]*:\S+"
_URL = re.compile(URL_PATTERN)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}:\d{2})?",
    re.ASCII,
)
_BOOLEANS = {"true": True, "false": False}
_DOUBLES = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}
_DECIMALS = Context(prec=80)  # more than the 38 digits of the widest decimal
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def canonical(type_: Type, raw: object, written: str | None = None) -> Value:
    """The value of that type; ValueError (one line) if it is none. None stays None (NULL).

    `written` is the schema's input format of a date or timestamp.
    """
    if raw is None:
        return None
    match type_.kind:
        case Kind.BOOLEAN:
            return _boolean(raw)
        case Kind.INT:
            return _integer(raw, INT_MIN, INT_MAX, "int")
        case Kind.BIGINT:
            return _integer(raw, BIGINT_MIN, BIGINT_MAX, "bigint")
        case Kind.DOUBLE:
            return _double(raw)
        case Kind.DECIMAL:
            return _decimal(type_, raw)
        case Kind.DATE:
            return _date(raw, written)
        case Kind.TIMESTAMP:
            return _timestamp(raw, written)
        case Kind.URL:
            text = _text(raw)
            if not _URL.fullmatch(text):
                raise ValueError(f"{text!r} is not a URL")
            return text
        case _:
            return _text(raw)


def text_of(value: Value) -> str:
    """Canonical text of a value, as people read it and `canonical` reads it back."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case datetime():
            shown = value.astimezone(UTC).replace(tzinfo=None)
            return shown.isoformat(
                sep=" ", timespec="microseconds" if shown.microsecond else "seconds"
            )
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value)
        case _:
            return str(value)


def _refuse(raw: object, expected: str) -> ValueError:
    shown = repr(raw)
    return ValueError(f"{shown if len(shown) <= 60 else shown[:57] + '…'} is not a {expected}")


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise _refuse(raw, "string")
    try:
        raw.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the text has half of a surrogate pair: not valid Unicode") from error
    return raw


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    found = _BOOLEANS.get(raw.strip().lower()) if isinstance(raw, str) else None
    if found is None:
        raise _refuse(raw, "boolean (true or false)")
    return found


def _integer(raw: object, low: int, high: int, name: str) -> int:
    if isinstance(raw, str) and _INTEGER.fullmatch(raw.strip()):
        value = int(raw)
    elif isinstance(raw, int) and not isinstance(raw, bool):
        value = raw
    elif isinstance(raw, float | Decimal) and -(2**63) < raw < 2**63 and raw == int(raw):
        value = int(raw)
    else:
        raise _refuse(raw, f"whole number ({name})")
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {name} ({low} to {high})")
    return value


def _double(raw: object) -> float:
    if isinstance(raw, str):
        text = raw.strip()
        special = _DOUBLES.get(text.lower())
        if special is not None:
            return special
        if _DOUBLE.fullmatch(text):
            return float(text)
    elif isinstance(raw, float):
        return raw
    elif isinstance(raw, int | Decimal) and not isinstance(raw, bool):
        try:
            return float(raw)
        except OverflowError as error:
            raise ValueError(f"{raw} does not fit a double") from error
    raise _refuse(raw, "number (double)")


def _decimal(type_: Type, raw: object) -> Decimal:
    if isinstance(raw, str) and _DOUBLE.fullmatch(raw.strip()):
        written = raw.strip()
    elif isinstance(raw, int | float | Decimal) and not isinstance(raw, bool):
        written = repr(raw) if isinstance(raw, float) else str(raw)
    else:
        raise _refuse(raw, str(type_))
    try:
        value = Decimal(written)
    except InvalidOperation as error:  # an exponent beyond all bounds
        raise _refuse(raw, str(type_)) from error
    if not value.is_finite():
        raise _refuse(raw, str(type_))
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise ValueError(f"{_shown(value)} does not fit {type_}")
    # quantize in a context of its own: the default one would round at 28 digits
    rounded = value.quantize(Decimal(1).scaleb(-type_.scale), context=_DECIMALS)
    if rounded != value:
        raise ValueError(f"{_shown(value)} has more than {type_.scale} decimal places ({type_})")
    return rounded if rounded else abs(rounded)


def _shown(value: Decimal) -> str:
    shown = str(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"


def _date(raw: object, written: str | None) -> date:
    if isinstance(raw, datetime):
        raise _refuse(raw, "date without a time")
    if isinstance(raw, date):
        return raw
    if not isinstance(raw, str):
        raise _refuse(raw, "date")
    try:
        if written is not None:
            return datetime.strptime(raw.strip(), written).date()
        found = _DATE.fullmatch(raw.strip())
        if found:
            return date(*(int(part) for part in found.groups()))
    except ValueError as error:
        raise _refuse(raw, f"date like {written or 'YYYY-MM-DD'}") from error
    raise _refuse(raw, "date like YYYY-MM-DD")


def _timestamp(raw: object, written: str | None) -> datetime:
    if isinstance(raw, datetime):
        try:
            return raw.replace(tzinfo=UTC) if raw.tzinfo is None else raw.astimezone(UTC)
        except OverflowError as error:
            raise _refuse(raw, "timestamp between the years 1 and 9999") from error
    if isinstance(raw, date):
        return datetime(raw.year, raw.month, raw.day, tzinfo=UTC)
    if not isinstance(raw, str):
        raise _refuse(raw, "timestamp")
    try:
        if written is not None:
            moment = datetime.strptime(raw.strip(), written)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        found = _TIMESTAMP.fullmatch(raw.strip())
        if found:
            return _moment(found)
    except (ValueError, OverflowError) as error:
        raise _refuse(raw, f"timestamp like {written or 'YYYY-MM-DD HH:MM:SS'}") from error
    raise _refuse(raw, "timestamp like YYYY-MM-DD HH:MM:SS")


def _moment(found: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    local = datetime(
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "").ljust(6, "0")),
        tzinfo=UTC,
    )
    if zone in (None, "Z", "UTC"):
        return local
    offset = datetime.strptime(zone, "%z").utcoffset()
    assert offset is not None
    return local - offset
