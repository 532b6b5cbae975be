"""The page: well-formed, self-contained, every figure, published beside measured."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import crossroads
from crossroads.lab.experiments import EXPERIMENTS, experiment_of
from crossroads.lab.findings import Point
from crossroads.lab.plots import Curves, Line, draw
from crossroads.lab.report import report_page
from crossroads.lab.run import Ran, Result

RAN = Ran("small", 2, crossroads.__version__, "2031-05-06", 12)


@pytest.fixture(scope="module")
def page(found) -> str:
    return report_page([Result(experiment_of(name), RAN, found(name)) for name in EXPERIMENTS])


def text_of(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def test_the_page_has_every_claim_and_every_figure(page, found, verdicts):
    parsed = ElementTree.fromstring(page)
    said = text_of(parsed)
    drawings = [one.get("aria-label") for one in parsed.iter("svg")]
    for name in EXPERIMENTS:
        experiment = experiment_of(name)
        assert f"{name}: {experiment.title}" in said
        assert experiment.claim in said
        for plot in experiment.plots(found(name)):
            assert plot.title in drawings
        for claim, one in verdicts(name).items():
            assert f"{claim}: {'holds' if one.holds else 'does not hold'}" in said
            assert f"published: {one.published}" in said
            assert f"measured: {one.measured}" in said
    held = [one.holds for name in EXPERIMENTS for one in verdicts(name).values()]
    assert f"{sum(held)} of {len(held)} claims hold" in said


def test_the_page_says_how_it_was_made_and_needs_nothing_from_elsewhere(page):
    said = text_of(ElementTree.fromstring(page))
    for part in ("1 to 2", "2031-05-06", crossroads.__version__, "small, 12 configurations"):
        assert part in said
    for foreign in ("http://", "https://", "<script", "url("):
        assert foreign not in page
    assert "width=device-width" in page and "prefers-color-scheme: dark" in page


def test_curves_stay_within_their_drawing():
    points = [Point("s", "m", x, y, 1, 3, 0.5 * y) for x, y in ((10, 1.0), (100, 40), (1000, 900))]
    for log in (False, True):
        plot = Curves("<t>", "x & y", "up", [Line("a<b", points)], log_across=log, log_up=log)
        parsed = ElementTree.fromstring(draw(plot))
        width, height = map(float, parsed.get("viewBox", "").split()[2:])
        (curve,) = parsed.iter("polyline")
        places = [tuple(map(float, pair.split(","))) for pair in curve.get("points", "").split()]
        assert len(places) == 3 and places == sorted(places)
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)
        assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
