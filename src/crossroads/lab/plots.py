"""The figures of the lab as inline SVG: curves with intervals of confidence, and bars.

Curves differ by colour and by dashes; at every point a vertical line shows the 95% interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from crossroads.lab.findings import Point
from crossroads.pipeline.charts import (
    CURVE_STYLES,
    WIDTH,
    Bar,
    Scale,
    bars,
    drawing,
    line,
    tag,
    text,
)

HEIGHT = 250  # of the plot without its legend
LEFT, TOP, BOTTOM, RIGHT = 52, 20, 34, 22  # room for the numbers and names of the axes
LEGEND_ROW = 18


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[Point]  # by ascending x


@dataclass(frozen=True)
class Curves:
    title: str
    across: str
    up: str
    lines: Sequence[Line]
    log_across: bool = False
    log_up: bool = False


@dataclass(frozen=True)
class Bars:
    title: str
    rows: Sequence[tuple[str, Point]]
    log: bool = False  # on a scale of powers of ten


Plot = Curves | Bars


def draw(plot: Plot) -> str:
    if isinstance(plot, Bars):
        rows = [Bar(label, point.mean, str(point)) for label, point in plot.rows]
        return bars(rows, title=plot.title, powers_of="" if plot.log else None)
    across = Scale.of([p.x for one in plot.lines for p in one.points], log=plot.log_across)
    up = Scale.of([p.mean + p.margin for one in plot.lines for p in one.points], log=plot.log_up)
    if plot.log_up:  # the least mean decides where it begins, not the least upper end
        up = Scale.of([p.mean for one in plot.lines for p in one.points] + [up.high], log=True)
    frame = _Frame(across, up)
    drawn = frame.axes(plot.across, plot.up)
    for number, one in enumerate(plot.lines):
        colour, dashes = CURVE_STYLES[number % len(CURVE_STYLES)]
        drawn += frame.curve(one, colour, dashes) + _legend(one.name, number, colour, dashes)
    rows_below = -(-len(plot.lines) // 2)
    return drawing(drawn, HEIGHT + LEGEND_ROW * rows_below, plot.title)


@dataclass(frozen=True)
class _Frame:
    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * self.across.share(value)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self.up.share(value)

    def axes(self, across: str, up: str) -> str:
        drawn = [text(0, 8, up, "")]
        for value in self.up.steps():
            y = self.y(value)
            drawn += [
                line("grid", LEFT, WIDTH - RIGHT, y, y),
                text(LEFT - 6, y, _short(value), "end"),
            ]
        below = HEIGHT - BOTTOM
        for value in self.across.steps():
            x = self.x(value)
            drawn += [line("grid", x, x, TOP, below), text(x, below + 9, _short(value), "middle")]
        drawn.append(text((LEFT + WIDTH - RIGHT) / 2, below + 24, across, "middle faint"))
        return "".join(drawn)

    def curve(self, one: Line, colour: str, dashes: str) -> str:
        style: dict[str, object] = {"class_": "curve", "stroke": colour, "stroke_dasharray": dashes}
        places = [(self.x(point.x), self.y(point.mean)) for point in one.points]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn = [tag("polyline", tag("title", escape(one.name)), points=joined, **style)]
        for (x, y), point in zip(places, one.points, strict=True):
            least, most = self.y(point.mean - point.margin), self.y(point.mean + point.margin)
            ends = {"x1": f"{x:.1f}", "x2": f"{x:.1f}", "y1": f"{least:.1f}", "y2": f"{most:.1f}"}
            drawn.append(tag("line", class_="curve", stroke=colour, **ends))
            hint = tag("title", escape(f"{one.name} at {point.x:,g}: {point}"))
            drawn.append(tag("circle", hint, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, fill=colour))
        return "".join(drawn)


def _legend(name: str, number: int, colour: str, dashes: str) -> str:
    y = HEIGHT + 6 + (number // 2) * LEGEND_ROW
    x = LEFT + (number % 2) * (WIDTH - LEFT) / 2
    ends = {"x1": f"{x:.0f}", "x2": f"{x + 24:.0f}", "y1": y, "y2": y}
    sample = tag("line", class_="curve", stroke=colour, stroke_dasharray=dashes, **ends)
    return sample + text(x + 30, y, name, "")


def _short(value: float) -> str:
    """20000 → `20k`: the numbers at an axis have little room."""
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:,g}"
