"""A page of ours: self-contained HTML, for a desk or a phone, by day or by night.

It is well-formed XML as well, and needs nothing from anywhere: no script, no font, no image.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from crossroads.pipeline.charts import tag

STYLE = """
:root { color-scheme: light dark; --ink: #1d2127; --soft: #5b6470; --line: #d8dce1;
  --paper: #fcfcfb; --card: #f1f3f5; --bar: #0072B2; --faint: #b7bdc4; --mark: #D55E00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a3abb5; --line: #3a4048;
  --paper: #16191d; --card: #20252b; --bar: #56B4E9; --faint: #565e68; --mark: #E69F00; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 46rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p, li { overflow-wrap: anywhere; }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.advice { background: var(--card); border-left: .3rem solid var(--bar); padding: .8rem 1rem; }
code { font: .9em ui-monospace, monospace; background: var(--card); padding: .1em .3em;
  overflow-wrap: anywhere; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg text.faint { fill: var(--soft); } svg .bar { fill: var(--bar); }
svg .bar.faint { fill: var(--faint); } svg .mark { stroke: var(--mark); stroke-width: 2.5; }
svg .grid { stroke: var(--line); } svg .curve { fill: none; stroke-width: 2; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .25rem .6rem .25rem 0; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } tr { border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.facts td { white-space: normal; text-align: left; overflow-wrap: anywhere; }
.verdict { background: var(--card); border-left: .3rem solid var(--bar); padding: .5rem .8rem;
  margin: .6rem 0; overflow-wrap: anywhere; font-size: .95rem; }
.verdict.not { border-left-color: var(--mark); }
.refused td { color: var(--soft); } dt { font-weight: 600; margin-top: .9rem; } dd { margin: 0; }
"""


def page(title: str, *parts: str) -> str:
    """The whole document; the parts are markup, the title is text."""
    head = (
        tag("meta", charset="utf-8")
        + tag("meta", name="viewport", content="width=device-width, initial-scale=1")
        + tag("title", escape(title))
        + tag("style", STYLE)
    )
    body = tag("h1", escape(title)) + "".join(parts)
    whole = tag("html", tag("head", head) + tag("body", body), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def section(title: str, content: str) -> str:
    return tag("section", tag("h2", escape(title)) + content)


def figure(drawing: str, caption: str) -> str:
    return tag("figure", drawing + tag("figcaption", escape(caption)))


def head_row(headings: Iterable[str]) -> str:
    return tag("tr", "".join(tag("th", escape(heading)) for heading in headings))
