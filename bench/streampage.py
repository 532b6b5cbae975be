"""The figures of the streaming benchmark: rows with targets, a page, a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.figures import Row, big
from bench.streamparts import LATENCY_BITS, RATE_BITS, SOON_MS, TRIGGER_MS
from bench.streamsizes import StreamSizes

NAME = "stream-latency"
INK, RIVAL, GREY = "#1f4e79", "#b35900", "#999999"
LATENCY_TARGET, RATE_TARGET = 0.5, 5.0
GROWTH_MAX = 1.10  # of memory, last third over first: a garbage collector does not fill evenly
CHANGE_MAX, CATCH_UP_MIN = 0.10, 300_000
LIBRARIES = ("confluent-kafka", "numba", "numpy", "pyarrow", "pyspark")
DEFAULT = f", trigger {TRIGGER_MS} ms"
Found = Mapping[str, Any]

HEAD = """\
# Streaming performance

Written by `make bench-stream`; do not edit. Compare ratios, not seconds: both sides ran one after
the other on the same two cores, which they shared with the feeder.

**Workload.** W1 with ranges of 4.7..6.7% on each of four integer attributes: of {subscriptions:,}
subscriptions {matches} match an event on average. Events are Parquet files of {rows:,} events, one
every 200 ms, made before the clock starts and renamed into the folder when it is their time.

**Latency** is from that rename to the moment at which the notifications of the file's batch can be
read: the rename of the batch's folder (ours), the entry in the log of the file sink (the join). The
first {warm:.0f} s are not counted. Every notification was counted against the index in memory.

**The join** is written by hand in Spark Structured Streaming: a grid over the four attributes
computed for both sides (of {latency_bits} bits each for latency, of {rate_bits} for the rate: each
the better one), subscriptions typed, repeated per cell and cached before the first event, the
events of the batch broadcast to them, the ranges checked after the join, and Parquet by Spark's
file sink, which is exactly-once as ours is. Caching numbers only, or reading them from Parquet in
memory, was no quicker. It has the same trigger and checkpoint file manager as ours. It knows no
repeated ids, so the duplicate window is off in what is compared with it. *Plainly written* it says
`events.join(subscriptions, "cell")` and leaves to Spark how to do it.

**The trigger** is {soon} ms for both where latency is measured, so that a batch begins about when
its events are there, and the default of {trigger} ms elsewhere: there both wait half of it on
average.

**A rate is held** if over a step of {step:.0f} s, its first third left out, latency grows by less
than 0.05 s per second and nothing waits for more than 8 s. Rates are doubled until one is not held,
and the gap between the last two is halved twice; a rate has two tries, and between steps the stream
catches up. The files of a step are a pool of 8 that comes again and again.
"""


def rows_of(found: Found) -> Iterator[Row]:
    if "ours" in found and "join" in found:
        yield from _latency(found["ours"], found["join"], "stream-static join")
    if "ours" in found and "plain_join" in found:
        yield from _latency(found["ours"], found["plain_join"], "the join, plainly written")
    if "default_ours" in found and "default_join" in found:
        yield from _latency(
            found["default_ours"], found["default_join"], "stream-static join", DEFAULT
        )
    if "ours" in found:
        yield _memory(found["ours"])
    for name, what in (("window", "duplicate window of 10 min on"), ("kafka", "Kafka to Kafka")):
        if name in found:
            yield _beside(found[name], what)
    if "held_ours" in found and "held_join" in found:
        yield _held(found["held_ours"], found["held_join"])
    if "changes" in found:
        yield _changes(found["changes"])
    for window in ("on", "off"):
        name = f"window_{window}"
        if name in found:
            yield _backlog(found[name], window)


def _latency(ours: Found, join: Found, rival: str, where: str = "") -> Iterator[Row]:
    """The target is for the first of them: other ways to run it are shown beside it."""
    aimed = not where
    for name in ("p50", "p99"):
        mine, its = ours["latency"].get(name), join["latency"].get(name)
        if mine is None or its is None:
            continue
        rate = "" if join["rate"] == ours["rate"] else f" at {big(join['rate'])} events/s"
        what = f"latency at {big(ours['rate'])} events/s, {ours['seconds']:.0f} s{where}"
        yield Row(
            figure=f"{what}, {name}",
            ours=f"{mine:.3f} s",
            rival=f"{rival}{rate}: {its:.3f} s",
            ratio=its / mine,
            target=f"≤ {LATENCY_TARGET}× its" if aimed else "",
            met=mine <= LATENCY_TARGET * its if aimed else None,
            cores=2,
        )


def _memory(ours: Found) -> Row:
    """Java's resident memory grows until its heap is full once, so what counts is what it uses."""
    memory = ours["memory"]
    if "heap_last" not in memory:
        return Row(figure="memory", ours="not seen", cores=2)
    first, last = memory["heap_first"], memory["heap_last"]
    python = memory["growth_of_python"]
    return Row(
        figure="memory: Java's heap in use, after the warm-up and at the end; Python's, last third "
        "over first; all that is resident, at most",
        ours=f"{first / 2**20:.0f} and {last / 2**20:.0f} MiB; {python:.3f}; "
        f"{memory['peak'] / 2**30:.2f} GiB",
        target=f"flat: ≤ {GROWTH_MAX:.2f}×",
        met=last <= GROWTH_MAX * first and python <= GROWTH_MAX,
        cores=2,
    )


def _beside(one: Found, what: str) -> Row:
    if "not_measured" in one:
        return Row(figure=what, ours=f"not measured: {one['not_measured']}", cores=2)
    latency = one["latency"]
    shown = f"p50 {latency['p50']:.3f} s, p99 {latency['p99']:.3f} s" if latency else "none"
    return Row(
        figure=f"latency at {big(one['rate'])} events/s, {one['seconds']:.0f} s, {what}",
        ours=shown,
        cores=2,
    )


def _held(ours: Found, join: Found) -> Row:
    ratio = ours["held"] / join["held"] if join["held"] else None
    more = "" if ours["not_held"] else " or more"
    return Row(
        figure="event rate that is held",
        ours=f"{big(ours['held'])}{more} events/s",
        rival=f"stream-static join: {big(join['held'])} events/s",
        ratio=ratio,
        target=f"≥ {RATE_TARGET:g}× its",
        met=None if ratio is None else ratio >= RATE_TARGET,
        cores=2,
    )


def _changes(found: Found) -> Row:
    without, with_ = found["events_per_second_without"], found["events_per_second_with"]
    cost = None if not without or not with_ else 1 - with_ / without
    return Row(
        figure="1,000 changes taken up: cost to the throughput of the batch",
        ours="not seen" if cost is None else f"{100 * cost:.1f}% of {big(without)} events/s",
        target=f"≤ {100 * CHANGE_MAX:.0f}%",
        met=None if cost is None else cost <= CHANGE_MAX,
        cores=2,
    )


def _backlog(found: Found, window: str) -> Row:
    rate = found["events_per_second"]
    return Row(
        figure=f"catch-up on a backlog of {big(found['events'])} events, duplicate window {window}",
        ours=f"{big(rate)} events/s ({found['seconds']:.1f} s)",
        target=f"≥ {big(CATCH_UP_MIN)} events/s",
        met=rate >= CATCH_UP_MIN,
        cores=2,
    )


def page(rows: list[Row], found: Found, sizes: StreamSizes, again: Sequence[str] = ()) -> str:
    head = HEAD.format(
        subscriptions=sizes.subscriptions,
        matches=found["ours"]["matches_per_event"],
        rows=round(sizes.rate / 5),
        warm=sizes.warm_seconds,
        step=sizes.step_seconds,
        soon=SOON_MS,
        trigger=TRIGGER_MS,
        latency_bits=LATENCY_BITS,
        rate_bits=RATE_BITS,
    )
    lines = [head, "| figure | ours | rival | ratio | target | met |", "|---|---|---|---:|---|---|"]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}×"
        met = {True: "yes", False: "no", None: ""}[row.met]
        cells = (row.figure, row.ours, row.rival, ratio, row.target, met)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Latency over time", "", f"![latency over time](figures/{NAME}.svg)", ""]
    lines += ["## Where the time of a batch goes", "", *_where(found)]
    if again:
        lines += ["", f"Measured again after the whole run: {', '.join(again)}."]
    taken = max(one.get("disturbance", 0.0) for one in found.values())
    lines += ["", f"Processes of others had at most {taken:.0%} of the cores meanwhile."]
    used = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return "\n".join([*lines, "", f"Measured with {used}.", ""])


def _where(found: Found) -> Iterator[str]:
    """Medians, in ms."""
    yield "Medians over batches, in ms. Spark's own steps, then ours within `addBatch`."
    yield ""
    yield "| | " + " | ".join(("ours", "join")) + " |"
    yield "|---|---:|---:|"
    ours, join = found["ours"]["spark_ms"], found["join"]["spark_ms"]
    for name in sorted(ours.keys() | join.keys()):
        yield f"| {name} | {ours.get(name, '')} | {join.get(name, '')} |"
    for name, seconds in found["ours"]["stages"].items():
        yield f"| our {name} | {1000 * seconds:.0f} | |"


def plot(found: Found, folder: Path) -> None:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, label, colour in (
        ("join", "stream-static join", RIVAL),
        ("ours", "Crossroads", INK),
    ):
        points = found[name]["over_time"]
        at, seconds = [one[0] for one in points], [one[1] for one in points]
        axes.plot(at, seconds, ".", markersize=2, color=colour, label=label)
    axes.set_xlabel("seconds since the end of the warm-up")
    axes.set_ylabel("latency of a file, s")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="upper left", markerscale=5)
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": NAME, "svg.fonttype": "none"}):
        figure.savefig(folder / f"{NAME}.svg", metadata={"Date": None, "Creator": None})
        figure.savefig(folder / f"{NAME}.png", dpi=150, metadata={"Software": None})
