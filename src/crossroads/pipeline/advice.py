"""Which plan and mapping to use for the data at hand, what each would cost, and who is expensive.

All of it is foreseen from a sample of both sides (`survey`, `estimate`); nothing is matched, and
Spark is not started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.mapping.fit import MAPPINGS
from crossroads.model.schema import Schema
from crossroads.pipeline.estimate import Estimate, estimates
from crossroads.pipeline.expensive import Expenses, expenses
from crossroads.pipeline.keyedsample import KeyedSample
from crossroads.pipeline.situation import Side, Situation, Surveyed
from crossroads.pipeline.survey import Survey, survey
from crossroads.pipeline.wording import number_text, seconds_text, size_text, two_digits

Say = Callable[[str], None]

GROWTH_ROOM = 4  # times what one host can hold: a plan for more should not be outgrown at once
PROFILE_CELLS = 256  # enough to see who is crowded, few enough that a sample fills them


@dataclass(frozen=True)
class Spread:
    """How a number is distributed."""

    mean: float
    median: float
    p95: float
    max: float

    @classmethod
    def of(cls, numbers: npt.NDArray[np.int64]) -> Spread:
        if not numbers.size:
            return cls(0.0, 0.0, 0.0, 0.0)
        median, p95 = np.percentile(numbers, [50, 95])
        return cls(float(numbers.mean()), float(median), float(p95), float(numbers.max()))


@dataclass(frozen=True)
class Profile:
    """What a mapping does with the sample, in the same number of cells as the others."""

    mapping: str
    cells: int  # fewer than the others where it has fewer keys
    load: tuple[float, ...]  # by cell its share of all meetings, the heaviest first, 0 left out
    per_subscription: Spread  # cells; of those that are not at the root
    per_event: Spread  # cells
    at_root: float  # share of the subscriptions
    notes: tuple[str, ...]  # what was taken from the data


@dataclass(frozen=True)
class Growth:
    """What to do once the subscriptions are so many that their index outgrows one host."""

    subscriptions: int
    mapping: str
    flags: str


@dataclass(frozen=True)
class Advice:
    schema: str  # its name
    schema_hash: str
    situation: Situation
    sampled_subscriptions: int
    sampled_events: int
    refused_subscriptions: int  # among the sampled ones
    refused_events: int
    estimates: tuple[Estimate, ...]  # the best first, the refused last
    profiles: tuple[Profile, ...]
    recommendation: str
    flags: str
    growth: Growth | None
    expenses: Expenses

    @property
    def best(self) -> Estimate:
        return self.estimates[0]

    @property
    def notes(self) -> list[str]:
        """What mappings have taken from the data; whose it is, unless it is that of all of them."""
        said: dict[str, list[str]] = {}
        for one in self.profiles:
            for note in one.notes:
                said.setdefault(note, []).append(one.mapping)
        every = len(self.profiles)
        return [
            note if len(whose) == every else f"{', '.join(whose)}: {note}"
            for note, whose in said.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, which knows no infinity."""
        found: dict[str, Any] = _finite(asdict(self))
        return found


def advise(
    schema: Schema,
    subscriptions: str | Path,
    events: str | Path,
    *,
    cores: int,
    memory: int,
    local: bool = True,
    say: Say = lambda _: None,
) -> Advice:
    """`cores` that work at the same time; `memory`: bytes that one host can spare for an index;
    `local`: all workers see all paths. `say` hears what is being done."""
    say("looking at both sides")
    return advise_on(schema, survey(schema, subscriptions, events), cores, memory, local, say)


def advise_on(
    schema: Schema,
    surveyed: Survey,
    cores: int,
    memory: int,
    local: bool,
    say: Say = lambda _: None,
) -> Advice:
    here = Surveyed(surveyed.situation(cores=cores, memory=memory, local=local), surveyed.sample)
    say("trying every plan and mapping")
    found = tuple(estimates(here))
    keyed = {name: one for name in MAPPINGS if not isinstance(one := here.keyed(name), str)}
    say("looking for expensive subscriptions")
    growth = _growth(here)
    # Keys matter to whoever uses them: now, or once the subscriptions have grown.
    now = _cheapest(found, "keyed")
    judged = growth.mapping if growth is not None else now.mapping if now is not None else None
    return Advice(
        schema.name,
        schema.hash,
        here.situation,
        surveyed.sample.filters.size,
        surveyed.sample.events.num_rows,
        surveyed.filters_refused,
        surveyed.events_refused,
        found,
        tuple(profile(one) for one in keyed.values()),
        _recommendation(found, here),
        flags_of(found[0]),
        growth,
        expenses(here, surveyed.names, keyed.get(judged or ""), PROFILE_CELLS),
    )


def profile(keyed: KeyedSample, cells: int = PROFILE_CELLS) -> Profile:
    found = keyed.in_cells(keyed.cells(cells))
    placed = found.per_subscription[found.per_subscription > 0]
    return Profile(
        keyed.mapping.name,
        found.count,
        tuple((found.load / max(1, found.pairs)).tolist()),
        Spread.of(placed),
        Spread.of(found.per_event),
        float(found.placed.root.mean()) if found.placed.root.size else 0.0,
        keyed.mapping.spec.notes,
    )


def flags_of(one: Estimate) -> str:
    """Of `crossroads match`, to have this plan."""
    flags = [f"--plan {one.plan}"]
    if one.mapping is not None:
        flags += [f"--mapping {one.mapping}", f"--cells {one.cells}"]
    return " ".join(flags)


def _cheapest(found: Sequence[Estimate], plan: str) -> Estimate | None:
    return next((one for one in found if one.plan == plan and one.refused is None), None)


def _recommendation(found: Sequence[Estimate], surveyed: Surveyed) -> str:
    best, here = found[0], surveyed.situation
    work = f"{here.subscriptions.count:,} subscriptions and {here.events.count:,} events"
    said = f"Use {_named(best)}: about {seconds_text(best.seconds)} for {work}, because "
    others = [one for one in found[1:] if one.refused is None and one.plan != best.plan]
    said += _because(best, surveyed, alone=not others)
    if others:
        times = others[0].seconds / best.seconds
        said += f"; the next best plan, {_named(others[0])}, would take "
        said += f"{seconds_text(others[0].seconds)} ({number_text(times)} times as long)"
    return said + "."


def _named(one: Estimate) -> str:
    if one.mapping is None:
        return one.plan
    return f"{one.plan} with {one.mapping} in {one.cells:,} cells"


def _because(best: Estimate, surveyed: Surveyed, *, alone: bool) -> str:
    here, index = surveyed.situation, surveyed.index_bytes_in_all
    room = f"the {size_text(here.memory)} that one host can spare"
    match best.plan:
        case "direct":
            return f"its index of {size_text(index)} fits {room} and nothing has to be shuffled"
        case "indexed":
            return (
                f"its index of {size_text(index)} fits {room}, nothing has to be shuffled, and "
                "not every worker sees the paths"
            )
        case "naive":
            if alone:
                return "every other plan is out of the question"
            return "so few subscriptions are asked sooner than an index is built and searched"
    counts = best.counts
    stands = (
        f"a subscription then stands in {number_text(counts.cells_per_subscription)} cells and an "
        f"event visits {number_text(counts.cells_per_event)}, where it meets "
        f"{number_text(counts.candidates_per_event)} subscriptions"
    )
    if index > here.memory:
        return f"one index of {size_text(index)} would not fit {room}; {stands}"
    return stands


def _growth(surveyed: Surveyed) -> Growth | None:
    """How many subscriptions are too many for one host, and the best plan for those."""
    here = surveyed.situation
    most = int(here.memory / surveyed.index_bytes)
    if here.subscriptions.count > most:
        return None
    count = GROWTH_ROOM * (most + 1)
    many = Side(count, int(count * here.subscriptions.row_bytes), exact=False)
    grown = replace(here, subscriptions=many)
    found = estimates(Surveyed(grown, surveyed.sample, surveyed.fitted, surveyed.keys))
    best = _cheapest(found, "keyed")
    if best is None or best.mapping is None:
        return None
    return Growth(two_digits(most), best.mapping, flags_of(best))


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case float() if not isfinite(value):
            return None
    return value
