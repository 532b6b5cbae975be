"""Numbers as people read them."""

from __future__ import annotations

from math import isfinite

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(count: float) -> str:
    """1536 → `1.5 KiB`."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.0f} bytes" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"


def seconds_text(seconds: float) -> str:
    """As exact as a forecast deserves: `0.3 s`, `12 s`, `4 min`, `2 h`, `9 days`."""
    if not isfinite(seconds):
        return "never"
    for limit, unit, word in ((100, 1, "s"), (6_000, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{_few_digits(seconds / unit)} {word}"
    return f"{seconds / 86_400:,.0f} days"


def number_text(number: float) -> str:
    """Whole where it is large, two digits where it is small: `14,029`, `3.4`, `0.05`."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else _few_digits(number)


def share_text(share: float) -> str:
    """`43%`, `0.2%`."""
    return f"{_few_digits(100 * share)}%"


def two_digits(number: int) -> int:
    """45,054,796 → 45,000,000, so that a forecast does not look like a count."""
    return round(number, 2 - len(str(number))) if number >= 100 else number


def shortened(text: str, most: int) -> str:
    """On one line, without anything that cannot be printed, and no longer than that."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _few_digits(number: float) -> str:
    if number >= 10 or number == 0:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2g}"
