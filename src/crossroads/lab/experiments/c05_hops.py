"""C5: how far a message travels at n = 500, with finger caching and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import log2

import numpy as np

from crossroads.lab.chordbulk.caching import CACHE_SLOTS
from crossroads.lab.chordbulk.ring import random_ring
from crossroads.lab.experiment import Configuration, Experiment, Row, Scale, Verdict
from crossroads.lab.findings import Findings
from crossroads.lab.plots import Curves, Line, Plot
from crossroads.lab.setting import BITS, NODES, dice
from crossroads.lab.traffic import network_of

PUBLISHED_HOPS = 2.5
ABOUT = 0.1  # "about 2.5": within a tenth of it
WINDOWS = 20  # of the traffic, to see the caches fill
MESSAGES_PER_NODE = {Scale.SMALL: 100, Scale.FULL: 1_000}
SLOTS = (0, 10, 25, CACHE_SLOTS, 100, 200)  # 0: plain Chord

TO_NODE, TO_KEY = "to a random node", "to a random key"
SETTLED = "hops, caches full"
CONVERGING = "hops so far"


class Traffic(Configuration, frozen=True, kw_only=True):
    messages_per_node: int

    @property
    def cost(self) -> float:
        return 1.5 * self.messages_per_node / 1_000


def configurations(scale: Scale, seeds: Sequence[int]) -> list[Configuration]:
    each = MESSAGES_PER_NODE[scale]
    return [Traffic(seed=seed, messages_per_node=each) for seed in seeds]


def measure(given: Traffic) -> Iterator[Row]:
    chance = dice(given.seed, "C5")
    ring = random_ring(BITS, NODES, chance)
    total = given.messages_per_node * NODES
    sources = chance.integers(0, NODES, total)
    targets = {
        TO_NODE: ring.ids[chance.integers(0, NODES, total)],
        TO_KEY: chance.integers(0, ring.size, total),
    }
    for series, slots in product(targets, SLOTS):
        hops = network_of(ring, slots).hops_to_keys(sources, targets[series])
        yield Row(series, SETTLED, slots, float(hops[total // 2 :].mean()))
        if slots in (0, CACHE_SLOTS):
            way = "with caching" if slots else "plain"
            for window, part in enumerate(np.array_split(hops, WINDOWS), 1):
                sent = window * given.messages_per_node / WINDOWS
                yield Row(f"{way}, {series}", CONVERGING, sent, float(part.mean()))


def judge(found: Findings) -> list[Verdict]:
    cached = found.at(TO_NODE, SETTLED, CACHE_SLOTS)
    plain, to_key = found.at(TO_NODE, SETTLED, 0), found.at(TO_KEY, SETTLED, 0)
    late = found.curve(f"with caching, {TO_NODE}", CONVERGING)[WINDOWS // 2 :]
    spread = max(point.mean for point in late) - min(point.mean for point in late)
    return [
        Verdict(
            "C5 average hops between two random nodes at n = 500",
            "about 2.5",
            str(cached),
            abs(cached.mean - PUBLISHED_HOPS) <= ABOUT * PUBLISHED_HOPS,
            f"holds within 10%; caches of {CACHE_SLOTS} origins, chosen for it: the document does "
            "not say how large they are",
        ),
        Verdict(
            "C5 better than log n thanks to finger caching",
            f"below log₂ n = {log2(NODES):.1f}",
            f"{cached} with caches; {plain} to a node and {to_key} to a key without",
            cached.mean + cached.margin < plain.mean - plain.margin,
            "holds if caching shortens the way by more than both intervals; plain Chord takes "
            "about half of log₂ n, so it is below log n as well",
        ),
        Verdict(
            "C5 little variation throughout the experiments",
            "little variation",
            f"{spread:.3f} hops between the least and the greatest window once caches are full",
            spread <= ABOUT * PUBLISHED_HOPS,
            "holds within 10% of 2.5",
        ),
    ]


def plots(found: Findings) -> list[Plot]:
    ways = [
        Line(f"{way}, {short}", found.curve(f"{way}, {to}", CONVERGING))
        for way in ("with caching", "plain")
        for to, short in ((TO_NODE, "to a node"), (TO_KEY, "to a key"))
    ]
    return [
        Curves(
            "average hops as the caches fill",
            "messages sent per node",
            "hops",
            ways,
        ),
        Curves(
            "average hops by the size of the cache",
            "origins remembered per node",
            "hops",
            [Line(to, found.curve(to, SETTLED)) for to in (TO_NODE, TO_KEY)],
        ),
    ]


def parameters(scale: Scale) -> list[tuple[str, str]]:
    return [
        ("nodes", f"{NODES}"),
        ("keys", f"2^{BITS}"),
        ("messages", f"{MESSAGES_PER_NODE[scale]:,} per node, sources and targets uniform"),
        ("origins remembered", ", ".join(map(str, SLOTS))),
    ]


EXPERIMENT = Experiment(
    id="C5",
    title="Hops of a message",
    figure="section 5.1",
    claim="The average number of hops of a send between two random nodes at n = 500 is about 2.5, "
    "better than log n, because of finger caching.",
    published="about 2.5 hops, little variation",
    readings=(
        "What is cached is not said. Here each node remembers the origins of payloads that reach "
        "it, the newest so many, beside its fingers.",
        "A message to a node's own key is one hop shorter than one to a random key, whose owner "
        "is known only to the node before it.",
    ),
    kind=Traffic,
    configurations=configurations,
    measure=measure,
    judge=judge,
    plots=plots,
    parameters=parameters,
)
