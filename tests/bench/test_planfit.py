"""Prices are found again in seconds that were made of them; stopped plans are only lower bounds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from bench.planfit import fit
from bench.planpage import correlation_of, rank_correlation

from crossroads.pipeline.prices import PRICES, Prices

NAMES = [one.name for one in fields(Prices)]


def plan(work: dict[str, float], seconds: float | None, stopped: float | None) -> dict[str, Any]:
    return {"predicted": 1.0, "work": work, "seconds": seconds, "stopped": stopped}


def measured(true: Prices, count: int, seed: int) -> list[dict[str, Any]]:
    """Work in which every price has about as much to say."""
    dice = np.random.default_rng(seed)
    works = [
        {name: float(dice.lognormal() * 1e9 / getattr(PRICES, name)) for name in NAMES}
        for _ in range(count)
    ]
    return [plan(work, true.seconds(work), None) for work in works]


def test_prices_are_found_again() -> None:
    dice = np.random.default_rng(3)
    true = Prices(**{name: getattr(PRICES, name) * float(dice.uniform(0.3, 3)) for name in NAMES})
    found = fit([{"plans": measured(true, 400, 4)}])
    for name in NAMES:
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=0.15), name


def test_what_was_not_measured_stays() -> None:
    work = {"load": 1e6, "read": 1e6}
    found = fit([{"plans": [plan(work, 5 * PRICES.seconds(work), None)]}])
    assert found.load > PRICES.load
    assert found.candidate == pytest.approx(PRICES.candidate, rel=0.05)


def test_a_stopped_plan_pulls_only_upwards() -> None:
    work = {"pair": 1e12}
    took = PRICES.seconds(work)
    assert fit([{"plans": [plan(work, None, took / 100)]}]).pair == pytest.approx(PRICES.pair)
    assert fit([{"plans": [plan(work, None, took * 100)]}]).pair > 50 * PRICES.pair


def test_equal_values_share_their_rank() -> None:
    assert rank_correlation([1, 2, 3, 3], [10, 20, 30, 30]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)


def test_beyond_the_stop_nothing_is_compared() -> None:
    done = [foreseen(1.0, 2.0, None), foreseen(3.0, 4.0, None)]
    stopped = [foreseen(400.0, None, 20.0), foreseen(100.0, None, 20.0)]
    assert correlation_of(done + stopped) == pytest.approx(1.0)
    wrong = [foreseen(0.5, None, 20.0)]  # foreseen as the best, and stopped
    assert correlation_of(done + wrong) < 0


def foreseen(predicted: float, seconds: float | None, stopped: float | None) -> dict[str, Any]:
    return {**plan({}, seconds, stopped), "predicted": predicted}
