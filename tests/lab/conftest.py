"""Findings of every experiment at small scale: measured once, asserted by many tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from statistics import mean, stdev

import pytest

from crossroads.lab.experiment import Scale, Verdict
from crossroads.lab.experiments import experiment_of
from crossroads.lab.findings import STUDENT_T, Findings, Point

SEEDS = (1, 2)


@cache
def small(name: str) -> Findings:
    """What the sweep would find, without Spark; `test_sweep` shows that it does."""
    experiment = experiment_of(name)
    rows = defaultdict(list)
    for configuration in experiment.configurations(Scale.SMALL, SEEDS):
        for series, metric, x, value in experiment.measure(configuration):
            rows[series, metric, float(x)].append(value)
    return Findings(
        Point(*place, mean(values), sd := stdev(values), len(values), margin(sd, len(values)))
        for place, values in rows.items()
    )


def margin(sd: float, runs: int) -> float:
    return STUDENT_T[runs - 2] * sd / runs**0.5


@pytest.fixture(scope="session")
def found() -> Callable[[str], Findings]:
    return small


@pytest.fixture(scope="session")
def verdicts() -> Callable[[str], dict[str, Verdict]]:
    return lambda name: {one.claim: one for one in experiment_of(name).judge(small(name))}
