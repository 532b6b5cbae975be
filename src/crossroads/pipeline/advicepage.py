"""The advice as one page: what each plan would cost, by charts and tables, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite

from crossroads.pipeline.advice import PROFILE_CELLS, Advice, Profile, Spread
from crossroads.pipeline.charts import Bar, Curve, bars, curves, tag
from crossroads.pipeline.estimate import Estimate
from crossroads.pipeline.expensive import Expensive
from crossroads.pipeline.page import figure, head_row, page, section
from crossroads.pipeline.situation import Side
from crossroads.pipeline.wording import number_text, seconds_text, share_text, size_text

WARM = (
    "Predicted time of the match on a Spark that is warm: the first job of a process takes some "
    "seconds longer, with most plans more than ten."
)
HEADINGS = (
    "plan and mapping", "cells", "cells per subscription", "cells per event",
    "candidates per event", "skew", "shuffled", "index", "predicted",
)  # fmt: skip


@dataclass(frozen=True)
class Origin:
    """What the page was made of; whoever makes it knows, the page does not look."""

    version: str
    made: str  # a date
    schema: str  # names of the files, as they were given
    subscriptions: str
    events: str


def advice_page(advice: Advice, origin: Origin) -> str:
    title = f"Which plan for {advice.schema}?"
    return page(
        title,
        _recommendation(advice),
        _costs(advice.estimates),
        _loads(advice.profiles, advice.notes),
        _cells(advice.profiles),
        _expensive(advice),
        _parameters(advice, origin),
    )


def _recommendation(advice: Advice) -> str:
    lines = [tag("p", escape(advice.recommendation))]
    lines.append(tag("p", tag("code", escape(f"crossroads match … {advice.flags}"))))
    if advice.growth is not None:
        many = f"Beyond about {advice.growth.subscriptions:,} subscriptions like these, "
        what = "one host cannot hold their index any more; then: "
        lines.append(tag("p", escape(many + what) + tag("code", escape(advice.growth.flags))))
    return tag("div", "".join(lines), class_="advice")


def _costs(found: Sequence[Estimate]) -> str:
    rows = [
        Bar(
            one.name,
            one.seconds if isfinite(one.seconds) else None,
            seconds_text(one.seconds) if one.refused is None else "refused",
            faint=one.refused is not None,
            hint=one.refused or seconds_text(one.seconds),
        )
        for one in found
    ]
    drawn = bars(rows, title="predicted seconds by plan and mapping", powers_of="s")
    said = f"{WARM} Each step is ten times as long."
    table = tag("div", tag("table", head_row(HEADINGS) + "".join(map(_row, found))), class_="wide")
    reasons = dict.fromkeys(f"{one.name}: {one.refused}" for one in found if one.refused)
    refused = "".join(tag("li", escape(reason)) for reason in reasons)
    more = tag("p", "Out of the question:") + tag("ul", refused) if refused else ""
    return section("What each plan would cost", figure(drawn, said) + table + more)


def _row(one: Estimate) -> str:
    cells = [tag("td", escape(text)) for text in estimate_texts(one)]
    return tag("tr", "".join(cells), class_="refused" if one.refused else "")


def estimate_texts(one: Estimate) -> tuple[str, ...]:
    """One line under HEADINGS; what has no meaning for the plan is left empty."""
    counts, mapped = one.counts, one.cells is not None
    return (
        one.name,
        f"{one.cells:,}" if one.cells is not None else "",
        number_text(counts.cells_per_subscription) if mapped else "",
        number_text(counts.cells_per_event) if mapped else "",
        number_text(counts.candidates_per_event) if counts.candidates_per_event else "",
        number_text(counts.skew) if mapped else "",
        size_text(one.bytes_shuffled) if one.bytes_shuffled else "",
        size_text(one.index_bytes) if one.index_bytes else "",
        seconds_text(one.seconds) if one.refused is None else "refused",
    )


def _loads(found: Sequence[Profile], notes: Sequence[str]) -> str:
    drawn = curves(
        [Curve(_with_cells(one), one.load) for one in found],
        title="load per cell, heaviest first, by mapping",
        across="cells, the heaviest first",
        up="share of all meetings",
    )
    said = (
        f"Of {PROFILE_CELLS} cells of equal size, unless the name says otherwise; plan keyed cuts "
        "its cells where the load is even, as far as that goes. A meeting is an event and a "
        "subscription that come together in a cell. A flat curve is even work; a steep one means "
        "that a few cells have most of it. Cells without any are not drawn."
    )
    listed = tag("ul", "".join(tag("li", escape(note)) for note in notes)) if notes else ""
    return section("Load per cell", figure(drawn, said) + listed)


def _with_cells(one: Profile) -> str:
    return one.mapping if one.cells == PROFILE_CELLS else f"{one.mapping} ({one.cells:,} cells)"


def _cells(found: Sequence[Profile]) -> str:
    subscriptions = [_spread_bar(one.mapping, one.per_subscription) for one in found]
    events = [_spread_bar(one.mapping, one.per_event) for one in found]
    root = ", ".join(f"{one.mapping} {share_text(one.at_root)}" for one in found if one.at_root)
    how = "the mean, and what 95% do not exceed (the line)"
    standing = f"Cells that a subscription stands in: {how}. "
    standing += f"At the root, where every event asks, stand: {root or 'none'}."
    return section(
        "Cells per subscription and per event",
        figure(bars(subscriptions, title="cells per subscription"), standing)
        + figure(bars(events, title="cells per event"), f"Cells that an event visits: {how}."),
    )


def _spread_bar(mapping: str, cells: Spread) -> Bar:
    hint = f"median {cells.median:g}, 95% within {cells.p95:g}, at most {cells.max:g}"
    numbers = f"{number_text(cells.mean)}, 95%: {number_text(cells.p95)}"
    return Bar(mapping, cells.mean, numbers, mark=cells.p95, hint=hint)


def _expensive(advice: Advice) -> str:
    found = advice.expenses
    if not found.most:
        return section("Expensive subscriptions", tag("p", "None of the sampled ones stands out."))
    sampled = advice.sampled_subscriptions
    counts = "; ".join(
        f"{reason}: {count:,} ({share_text(count / sampled)})"
        for reason, count in found.counts.items()
    )
    said = tag("p", escape(f"Of {sampled:,} sampled subscriptions: {counts}."))
    listed = "".join(map(_described, found.most))
    return section("Expensive subscriptions", said + tag("dl", listed))


def _described(one: Expensive) -> str:
    others = f" ({one.same:,} times in the sample)" if one.same > 1 else ""
    term = tag("dt", escape(one.id) + ": " + tag("code", escape(one.filter)) + others)
    return term + "".join(
        tag("dd", escape(f"{why.text}; ") + tag("span", escape(why.help), class_="soft"))
        for why in one.why
    )


def _parameters(advice: Advice, origin: Origin) -> str:
    here = advice.situation
    rows = [
        ("schema", f"{origin.schema} (hash {advice.schema_hash[:12]})"),
        ("subscriptions", f"{origin.subscriptions}: {side_text(here.subscriptions)}"),
        ("events", f"{origin.events}: {side_text(here.events)}"),
        ("sampled", sampled_text(advice)),
        ("cores", f"{here.cores:,}"),
        ("memory of one host", size_text(here.memory)),
        ("all workers see all paths", "yes" if here.local else "no"),
        ("made", f"{origin.made} by crossroads {origin.version}"),
    ]
    lines = (tag("tr", tag("td", escape(name)) + tag("td", escape(said))) for name, said in rows)
    return section("What this is based on", tag("div", tag("table", "".join(lines)), class_="wide"))


def side_text(side: Side) -> str:
    return f"{'' if side.exact else 'about '}{side.count:,} ({size_text(side.bytes)})"


def sampled_text(advice: Advice) -> str:
    refused = [
        f"{count:,} {what} refused"
        for count, what in (
            (advice.refused_subscriptions, "subscriptions"),
            (advice.refused_events, "events"),
        )
        if count
    ]
    said = f"{advice.sampled_subscriptions:,} subscriptions and {advice.sampled_events:,} events"
    return said + (f" ({', '.join(refused)})" if refused else "")
