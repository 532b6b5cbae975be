"""Numbers as people read them."""

from __future__ import annotations

from math import inf

import pytest

from crossroads.pipeline.wording import (
    number_text,
    seconds_text,
    share_text,
    shortened,
    size_text,
    two_digits,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (8 << 30, "8.0 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text
    assert size_text(5_000 * 2**40) == "5,000.0 TiB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (4.26, "4.3 s"),
        (99.4, "99 s"),
        (100, "1.7 min"),
        (8_003, "2.2 h"),
        (200_000, "2 days"),
        (inf, "never"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.951, "0.95"), (1.0, "1"), (3.42, "3.4"), (37.4, "37"), (14_029.4, "14,029"), (0, "0")],
)
def test_numbers(number: float, text: str) -> None:
    assert number_text(number) == text


def test_shares() -> None:
    assert (share_text(0.43), share_text(0.0024), share_text(1.0)) == ("43%", "0.24%", "100%")


def test_two_digits() -> None:
    assert [two_digits(n) for n in (7, 99, 12_345, 45_054_796)] == [7, 99, 12_000, 45_000_000]


def test_shortened() -> None:
    assert shortened("a\n  b\x1b[31m", 20) == "a b [31m"
    assert shortened("abcdef", 4) == "abc…"
