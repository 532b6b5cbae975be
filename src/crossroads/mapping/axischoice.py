"""Which dimensions a mapping should look at: those by which subscriptions admit few events.

Measured on a sample, on fine axes: of each box the share of the events that it admits by one
dimension alone. What a mapping can use of that differs (`chosen_for`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crossroads.errors import UsageError
from crossroads.mapping.boxtable import BoxTable, boxes_of_table
from crossroads.mapping.positions import positions_of
from crossroads.mapping.sample import Sample
from crossroads.mapping.usage import AxisPlan, axis_plan, domain_of, usages
from crossroads.model.atoms import Dimension
from crossroads.model.schema import Schema

FINE_BITS = 20  # of the axes on which dimensions are compared
CANDIDATES_MAX = 64  # dimensions compared, those most often constrained; there are rarely so many
HELPS = 0.5  # a dimension by which boxes admit more of the events than this does not help
HELPS_BESIDE = 0.8  # of what the dimensions before it admit: more bits are not worth less
ALWAYS = 0.95  # of the boxes: then a dimension is as good as always constrained
OFTEN_BEST = 0.01  # of the boxes: worth a key of every event
# Axes worth having, by what one more costs: bits of the others, or a key of every event.
CHOSEN_MAX = {"key-space-split": 4, "hilbert": 4, "selective-attribute": 16}
CHOSEN_MAX_ELSE = 8
# Axes possible without a sample to choose by: a bit for each, and what the curve can take.
UNSEEN_MAX = {"key-space-split": 16, "hilbert": 8}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    plan: AxisPlan
    share: float  # of the events that a box admits by it, on average
    constrained: float  # share of the boxes that constrain it
    best: float  # share of the boxes that admit least by it
    shares: Floats = field(compare=False, repr=False)  # of the events, by box


def named(schema: Schema, sample: Sample | None, attributes: Sequence[str]) -> list[AxisPlan]:
    """The axes of these attributes, in this order."""
    known = sample.once(usages) if sample is not None else {}
    events = sample.events if sample is not None else None
    plans: list[AxisPlan] = []
    for name in attributes:
        dimension = Dimension(schema.attribute(name).name)
        plan = axis_plan(schema, dimension, known.get(dimension), events)
        if plan is None:
            raise UsageError(
                f"nothing says where the values of {name} lie",
                hint="give finite min and max in the schema, or a sample of events",
            )
        plans.append(plan)
    return plans


def with_domain(schema: Schema) -> list[AxisPlan]:
    """Without a sample: all attributes whose domain the schema gives, in its order."""
    found: list[AxisPlan] = []
    for attribute in schema.attributes:
        if attribute.values or None not in domain_of(attribute):
            plan = axis_plan(schema, Dimension(attribute.name), None, None)
            if plan is not None:
                found.append(plan)
    return found


def candidates(sample: Sample) -> list[Candidate]:
    """The dimensions that sampled subscriptions constrain, the most narrowing first."""
    schema, known = sample.filters.schema, sample.once(usages)
    often = sorted(known, key=lambda one: (-(known[one].points + known[one].others), one))
    plans = [
        plan
        for dimension in sorted(often[:CANDIDATES_MAX])
        if (plan := axis_plan(schema, dimension, known[dimension], sample.events)) is not None
    ]
    if not plans:
        return []
    axes = [plan.axis(FINE_BITS) for plan in plans]
    boxes = boxes_of_table(sample.filters, axes)
    if not boxes.owner.size:
        return []
    shares = _shares(boxes, positions_of(sample.events, axes), [axis.size for axis in axes])
    best = np.bincount(shares.argmin(axis=1), minlength=len(plans)) / shares.shape[0]
    best[shares.min(axis=0) >= 1.0] = 0.0
    constrained = boxes.constrained.mean(axis=0)
    found = [
        Candidate(
            plan, float(shares[:, at].mean()), float(constrained[at]), best[at], shares[:, at]
        )
        for at, plan in enumerate(plans)
    ]
    return sorted(found, key=lambda one: one.share)


def _shares(boxes: BoxTable, positions: npt.NDArray[np.int64], sizes: list[int]) -> Floats:
    """[boxes, axes]: the share of the events between the ends of the box; of the axis, without
    events. Never nothing: what the sample has not seen may come."""
    shares = np.empty(boxes.low.shape)
    events = positions.shape[0]
    for at, size in enumerate(sizes):
        low, high = boxes.low[:, at], boxes.high[:, at]
        width = (high - low + 1.0) / size
        if not events:
            shares[:, at] = width
            continue
        places = np.sort(positions[:, at])
        inside = np.searchsorted(places, high, "right") - np.searchsorted(places, low, "left")
        # Of boxes that hold no sampled event, the narrower one still holds less.
        shares[:, at] = (inside + width) / (events + 1.0)
    return shares


def chosen_for(name: str, found: list[Candidate]) -> list[AxisPlan]:
    """The axes that this mapping should have; at least one if there is any."""
    most = CHOSEN_MAX.get(name, CHOSEN_MAX_ELSE)
    if name == "attribute-split":
        # An attribute that is not constrained puts the subscription at the root.
        helpful = [one for one in found if one.share < HELPS] or found[:1]
        always = [one for one in helpful if one.constrained >= ALWAYS]
        found = always or sorted(helpful, key=lambda one: -one.constrained)[:1]
    elif name in ("selective-attribute", "string-tree"):
        # Every axis costs events a key: only those by which some subscriptions are found best.
        found = [one for one in found if one.best >= OFTEN_BEST] or found[:1]
    else:
        found = _together(found, most)
    return [one.plan for one in found[:most]]


def _together(found: list[Candidate], most: int) -> list[Candidate]:
    """One after the other, each time the one with which boxes admit least, while that helps.

    As if dimensions had nothing to do with each other: then their shares multiply.
    """
    chosen, rest = found[:1], found[1:]
    admitted = chosen[0].shares if chosen else np.ones(0)
    while rest and len(chosen) < most:
        means = [float((admitted * one.shares).mean()) for one in rest]
        at = int(np.argmin(means))
        if means[at] > HELPS_BESIDE * admitted.mean():
            break
        chosen.append(rest.pop(at))
        admitted = admitted * chosen[-1].shares
    return chosen
