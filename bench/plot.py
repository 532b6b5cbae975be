"""Time per event against the number of subscriptions, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

NAME = "time-per-event"
INK, GREY = "#1f4e79", "#999999"


def plot_growth(curve: list[dict[str, Any]], folder: Path) -> list[Path]:
    sizes = [point["subscriptions"] for point in curve]
    times = [point["ns_per_event"] for point in curve]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    linear = [times[0] * size / sizes[0] for size in sizes]
    axes.loglog(sizes, linear, "--", color=GREY, label="proportional to S (from the first point)")
    axes.loglog(sizes, times, "o-", color=INK, label="Crossroads, one core")
    for size, time in zip(sizes, times, strict=True):
        axes.annotate(f"{time:.0f}", (size, time), (0, 7), textcoords="offset points", ha="center")
    axes.set_xlabel("subscriptions S (W1: four ranges each)")
    axes.set_ylabel("nanoseconds per event")
    axes.set_ylim(min(times) / 2, max(times) * 10)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="upper left")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{NAME}.{ending}" for ending in ("png", "svg")]
    # No date and no random ids in the files: they change only when the numbers do.
    with mpl.rc_context({"svg.hashsalt": NAME, "svg.fonttype": "none"}):
        figure.savefig(paths[0], dpi=150, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths
