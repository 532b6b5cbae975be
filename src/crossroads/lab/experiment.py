"""What an experiment is: a claim of a document, what to run, and how to judge it by the numbers.

    configurations ─▶ measure ─▶ rows ─▶ means over seeds: findings ─▶ judge, plots

Each is a module of `crossroads.lab.experiments`. A **configuration** is a frozen value with a seed:
one task of a sweep, the same numbers wherever it runs. A **row** is one number: of which series, in
which unit (`metric`), at which x. A **verdict** comes from a rule that the experiment states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from crossroads.lab.findings import Findings
from crossroads.lab.plots import Plot


class Scale(StrEnum):
    SMALL = "small"  # seconds: the shape of the claim, for continuous integration
    FULL = "full"  # the document's own sizes


class Configuration(Struct, frozen=True, kw_only=True):
    """The parameters of one run. Subclasses add theirs; all are plain values, kept as JSON."""

    seed: int

    @property
    def cost(self) -> float:
        """How long it takes, against others of any experiment: the longest are started first."""
        return 1.0


class Row(NamedTuple):
    series: str  # which curve or bar of the figure
    metric: str  # what was counted
    x: float  # where on the curve; 0 where there is only one place
    value: float


class Verdict(Struct, frozen=True):
    claim: str  # the experiment and the part of its claim
    published: str
    measured: str
    holds: bool
    note: str  # the rule, and why it does not hold where it does not


@dataclass(frozen=True, kw_only=True)
class Experiment:
    id: str
    title: str
    figure: str  # where the document shows it
    claim: str  # in words
    published: str  # what the document says, numbers or shape
    readings: tuple[str, ...]  # how we read what it leaves open
    kind: type[Configuration]
    configurations: Callable[[Scale, Sequence[int]], list[Configuration]]
    measure: Callable[..., Iterator[Row]]  # of a configuration of that kind
    judge: Callable[[Findings], list[Verdict]]
    plots: Callable[[Findings], list[Plot]]
    parameters: Callable[[Scale], list[tuple[str, str]]]  # name and value, for the report
