"""C9: the most subscriptions that any node stores, as the network grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log

from crossroads.lab.chordbulk.regions import exact
from crossroads.lab.chordbulk.ring import BulkRing, random_ring
from crossroads.lab.chordbulk.storage import holders, storage
from crossroads.lab.experiment import Configuration, Experiment, Row, Scale, Verdict
from crossroads.lab.experiments.stored import (
    AGAINST,
    MEAN,
    PEAK,
    RIVALS,
    SERIES,
    kinds,
    series_of,
)
from crossroads.lab.findings import Findings, Point
from crossroads.lab.plots import Curves, Line, Plot
from crossroads.lab.setting import (
    BITS,
    MAPPINGS,
    SUBSCRIPTIONS,
    dice,
    document_mapping,
    draw_subscriptions,
)

SIZES = {
    Scale.SMALL: (100, 500, 1_000, 2_500, 5_000),
    Scale.FULL: (100, 250, 500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000),
}
COUNTS = {Scale.SMALL: 4_000, Scale.FULL: SUBSCRIPTIONS}
ZIPF = (0.0, 0.25, 0.5, 1.0)  # exponents of the selective attribute's centres: none is stated
KINDS = kinds(ZIPF)
PUBLISHED_CROSSING = 2_500
NEAR = 2.0  # "when n is less than 2500": found within a factor of two
CONSTANT = 1.5  # "almost constant": over a network that grows fifty times
GROWS = 2.0  # clearly: at least twice as much

COPIES = "copies per subscription"


class Memory(Configuration, frozen=True, kw_only=True):
    nodes: int
    count: int

    @property
    def cost(self) -> float:
        return self.count / SUBSCRIPTIONS * (0.3 + 0.2 * self.nodes / 5_000)


def configurations(scale: Scale, seeds: Sequence[int]) -> list[Configuration]:
    return [
        Memory(seed=seed, nodes=nodes, count=COUNTS[scale])
        for seed in seeds
        for nodes in SIZES[scale]
    ]


def measure(given: Memory) -> Iterator[Row]:
    ring = random_ring(BITS, given.nodes, dice(given.seed, f"C9 {given.nodes}"))
    for selective, zipf in KINDS:
        yield from _stored(given, ring, selective, zipf)


def _stored(given: Memory, ring: BulkRing, selective: int, zipf: float) -> Iterator[Row]:
    subscriptions = draw_subscriptions(given.seed, given.count, selective, zipf)
    most: dict[str, int] = {}
    for name in SERIES:
        mapping = document_mapping(name)
        held = holders(ring, exact(subscriptions.keys(mapping), mapping.stride))
        found = storage(held, given.nodes, given.count)
        series = series_of(name, selective, zipf)
        most[name] = found.peak
        yield Row(series, PEAK, given.nodes, found.peak)
        yield Row(series, MEAN, given.nodes, float(found.load.mean()))
        yield Row(series, COPIES, given.nodes, float(held.copies.mean()))
    # On one ring for both, so that chance in the places of nodes does not hide the difference.
    for name in RIVALS:
        series = series_of(name, selective, zipf)
        yield Row(series, AGAINST, given.nodes, most["selective-attribute"] / most[name])


def crossing(against: Sequence[Point]) -> float | None:
    """Up to which n the ratio is below 1, between sizes by their logarithms; None: nowhere."""
    below = [at for at, ratio in enumerate(against) if ratio.mean < 1]
    if not below:
        return None
    last = against[below[-1]]
    if last is against[-1]:
        return last.x
    behind = against[below[-1] + 1]
    part = log(last.mean) / (log(last.mean) - log(behind.mean))
    return exp(log(last.x) + part * (log(behind.x) - log(last.x)))


def judge(found: Findings) -> list[Verdict]:
    def grown(name: str, metric: str) -> tuple[Point, Point, float]:
        curve = found.curve(series_of(name, 0, 1.0), metric)
        return curve[0], curve[-1], curve[-1].mean / curve[0].mean

    verdicts = []
    for name in ("attribute-split", "selective-attribute"):
        first, last, times = grown(name, COPIES)
        verdicts.append(
            Verdict(
                f"C9 subscriptions stored in the whole system grow with n ({name}, 0 selective)",
                "they grow, a range is divided among more nodes",
                f"copies per subscription {first} → {last} from n = {first.x:,g} to {last.x:,g}",
                times >= GROWS,
                f"holds if they grow at least {GROWS:g} times",
            )
        )
        first, last, times = grown(name, PEAK)
        verdicts.append(
            Verdict(
                f"C9 the most stored per node grows with n ({name}, 0 selective)",
                "poor scalability",
                f"{first} → {last} from n = {first.x:,g} to {last.x:,g}",
                times > 1,
                "holds if it is more at the end. What a node stores on average is S/n + S·r/2^m "
                "for S subscriptions of r keys: it falls towards a floor that more nodes do not "
                "lower. The floor is the poor scalability; growth per node it is not",
            )
        )
    first, last, times = grown("key-space-split", MEAN)
    verdicts.append(
        Verdict(
            "C9 Key-Space-Split: the average per node is almost constant (0 selective)",
            "almost constant",
            f"{first} → {last} from n = {first.x:,g} to {last.x:,g}",
            1 / CONSTANT <= times <= CONSTANT,
            f"holds within a factor of {CONSTANT:g}. With a little more than one copy of each "
            "subscription the average per node must fall as 1/n; what stays constant is the "
            "number of copies, next line",
        )
    )
    first, last, times = grown("key-space-split", COPIES)
    verdicts.append(
        Verdict(
            "C9 Key-Space-Split: the copies of a subscription are almost constant (0 selective)",
            "almost constant (our reading of the average)",
            f"{first} → {last} from n = {first.x:,g} to {last.x:,g}",
            1 / CONSTANT <= times <= CONSTANT,
            f"holds within a factor of {CONSTANT:g}",
        )
    )
    return verdicts + [_crossing_verdict(found, zipf) for zipf in ZIPF]


def _crossing_verdict(found: Findings, zipf: float) -> Verdict:
    curves = [found.curve(series_of(name, 1, zipf), AGAINST) for name in RIVALS]
    until = [crossing(curve) for curve in curves]
    near = [n is not None and 1 / NEAR <= n / PUBLISHED_CROSSING <= NEAR for n in until]
    said = [
        "nowhere" if n is None else f"up to n ≈ {n:,.0f}" if n < curve[-1].x else "at every n"
        for n, curve in zip(until, curves, strict=True)
    ]
    return Verdict(
        "C9 Selective-Attribute beats Key-Space-Split with one selective attribute "
        f"(Zipf exponent {zipf:g})",
        "for n < 2500",
        f"{said[0]}; {said[1]} if Key-Space-Split's keys are as printed",
        any(near),
        f"holds if the curves cross within a factor of {NEAR:g} of 2500 with either keys. Where "
        "they cross depends on how much the centres gather, which the document does not state: "
        "one key can have so many that its node has them too, however many nodes there are",
    )


def plots(found: Findings) -> list[Plot]:
    most: list[Plot] = [
        Curves(
            "most subscriptions per node, "
            + (f"one selective attribute, Zipf {zipf:g}" if selective else "none selective"),
            "nodes",
            "subscriptions (each step ten times)",
            [Line(name, found.curve(series_of(name, selective, zipf), PEAK)) for name in SERIES],
            log_up=True,
        )
        for selective, zipf in KINDS
    ]
    copies = Curves(
        "copies per subscription, none selective",
        "nodes",
        "copies (each step ten times)",
        [Line(name, found.curve(series_of(name, 0, 1.0), COPIES)) for name in MAPPINGS],
        log_up=True,
    )
    against = Curves(
        "Selective-Attribute's most per node as a multiple of Key-Space-Split's, one selective",
        "nodes",
        "times (below 1 it is better)",
        [Line(f"Zipf {z:g}", found.curve(series_of(RIVALS[0], 1, z), AGAINST)) for z in ZIPF[:3]]
        + [
            Line(f"Zipf {z:g}, as printed", found.curve(series_of(RIVALS[1], 1, z), AGAINST))
            for z in ZIPF[:3]
        ],
    )
    return [*most, against, copies]


def parameters(scale: Scale) -> list[tuple[str, str]]:
    return [
        ("nodes", ", ".join(f"{nodes:,}" for nodes in SIZES[scale])),
        ("subscriptions", f"{COUNTS[scale]:,}, none expires"),
        ("selective attributes", "0 and 1; Zipf exponents " + ", ".join(f"{z:g}" for z in ZIPF)),
    ]


EXPERIMENT = Experiment(
    id="C9",
    title="Memory in a growing network",
    figure="Fig. 8",
    claim="Attribute-Split and Selective-Attribute grow with n when nothing is selective, the "
    "average per node stays almost constant for Key-Space-Split; with one selective attribute "
    "Selective-Attribute beats Key-Space-Split for n < 2500.",
    published="growth; almost constant; crossing at n ≈ 2500",
    readings=(
        "Per node nothing can grow with n: the same subscriptions are divided among more nodes. "
        "Both readings are measured, the most per node and the copies in the whole system.",
        "The Zipf exponent is not stated: 0 (uniform), 0.25, 0.5 and 1. The most popular centre is "
        "the low end of the domain.",
        "Keys of Key-Space-Split are shifted left by one; as printed, they use half of the ring. "
        "Both are measured.",
    ),
    kind=Memory,
    configurations=configurations,
    measure=measure,
    judge=judge,
    plots=plots,
    parameters=parameters,
)
