"""C11: hops per subscription when intervals of values share a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np

from crossroads.lab.chordbulk.caching import CACHE_SLOTS
from crossroads.lab.chordbulk.mcast import casts
from crossroads.lab.chordbulk.regions import exact, key_counts
from crossroads.lab.chordbulk.ring import random_ring
from crossroads.lab.chordbulk.storage import holders, storage
from crossroads.lab.experiment import Configuration, Experiment, Row, Scale, Verdict
from crossroads.lab.findings import Findings
from crossroads.lab.plots import Bars, Plot
from crossroads.lab.setting import (
    BITS,
    DOMAIN,
    NODES,
    SUBSCRIPTIONS,
    WIDTH_MAX,
    dice,
    document_mapping,
    draw_subscriptions,
)
from crossroads.lab.traffic import network_of, send_to_all

COUNTS = {Scale.SMALL: 1_000, Scale.FULL: SUBSCRIPTIONS}
PERCENT = (10, 20)  # of the average range
# "The average range size" may be of all ranges, or of those that Selective-Attribute uses, the most
# restrictive ones, whose average of 0.6% the document itself calls important for this mapping.
AVERAGE_RANGE = {
    "of all ranges": WIDTH_MAX * DOMAIN / 2,
    "of the narrowest": 0.006 * DOMAIN,
}

HOPS, CAST, KEYS = "hops per subscription, unicast", "hops, m-cast", "keys per subscription"
COPIES, IDLE, PEAK = "nodes per subscription", "nodes that store nothing", "most per node"


class Discretization(Configuration, frozen=True, kw_only=True):
    slots: int
    count: int

    @property
    def cost(self) -> float:
        return self.count / SUBSCRIPTIONS


def configurations(scale: Scale, seeds: Sequence[int]) -> list[Configuration]:
    return [
        Discretization(seed=seed, slots=slots, count=COUNTS[scale])
        for seed in seeds
        for slots in (CACHE_SLOTS, 0)
    ]


def series_of(reading: str, slots: int) -> str:
    return reading if slots else f"{reading}, plain Chord"


def measure(given: Discretization) -> Iterator[Row]:
    chance = dice(given.seed, "C11")
    ring = random_ring(BITS, NODES, chance)
    subscriptions = draw_subscriptions(given.seed, given.count)
    subscribers = chance.integers(0, NODES, given.count)
    for reading, percent in product(AVERAGE_RANGE, (0, *PERCENT)):
        interval = round(AVERAGE_RANGE[reading] * percent / 100) or None  # none: one value each
        mapping = document_mapping("selective-attribute", interval)
        ranges = subscriptions.keys(mapping)
        region = exact(ranges, mapping.stride)
        held = holders(ring, region)
        load = storage(held, NODES, given.count)
        network = network_of(ring, given.slots)
        hops = send_to_all(network, subscribers, ranges, mapping.stride, 0, given.count)
        told = casts(ring, subscribers, region.offsets, region.low, region.high)
        for metric, value in (
            (HOPS, hops / given.count),
            (CAST, float(told.messages.mean())),
            (KEYS, float(key_counts(ranges, mapping.stride).mean())),
            (COPIES, float(held.copies.mean())),
            (IDLE, int(np.count_nonzero(load.load == 0))),
            (PEAK, load.peak),
        ):
            yield Row(series_of(reading, given.slots), metric, percent, value)


def judge(found: Findings) -> list[Verdict]:
    verdicts = []
    for reading, average in AVERAGE_RANGE.items():
        for slots in (CACHE_SLOTS, 0):
            name = series_of(reading, slots)
            none, *less = (found.at(name, HOPS, percent) for percent in (0, *PERCENT))
            steps = [none, *less]
            falls = all(b.mean + b.margin < a.mean - a.margin for a, b in pairwise(steps))
            intervals = [int(DOMAIN / (average * percent / 100)) for percent in PERCENT]
            few = [count for count in intervals if count <= NODES]
            idle = found.at(name, IDLE, PERCENT[-1])
            note = "holds if each step is below the one before by more than both intervals"
            if few:
                note += (
                    f"; {few[0]} intervals for {NODES} nodes break the document's own rule, and "
                    f"{idle} nodes store nothing"
                )
            verdicts.append(
                Verdict(
                    f"C11 discretization cuts hops per subscription ({name})",
                    "falls further at 10% and at 20%",
                    " → ".join(map(str, steps)),
                    falls,
                    note,
                )
            )
    return verdicts


def plots(found: Findings) -> list[Plot]:
    return [
        Bars(
            f"{title} by size of the interval",
            [
                (f"{percent}% {reading}" if percent else "none", found.at(reading, metric, percent))
                for reading in AVERAGE_RANGE
                for percent in (0, *PERCENT)
                if percent or reading == next(iter(AVERAGE_RANGE))
            ],
        )
        for metric, title in ((HOPS, "hops per subscription, unicast"), (IDLE, "idle nodes"))
    ]


def parameters(scale: Scale) -> list[tuple[str, str]]:
    sizes = (
        f"{percent}% of {average:,.0f} ({reading})"
        for reading, average in AVERAGE_RANGE.items()
        for percent in PERCENT
    )
    return [
        ("nodes", f"{NODES}"),
        ("mapping", "Selective-Attribute, aggressive unicast"),
        ("subscriptions", f"{COUNTS[scale]:,}, none selective"),
        ("interval", "none; " + ", ".join(sizes)),
        ("finger caching", f"{CACHE_SLOTS} origins; plain Chord beside it"),
    ]


EXPERIMENT = Experiment(
    id="C11",
    title="Discretization",
    figure="Fig. 9b",
    claim="Subscription hops with intervals of 1, 10% and 20% of the average range fall further "
    "(Selective-Attribute, unicast).",
    published="a further reduction is evident",
    readings=(
        "No discretization still maps about 122 values to each of the 2^13 keys.",
        "The average range is 15,000 over all ranges, or 6,000 over the most restrictive ones: "
        "both are measured (ERRATA 17).",
    ),
    kind=Discretization,
    configurations=configurations,
    measure=measure,
    judge=judge,
    plots=plots,
    parameters=parameters,
)
