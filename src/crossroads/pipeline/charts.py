"""Small charts as inline SVG: bars, curves with a legend, and the parts that other charts are made
of. Pure text in, pure text out.

Sizes are in units of the drawing, which is scaled to the width of the page: at 480 units a label of
12 can still be read on a phone. Colours are classes; the page says what they look like by day and
by night. Curves differ by colour (Okabe and Ito's, which colour-blind people tell apart) and by
dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

WIDTH = 480
ROW = 22  # a bar and the space around it
LABEL = 170  # room for the names of plans and mappings
VALUE = 84  # room for the numbers behind a bar
CURVES_HEIGHT = 220
CURVES_FLOOR = 1e-5  # what is less than a thousandth of a percent lies on the ground
CURVE_STYLES = (  # colour, dashes
    ("#0072B2", ""),
    ("#D55E00", "7 3"),
    ("#009E73", "2 2"),
    ("#CC79A7", "10 3 2 3"),
    ("#E69F00", "4 4"),
    ("#56B4E9", "12 4"),
)


@dataclass(frozen=True)
class Bar:
    label: str
    value: float | None  # None: nothing is known, only the label and the text are drawn
    text: str
    mark: float | None = None  # a second value, drawn as a line across
    faint: bool = False
    hint: str = ""  # shown when pointed at


@dataclass(frozen=True)
class Curve:
    name: str
    values: Sequence[float]  # at 1, 2, 3, …; above 0


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `content` is markup, attributes are text. `class_` and `stroke_width` are
    spelled as Python allows."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{said}>{content}</{name}>" if content else f"<{name}{said} />"


def bars(rows: Sequence[Bar], *, title: str, powers_of: str | None = None) -> str:
    """Horizontal bars. `powers_of`: the unit of a scale on which each step is ten times the one
    before; without it, the scale begins at 0 and every bar says its own value."""
    log = powers_of is not None
    scale = Scale.of([v for row in rows for v in (row.value, row.mark) if v is not None], log=log)
    height = ROW * len(rows)
    drawn: list[str] = []
    for value in scale.steps() if log else ():
        x = _along(scale, value)
        drawn.append(line("grid", x, x, 0, height))
        drawn.append(text(x, height + ROW / 2, f"{value:,g} {powers_of}", "middle faint"))
    drawn += [_bar(row, at * ROW, scale) for at, row in enumerate(rows)]
    return drawing("".join(drawn), height + (ROW if log else 0), title)


def _bar(row: Bar, top: float, scale: Scale) -> str:
    """The label, the bar, the mark across, and the text behind whichever reaches further."""
    faint = " faint" if row.faint else ""
    drawn = [text(LABEL - 8, top + ROW / 2, row.label, f"end{faint}")]
    end = float(LABEL)
    if row.value is not None:
        end = max(LABEL + 1.0, _along(scale, row.value))
        place = {"x": LABEL, "y": f"{top + 4}", "width": f"{end - LABEL:.1f}", "height": ROW - 8}
        hint = tag("title", escape(row.hint or row.text))
        drawn.append(tag("rect", hint, class_=f"bar{faint}", **place))
    if row.mark is not None:
        x = _along(scale, row.mark)
        end = max(end, x)
        drawn.append(line("mark", x, x, top + 2, top + ROW - 2))
    drawn.append(text(end + 6, top + ROW / 2, row.text, faint.strip()))
    return "".join(drawn)


def _along(scale: Scale, value: float) -> float:
    """Where a bar of this value ends."""
    return LABEL + (WIDTH - LABEL - VALUE) * scale.share(value)


def curves(found: Sequence[Curve], *, title: str, across: str, up: str) -> str:
    """Several curves on one plot, on a logarithmic scale, with the names below."""
    values = [max(value, CURVES_FLOOR) for curve in found for value in curve.values]
    scale = Scale.of(values, log=True)
    longest = max((len(curve.values) for curve in found), default=1)
    left, bottom, right = 60, CURVES_HEIGHT - 30, WIDTH - 10
    height, width = bottom - 16, right - left
    drawn = [text(left, 8, up, "")]
    for value in scale.steps():
        y = bottom - height * scale.share(value)
        drawn.append(line("grid", left, right, y, y))
        drawn.append(text(left - 6, y, f"{100 * value:g}%", "end"))
    drawn.append(text(left, CURVES_HEIGHT - 14, "1", "middle"))
    drawn.append(text(right, CURVES_HEIGHT - 14, f"{longest:,}", "end"))
    drawn.append(text((left + right) / 2, CURVES_HEIGHT - 14, across, "middle"))
    legend: list[str] = []
    for at, curve in enumerate(found):
        colour, dashes = CURVE_STYLES[at % len(CURVE_STYLES)]
        step = width / max(1, longest - 1)
        points = " ".join(
            f"{left + step * place:.1f},{bottom - height * scale.share(value):.1f}"
            for place, value in enumerate(curve.values)
        )
        style: dict[str, object] = {"class_": "curve", "stroke": colour, "stroke_dasharray": dashes}
        drawn.append(tag("polyline", tag("title", escape(curve.name)), points=points, **style))
        y = CURVES_HEIGHT + 6 + (at // 2) * 18
        x = left + (at % 2) * width / 2
        ends = {"x1": f"{x:.0f}", "x2": f"{x + 28:.0f}", "y1": y, "y2": y}
        legend.append(tag("line", **style, **ends) + text(x + 34, y, curve.name, ""))
    rows = -(-len(found) // 2)
    return drawing("".join(drawn + legend), CURVES_HEIGHT + 18 * rows, title)


# -- the parts of a chart --------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float], *, log: bool) -> Scale:
        """Around all values; whole powers of ten where it is logarithmic."""
        known = [value for value in values if isfinite(value) and (value > 0 or not log)]
        if not log:
            return cls(0.0, max([*known, 1e-9]), log)
        low, high = min(known, default=0.1), max(known, default=1.0)
        first, last = floor(log10(low)), ceil(log10(high))
        return cls(10.0**first, 10.0 ** max(last, first + 1), log)

    def share(self, value: float) -> float:
        """Where the value lies: 0 at the beginning, 1 at the end."""
        if not self.log:
            return min(1.0, (value - self.low) / (self.high - self.low))
        inside = min(max(value, self.low), self.high)
        return log10(inside / self.low) / log10(self.high / self.low)

    def steps(self) -> list[float]:
        """Round values to draw lines at."""
        if self.log:
            first, last = round(log10(self.low)), round(log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        unit = 10.0 ** floor(log10(self.high))
        step = next(part * unit for part in (0.1, 0.2, 0.5, 1, 2) if self.high / unit / part <= 6)
        return [count * step for count in range(int(self.high / step + 1e-9) + 1)]


def line(class_: str, x1: float, x2: float, y1: float, y2: float) -> str:
    ends = {"x1": f"{x1:.1f}", "x2": f"{x2:.1f}", "y1": f"{y1:.1f}", "y2": f"{y2:.1f}"}
    return tag("line", class_=class_, **ends)


def text(x: float, middle: float, said: str, class_: str) -> str:
    place = {"x": f"{x:.1f}", "y": f"{middle:.1f}", "dy": "0.35em"}
    return tag("text", escape(said), class_=class_, **place)


def drawing(content: str, height: float, title: str) -> str:
    box = f"0 0 {WIDTH} {height:.0f}"
    return tag("svg", content, viewBox=box, role="img", aria_label=title)
