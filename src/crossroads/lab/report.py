"""The results as one page: what the documents say beside what was measured, with every figure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from crossroads.lab.experiment import Scale, Verdict
from crossroads.lab.plots import draw
from crossroads.lab.run import Result
from crossroads.pipeline.charts import tag
from crossroads.pipeline.page import figure, page, section

TITLE = "The documents' experiments, measured again"
INTERVALS = "A point is a mean over the seeds; the line through it is its 95% interval."


def report_page(results: Sequence[Result]) -> str:
    return page(TITLE, _overview(results), *map(_experiment, results))


def _overview(results: Sequence[Result]) -> str:
    judged = [(one, one.verdicts) for one in results]
    count = sum(len(verdicts) for _, verdicts in judged)
    held = sum(verdict.holds for _, verdicts in judged for verdict in verdicts)
    said = (
        f"{held} of {count} claims hold. A claim that does not hold is a finding, not a failure: "
        "each says by which rule it was judged, and why it does not."
    )
    rows = []
    for one, verdicts in judged:
        holding = sum(verdict.holds for verdict in verdicts)
        link = tag(
            "a", escape(f"{one.experiment.id} {one.experiment.title}"), href=f"#{_anchor(one)}"
        )
        cells = link, escape(one.experiment.figure), f"{holding} of {len(verdicts)}"
        rows.append(tag("tr", "".join(tag("td", cell) for cell in cells)))
    head = tag("tr", "".join(tag("th", name) for name in ("experiment", "shown in", "hold")))
    return tag("p", escape(said)) + tag("div", tag("table", head + "".join(rows)), class_="wide")


def _anchor(one: Result) -> str:
    return one.experiment.id.lower()


def _experiment(one: Result) -> str:
    known = one.experiment
    drawn = "".join(
        figure(draw(plot), f"{plot.title[0].upper()}{plot.title[1:]}. {INTERVALS}")
        for plot in known.plots(one.findings)
    )
    content = "".join(
        (
            tag("a", " ", id=_anchor(one)),
            tag("p", escape(f"{known.claim} ({known.figure})")),
            "".join(map(_verdict, one.verdicts)),
            drawn,
            tag("p", "How we read what the document leaves open:"),
            tag("ul", "".join(tag("li", escape(reading)) for reading in known.readings)),
            _parameters(one),
        )
    )
    return section(f"{known.id}: {known.title}", content)


def _verdict(verdict: Verdict) -> str:
    word = "holds" if verdict.holds else "does not hold"
    lines = (
        tag("strong", escape(f"{verdict.claim}: {word}")),
        escape(f"published: {verdict.published}"),
        escape(f"measured: {verdict.measured}"),
        tag("span", escape(verdict.note), class_="soft"),
    )
    style = "verdict" if verdict.holds else "verdict not"
    return tag("div", tag("br").join(lines), class_=style)


def _parameters(one: Result) -> str:
    ran = one.ran
    rows = [
        *one.experiment.parameters(Scale(ran.scale)),
        ("scale", f"{ran.scale}, {ran.configurations:,} configurations"),
        ("seeds", f"1 to {ran.seeds}"),
        ("made", f"{ran.made} by crossroads {ran.version}"),
    ]
    lines = (tag("tr", tag("td", escape(name)) + tag("td", escape(said))) for name, said in rows)
    return tag("div", tag("table", "".join(lines), class_="facts"), class_="wide")
