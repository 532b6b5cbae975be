"""What a sweep found: the mean over seeds of every number, with its interval of confidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Student's t for a two-sided 95% interval, by degrees of freedom (runs - 1) from 1 on. Beyond the
# table the normal law is within 4% of it.
STUDENT_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.960


class Point(NamedTuple):
    """A mean over `runs` seeds; the true mean is within `margin` of it with 95% confidence."""

    series: str
    metric: str
    x: float
    mean: float
    sd: float
    runs: int
    margin: float  # 0 when there was one run only: nothing is known then

    def __str__(self) -> str:
        digits = 0 if abs(self.mean) >= 1000 else 1 if abs(self.mean) >= 100 else 2
        text, least = f"{self.mean:,.{digits}f}", 10.0**-digits
        if self.runs == 1:
            return text
        small = 0 < self.margin < least / 2  # would be written as 0
        return f"{text} ± {'<' if small else ''}{max(self.margin, least * small):,.{digits}f}"


class Findings:
    """All points of one experiment."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._points = {(one.series, one.metric, one.x): one for one in sorted(points)}

    def at(self, series: str, metric: str, x: float = 0.0) -> Point:
        return self._points[series, metric, x]

    def curve(self, series: str, metric: str) -> list[Point]:
        """By ascending x."""
        return [
            one for one in self._points.values() if (one.series, one.metric) == (series, metric)
        ]

    @property
    def series(self) -> list[str]:
        return list(dict.fromkeys(one.series for one in self._points.values()))

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points.values())

    def __len__(self) -> int:
        return len(self._points)
