"""What C7 and C9 share: which mappings are compared by the subscriptions that nodes store, and how
the series and the numbers are called."""

from __future__ import annotations

from crossroads.lab.setting import MAPPINGS, PRINTED_SPLIT

SERIES = (*MAPPINGS, PRINTED_SPLIT)
RIVALS = ("key-space-split", PRINTED_SPLIT)  # of Selective-Attribute

PEAK, MEAN = "most per node", "average per node"
AGAINST = "most per node, Selective-Attribute's as a multiple of its own"


def kinds(exponents: tuple[float, ...]) -> tuple[tuple[int, float], ...]:
    """Selective attributes and the Zipf exponent of their centres: none, and one with each."""
    return (0, 1.0), *((1, zipf) for zipf in exponents)


def series_of(mapping: str, selective: int, zipf: float) -> str:
    return f"{mapping}, 1 selective, Zipf {zipf:g}" if selective else f"{mapping}, 0 selective"
