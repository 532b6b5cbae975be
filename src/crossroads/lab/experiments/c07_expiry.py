"""C7: the most subscriptions that any node stores, by their time of expiration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from crossroads.lab.findings import Findings
from crossroads.lab.plots import Curves, Line, Plot
from crossroads.lab.setting import (
    BITS,
    MAPPINGS,
    NODES,
    PRINTED_SPLIT,
    SUBSCRIPTION_SECONDS,
    SUBSCRIPTIONS,
    dice,
    document_mapping,
    draw_subscriptions,
)

COUNTS = {Scale.SMALL: 5_000, Scale.FULL: SUBSCRIPTIONS}
SHARES = (0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the run: how long a subscription lives
ZIPF = (0.25, 0.5, 1.0)  # exponents of the selective attribute's centres: none is stated
KINDS = kinds(ZIPF)


class Expiry(Configuration, frozen=True, kw_only=True):
    count: int

    @property
    def cost(self) -> float:
        return 0.6 * self.count / SUBSCRIPTIONS


def configurations(scale: Scale, seeds: Sequence[int]) -> list[Configuration]:
    return [Expiry(seed=seed, count=COUNTS[scale]) for seed in seeds]


def measure(given: Expiry) -> Iterator[Row]:
    ring = random_ring(BITS, NODES, dice(given.seed, "C7"))
    for selective, zipf in KINDS:
        yield from _stored(given, ring, selective, zipf)


def _stored(given: Expiry, ring: BulkRing, selective: int, zipf: float) -> Iterator[Row]:
    subscriptions = draw_subscriptions(given.seed, given.count, selective, zipf)
    most: dict[str, int] = {}
    for name in SERIES:
        mapping = document_mapping(name)
        held = holders(ring, exact(subscriptions.keys(mapping), mapping.stride))
        series = series_of(name, selective, zipf)
        for share in SHARES:
            alive = round(share * given.count)
            found = storage(held, NODES, alive)
            most[name] = found.peak  # the last time: of the longest lives
            yield Row(series, PEAK, alive * SUBSCRIPTION_SECONDS, found.peak)
            yield Row(series, MEAN, alive * SUBSCRIPTION_SECONDS, float(found.load.mean()))
    # On one ring for both, so that chance in the places of nodes does not hide the difference.
    for name in RIVALS:
        series = series_of(name, selective, zipf)
        yield Row(series, AGAINST, 0, most["selective-attribute"] / most[name])


def judge(found: Findings) -> list[Verdict]:
    split, product, selective = (found.curve(series_of(m, 0, 1.0), PEAK) for m in MAPPINGS)
    best = [
        own.mean < min(one.mean, other.mean)
        for own, one, other in zip(product, split, selective, strict=True)
    ]
    printed = found.curve(series_of(PRINTED_SPLIT, 0, 1.0), PEAK)[-1]
    verdict = Verdict(
        "C7 most stored per node, no selective attribute",
        "Key-Space-Split has the best overall behaviour",
        f"{product[-1]} without expiry; Selective-Attribute {selective[-1]}, "
        f"Attribute-Split {split[-1]}",
        2 * sum(best) > len(best),
        f"holds if it is least at most times of expiration ({sum(best)} of {len(best)}). With keys "
        f"as printed, which leave half of the ring unused, it would be {printed}",
    )
    return [verdict, *(_gain(found, zipf) for zipf in ZIPF)]


def _gain(found: Findings, zipf: float) -> Verdict:
    """Against Key-Space-Split, because Zipf centres make every mapping uneven."""
    own, shifted, printed = (
        found.curve(series_of(name, 1, zipf), PEAK)[-1]
        for name in ("selective-attribute", "key-space-split", PRINTED_SPLIT)
    )
    none, one = (
        found.curve(series_of("selective-attribute", count, zipf), MEAN)[-1] for count in (0, 1)
    )
    times = [found.at(series_of(name, 1, zipf), AGAINST) for name in RIVALS]
    against = [
        name
        for name, ratio in zip(("shifted keys", "keys as printed"), times, strict=True)
        if ratio.mean + ratio.margin < 1
    ]
    gathered = (
        "it does not: so many centres share the lowest values that one key, and so one node, has a "
        "large part of all subscriptions"
    )
    return Verdict(
        f"C7 Selective-Attribute benefits from one selective attribute (Zipf exponent {zipf:g})",
        "it benefits",
        f"most per node {own} against {shifted} of Key-Space-Split, {times[0]} times ({printed} "
        f"with keys as printed, {times[1]} times); its average falls from {none} to {one}",
        bool(against),
        "holds if its most loaded node has less than Key-Space-Split's, beyond the interval: "
        + (f"against {' and '.join(against)}" if against else gathered),
    )


def plots(found: Findings) -> list[Plot]:
    return [
        Curves(
            "most subscriptions per node, "
            + (f"one selective attribute, Zipf {zipf:g}" if selective else "none selective"),
            "expiration time in seconds",
            "subscriptions (each step ten times)",
            [Line(name, found.curve(series_of(name, selective, zipf), PEAK)) for name in SERIES],
            log_up=True,
        )
        for selective, zipf in KINDS
    ]


def parameters(scale: Scale) -> list[tuple[str, str]]:
    lives = (f"{share * COUNTS[scale] * SUBSCRIPTION_SECONDS:,.0f}" for share in SHARES)
    return [
        ("nodes", f"{NODES}"),
        ("subscriptions", f"{COUNTS[scale]:,}, one every {SUBSCRIPTION_SECONDS:g} s"),
        ("expiration in seconds", ", ".join(lives)),
        ("selective attributes", "0 and 1; Zipf exponents " + ", ".join(f"{z:g}" for z in ZIPF)),
    ]


EXPERIMENT = Experiment(
    id="C7",
    title="Memory by expiration",
    figure="Fig. 6",
    claim="Of 25,000 subscriptions, the most that a node stores: Key-Space-Split is best without "
    "selective attributes; Selective-Attribute benefits from one.",
    published="Key-Space-Split lowest with 0; Selective-Attribute gains with 1",
    readings=(
        "The values of the expiration time are not stated: from 2% of the run to all of it.",
        "The greatest load is taken over nodes and over time.",
        "The Zipf exponent is not stated: 0.25, 0.5 and 1. The most popular centre is the low end "
        "of the domain.",
        "Keys of Key-Space-Split are shifted left by one; as printed, they use half of the ring. "
        "Both are measured.",
    ),
    kind=Expiry,
    configurations=configurations,
    measure=measure,
    judge=judge,
    plots=plots,
    parameters=parameters,
)
