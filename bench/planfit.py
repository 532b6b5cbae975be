"""Prices from measured runs: the work that was foreseen, and the seconds that it took.

Least squares of the logarithms, so that a plan of two seconds counts as much as one of thirty, and
every price stays above zero. What the runs say nothing about stays as it is: each price is held to
its present value by a weak spring. A plan that was stopped took at least so long: it pulls only
where less was foreseen.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.planpage import correlation_of
from crossroads.pipeline.prices import PRICES, Prices

SPRING = 0.1  # a price e times as high weighs as much as an error of a tenth in one run
ROUNDS = 200
STEP = 0.5  # of each round's correction: full ones overshoot where stopped plans begin to pull

Floats = npt.NDArray[np.float64]


def fit(results: list[dict[str, Any]], start: Prices = PRICES) -> Prices:
    if not results:
        return start  # nothing says that they are wrong
    names = [one.name for one in fields(Prices)]
    work, seconds, stopped = _rows(results, names)
    before = np.log([getattr(start, name) for name in names])
    now = before.copy()
    for _ in range(ROUNDS):
        parts = work * np.exp(now) / 1e9
        foreseen = parts.sum(axis=1)
        error = np.log(seconds) - np.log(foreseen)
        counts = ~stopped | (error > 0)
        slopes = (parts / foreseen[:, None])[counts]
        matrix = np.vstack([slopes, SPRING * np.eye(now.size)])
        wanted = np.concatenate([error[counts], SPRING * (before - now)])
        now = now + STEP * np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    return Prices(
        **{name: float(f"{price:.2g}") for name, price in zip(names, np.exp(now), strict=True)}
    )


def _rows(results: list[dict[str, Any]], names: list[str]) -> tuple[Floats, Floats, Any]:
    """The work of each plan that was run, the seconds, and whether it was stopped then."""
    run = [
        one
        for result in results
        for one in (*result["plans"], *result.get("small", ()))
        if one["predicted"] is not None and (one["seconds"] or one["stopped"])
    ]
    work = np.array([[one["work"].get(name, 0.0) for name in names] for one in run])
    seconds = np.array([one["seconds"] or one["stopped"] for one in run])
    return work, seconds, np.array([one["seconds"] is None for one in run])


def unseen(results: list[dict[str, Any]]) -> dict[str, float]:
    """By workload: the rank correlation with prices that were fitted to all the others."""
    found = {}
    for result in results:
        others = fit([one for one in results if one is not result])
        plans = [
            one | {"predicted": None if one["predicted"] is None else others.seconds(one["work"])}
            for one in result["plans"]
        ]
        found[result["workload"]] = correlation_of(plans)
    return found


def fitted_prices(results: list[dict[str, Any]]) -> str:
    """What pipeline/prices.py should say, beside what it says."""
    found = fit(results)
    lines = ["price        now          fitted"]
    for one in fields(Prices):
        lines.append(f"{one.name:12} {getattr(PRICES, one.name):<12g} {getattr(found, one.name):g}")
    return "\n".join(lines) + "\n"
