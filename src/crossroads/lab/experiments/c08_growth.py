"""C8: hops per publication as the network grows, under Selective-Attribute with unicast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2

import numpy as np

from crossroads.lab.chordbulk.caching import CACHE_SLOTS
from crossroads.lab.chordbulk.ring import random_ring
from crossroads.lab.experiment import Configuration, Experiment, Row, Scale, Verdict
from crossroads.lab.findings import Findings, Point
from crossroads.lab.plots import Curves, Line, Plot
from crossroads.lab.setting import (
    BITS,
    MATCHING_PROBABILITY,
    SUBSCRIPTIONS,
    dice,
    document_mapping,
    draw_publications,
    draw_subscriptions,
)
from crossroads.lab.traffic import network_of, publish

SIZES = {
    Scale.SMALL: (100, 200, 500, 1_000),
    Scale.FULL: (100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000),
}
COUNTS = {Scale.SMALL: 2_000, Scale.FULL: SUBSCRIPTIONS}
# Publications before the counted ones, per node: until the caches are full.
WARM_PER_NODE = 20
FIT_MIN = 0.98  # of the variation between sizes that a straight line over log n explains

HOPS = "hops per publication"


class Size(Configuration, frozen=True, kw_only=True):
    nodes: int
    count: int

    @property
    def cost(self) -> float:
        return self.nodes / 5_000


def configurations(scale: Scale, seeds: Sequence[int]) -> list[Configuration]:
    return [
        Size(seed=seed, nodes=nodes, count=COUNTS[scale])
        for seed in seeds
        for nodes in SIZES[scale]
    ]


def series_of(selective: int, slots: int) -> str:
    return f"{selective} selective, {'caching' if slots else 'plain'}"


def measure(given: Size) -> Iterator[Row]:
    chance = dice(given.seed, f"C8 {given.nodes}")
    ring = random_ring(BITS, given.nodes, chance)
    warm = WARM_PER_NODE * given.nodes
    before = chance.integers(0, given.nodes, warm), chance.integers(0, ring.size, warm)
    publishers = chance.integers(0, given.nodes, given.count)
    for selective in (0, 1):
        subscriptions = draw_subscriptions(given.seed, given.count, selective)
        publications = draw_publications(subscriptions, given.count, chance)
        events = document_mapping("selective-attribute").keys_of_events(publications.events)
        for slots in (CACHE_SLOTS, 0):
            network = network_of(ring, slots)
            network.hops_to_keys(*before)
            total = publish(network, publishers, events, 0, given.count)
            yield Row(series_of(selective, slots), HOPS, given.nodes, total / given.count)


def straightness(curve: Sequence[Point]) -> tuple[float, float, float]:
    """Of hops = a + b log₂ n: a, b and the share of the variation that it explains."""
    x, y = np.array([log2(p.x) for p in curve]), np.array([p.mean for p in curve])
    slope, base = np.polyfit(x, y, 1)
    rest = y - (base + slope * x)
    return float(base), float(slope), float(1 - rest.var() / y.var())


def judge(found: Findings) -> list[Verdict]:
    verdicts = []
    for selective in (0, 1):
        for slots in (CACHE_SLOTS, 0):
            name = series_of(selective, slots)
            base, slope, fit = straightness(found.curve(name, HOPS))
            verdicts.append(
                Verdict(
                    f"C8 hops per publication grow logarithmically with n ({name})",
                    "logarithmically in all cases",
                    f"{base:.2f} + {slope:.2f} · log₂ n explains {100 * fit:.1f}%",
                    slope > 0 and fit >= FIT_MIN,
                    f"holds if a line over log n rises and explains {100 * FIT_MIN:.0f}% of the "
                    "variation between sizes",
                )
            )
    return verdicts


def plots(found: Findings) -> list[Plot]:
    names = [series_of(selective, slots) for slots in (CACHE_SLOTS, 0) for selective in (0, 1)]
    return [
        Curves(
            "hops per publication by the number of nodes",
            "nodes (each step ten times)",
            "hops",
            [Line(name, found.curve(name, HOPS)) for name in names],
            log_across=True,
        )
    ]


def parameters(scale: Scale) -> list[tuple[str, str]]:
    return [
        ("nodes", ", ".join(f"{nodes:,}" for nodes in SIZES[scale])),
        ("publications", f"{COUNTS[scale]:,}, matching probability {MATCHING_PROBABILITY}"),
        ("mapping", "Selective-Attribute, unicast to each of the four keys"),
        ("finger caching", f"{CACHE_SLOTS} origins, and none"),
    ]


EXPERIMENT = Experiment(
    id="C8",
    title="Publications in a growing network",
    figure="Fig. 7",
    claim="Under Selective-Attribute with unicast the number of hops per publication grows "
    "logarithmically with n.",
    published="logarithmic growth in all cases",
    readings=(
        "The cases of the figure did not survive: zero and one selective attribute, with finger "
        "caching and without.",
    ),
    kind=Size,
    configurations=configurations,
    measure=measure,
    judge=judge,
    plots=plots,
    parameters=parameters,
)
