"""The page: well-formed, self-contained, everything on it; no text of a user becomes markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from crossroads.lab.workloads import stocks, write_workload
from crossroads.mapping.fit import MAPPINGS
from crossroads.model.schema import Schema
from crossroads.pipeline.advice import Advice, advise
from crossroads.pipeline.advicepage import Origin, advice_page
from crossroads.pipeline.charts import Bar, Curve, bars, curves
from crossroads.pipeline.expensive import Expensive, Reason, Why

ORIGIN = Origin("9.9", "2031-05-06", "w/schema.toml", "w/subscriptions.parquet", "w/events.parquet")
NASTY = "<script>alert('&')</script>\"]]>"


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> Advice:
    workload = stocks(4, 2_000, 1_000)
    folder = tmp_path_factory.mktemp("w")
    files = write_workload(workload, folder, format="parquet", overwrite=True)
    schema = Schema.from_toml(workload.schema_toml)
    return advise(schema, files.subscriptions, files.events, cores=2, memory=1 << 30)


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page)


def text_of(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def test_the_page_has_the_charts_the_advice_and_where_it_comes_from(advice: Advice) -> None:
    page = parsed(advice_page(advice, ORIGIN))
    drawings = {one.get("aria-label"): one for one in page.iter("svg")}
    assert set(drawings) == {
        "predicted seconds by plan and mapping",
        "load per cell, heaviest first, by mapping",
        "cells per subscription",
        "cells per event",
    }
    costs = text_of(drawings["predicted seconds by plan and mapping"])
    assert all(one.name in costs for one in advice.estimates)
    load = drawings["load per cell, heaviest first, by mapping"]
    assert len(list(load.iter("polyline"))) == len(MAPPINGS)
    said = text_of(page)
    assert advice.recommendation in said
    assert advice.flags in said
    assert advice.growth is not None
    assert advice.growth.flags in said
    for part in ("9.9", "2031-05-06", "w/events.parquet", advice.schema_hash[:12], "1,000", "2"):
        assert part in said


def test_the_page_needs_nothing_from_elsewhere(advice: Advice) -> None:
    page = advice_page(advice, ORIGIN)
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert not re.search(r"https?:|//|@import|url\(|<script|<img|<link|<iframe", page)
    tree = parsed(page)
    assert not [one for one in tree.iter() if one.get("src") or one.get("href")]
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_text_of_users_stays_text(advice: Advice) -> None:
    why = Why(Reason.BROAD, NASTY, NASTY)
    one = Expensive(NASTY, NASTY, 0.5, 3, 2, (why,))
    nasty = replace(
        advice,
        schema=NASTY,
        expenses=replace(advice.expenses, counts={NASTY: 1}, most=(one,)),
        profiles=tuple(replace(some, notes=(NASTY,)) for some in advice.profiles),
        estimates=tuple(replace(some, refused=NASTY) for some in advice.estimates),
    )
    origin = Origin(NASTY, NASTY, NASTY, NASTY, NASTY)
    page = advice_page(nasty, origin)
    tree = parsed(page)
    assert not list(tree.iter("script"))
    assert "<script" not in page
    assert text_of(tree).count("alert('&')") > 10


def test_what_is_refused_is_faint_and_explained(advice: Advice) -> None:
    worst = replace(advice.estimates[-1], seconds=float("inf"), refused="too many cells")
    page = parsed(advice_page(replace(advice, estimates=(*advice.estimates[:-1], worst)), ORIGIN))
    costs = next(page.iter("svg"))
    faint = [one for one in costs.iter("text") if one.get("class") == "faint"]
    assert [text_of(one) for one in faint] == ["refused"]
    assert f"{worst.name}: too many cells" in text_of(page)


def test_nobody_expensive_is_said_too(advice: Advice) -> None:
    none = replace(advice, expenses=replace(advice.expenses, most=(), counts={}))
    assert "None of the sampled ones stands out." in advice_page(none, ORIGIN)


def rectangles(drawing: str) -> list[float]:
    return [float(str(one.get("width"))) for one in parsed(drawing).iter("rect")]


def test_bars_are_as_long_as_their_values() -> None:
    rows = [Bar("a", 1.0, "1"), Bar("b", 4.0, "4"), Bar("c", None, "unknown")]
    short, long = rectangles(bars(rows, title="t"))
    assert long == pytest.approx(4 * short, rel=0.01)
    one, two, three = rectangles(
        bars([Bar(str(v), v, "") for v in (2.0, 20.0, 2000.0)], title="t", powers_of="s")
    )
    assert three - two == pytest.approx(2 * (two - one), abs=0.2)


def test_a_mark_stands_at_its_value() -> None:
    drawing = parsed(bars([Bar("a", 10.0, "", mark=5.0), Bar("b", 5.0, "")], title="t"))
    (mark,) = drawing.iter("line")
    first, second = drawing.iter("rect")
    assert float(str(mark.get("x1"))) == pytest.approx(
        float(str(second.get("x"))) + float(str(second.get("width"))), abs=0.2
    )
    assert float(str(first.get("width"))) == pytest.approx(
        2 * float(str(second.get("width"))), 0.01
    )


def test_curves_fall_and_differ_by_colour_and_dashes() -> None:
    found = [Curve(f"m{n}", [0.5, 0.3, 1e-9]) for n in range(6)]
    drawing = parsed(curves(found, title="t", across="x", up="y"))
    lines = list(drawing.iter("polyline"))
    assert len({(one.get("stroke"), one.get("stroke-dasharray")) for one in lines}) == 6
    assert len({one.get("stroke") for one in lines}) == 6
    heights = [float(point.split(",")[1]) for point in str(lines[0].get("points")).split()]
    assert heights == sorted(heights), "down is larger"
    assert [text_of(one) for one in drawing.iter("text")][-6:] == [f"m{n}" for n in range(6)]


def test_charts_of_nothing_are_empty_not_broken() -> None:
    assert not list(parsed(bars([], title="t")).iter("rect"))
    assert not list(parsed(curves([], title="t", across="x", up="y")).iter("polyline"))
    assert not rectangles(bars([Bar("a", None, "?")], title="t", powers_of="s"))


def test_paths_are_shown_as_given(advice: Advice) -> None:
    page = advice_page(advice, ORIGIN)
    assert str(Path.cwd()) not in page
