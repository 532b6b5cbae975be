"""CHORD's setting (its section 5.1): who subscribes to what, where, when, and what is published.

Key space 2¹³; four integer attributes 0 … 1,000,000; a range on each of them, up to 3% of the
domain, on a selective one up to 0.1%; a subscription every 5 s; publications as a Poisson process
with a mean of 5 s, which match at least one live subscription with a given probability.

Readings of what is unstated: the domain has 1,000,001 values; keys of Key-Space-Split are shifted
left, so that the whole ring is used; keys of Selective-Attribute are not tagged, as printed; events
under Attribute-Split go by their first attribute; each subscription comes from a random node, to
whose key its notifications go, and each publication from a random node.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.lab.workloads import uniform
from crossroads.mapping.contract import Mapping, RangeTable
from crossroads.mapping.fit import fit
from crossroads.matching.index import MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, filters_from_columns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BITS = 13
NODES = 500
ATTRIBUTES = ("a1", "a2", "a3", "a4")
DOMAIN = 1_000_000  # the greatest value; the least is 0
WIDTH_MAX = 0.03  # of the domain, on attributes that are not selective
SUBSCRIPTIONS = 25_000
SUBSCRIPTION_SECONDS = 5.0  # between two of them
PUBLICATION_SECONDS = 5.0  # on average
MATCHING_PROBABILITY = 0.5
DELAY_SECONDS = 0.05  # of a one-hop message

MAPPINGS = ("attribute-split", "key-space-split", "selective-attribute")
# Key-Space-Split as printed: its 12 bits are the last of the key's 13, and the upper half of the
# ring is never used (ERRATA 16). Measured where it may explain a figure.
PRINTED_SPLIT = "key-space-split as printed"
_PARAMETERS: dict[str, dict[str, Any]] = {
    "attribute-split": {"by": 0},
    "key-space-split": {},
    "selective-attribute": {"tagged": False, "by_domain": True},
}


def dice(seed: int, purpose: str) -> np.random.Generator:
    """A stream for every seed and purpose; PCG64 by name, because numpy may change its default."""
    sequence = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()),))
    return np.random.Generator(np.random.PCG64(sequence))


@lru_cache(maxsize=1)
def schema() -> Schema:
    return Schema.from_toml(uniform(0, 1, 1, domain=DOMAIN).schema_toml)


def document_mapping(name: str, interval: int | None = None) -> Mapping:
    """One of the document's three; `interval`: so many values share a key (discretization)."""
    intervals = None if interval is None else -(-(DOMAIN + 1) // interval)
    bits = BITS
    if name == PRINTED_SPLIT:
        name, bits = "key-space-split", BITS // len(ATTRIBUTES) * len(ATTRIBUTES)
    return fit(
        name,
        schema(),
        bits=bits,
        attributes=list(ATTRIBUTES),
        intervals=intervals,
        **_PARAMETERS[name],
    )


# -- subscriptions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subscriptions:
    """In the order in which they come, the first at second 0."""

    table: FilterTable
    low: Ints  # [subscriptions, attributes]
    high: Ints  # belongs

    @property
    def count(self) -> int:
        return int(self.low.shape[0])

    def keys(self, mapping: Mapping) -> RangeTable:
        return mapping.keys_of_subscriptions(self.table)


def draw_subscriptions(
    seed: int, count: int, selective: int = 0, zipf_exponent: float = 1.0
) -> Subscriptions:
    """`selective`: how many attributes have narrow ranges around Zipf centres."""
    workload = uniform(
        seed,
        1,
        count,
        domain=DOMAIN,
        width_min=0,
        width_max=WIDTH_MAX,
        selective=selective,
        zipf_exponent=zipf_exponent,
    )
    (typed,) = workload.typed_templates()
    bounds = [
        typed.columns.column(f"p{number + 1}").to_numpy().astype(np.int64)
        for number in range(2 * len(ATTRIBUTES))
    ]
    return Subscriptions(
        filters_from_columns(
            typed.text, typed.columns.drop_columns(["id", "subscriber"]), schema()
        ),
        np.stack(bounds[0::2], axis=1),
        np.stack(bounds[1::2], axis=1),
    )


# -- publications ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Publications:
    """In the order of their times. A match is a pair (publication, subscription) of two that were
    there at the same time."""

    seconds: Floats
    values: Ints  # [publications, attributes]
    matching: Ints  # the publication of each match, ascending
    matched: Ints  # its subscription

    @property
    def count(self) -> int:
        return int(self.seconds.size)

    @property
    def events(self) -> pa.Table:
        return event_table(self.values)


def event_table(values: Ints) -> pa.Table:
    columns = {"id": np.arange(1, values.shape[0] + 1)}
    columns |= {name: values[:, at].astype(np.int32) for at, name in enumerate(ATTRIBUTES)}
    return pa.table(columns)


def draw_publications(
    subscriptions: Subscriptions,
    count: int,
    chance: np.random.Generator,
    *,
    probability: float = MATCHING_PROBABILITY,
    run: float = 1.0,
) -> Publications:
    """Poisson, from the first subscription on, all of which stay.

    An event that shall match lies in a random subscription that has come already; one that shall
    not is drawn until it lies in none. `run`: so many events in a row, on average, are drawn from
    the same subscription; at 1 each has one of its own.
    """
    seconds = np.cumsum(chance.exponential(PUBLICATION_SECONDS, count))
    here = np.minimum((seconds // SUBSCRIPTION_SECONDS).astype(np.int64) + 1, subscriptions.count)
    shall = chance.random(count) < probability
    target = _targets(here, chance, run)
    low, high = subscriptions.low[target], subscriptions.high[target]
    values = chance.integers(low, high, endpoint=True)
    values[~shall] = _anywhere(chance, int(np.count_nonzero(~shall)))
    index = MatchIndex.build(subscriptions.table)
    while True:
        found = index.match_batch(event_table(values))
        pairs = found.events.astype(np.int64), found.ordinals.astype(np.int64)
        met = pairs[1] < here[pairs[0]]
        matching, matched = pairs[0][met], pairs[1][met]
        again = np.unique(matching[~shall[matching]])
        if not again.size:
            return Publications(seconds, values, matching, matched)
        values[again] = _anywhere(chance, again.size)


def _targets(here: Ints, chance: np.random.Generator, run: float) -> Ints:
    fresh = (chance.random(here.size) * here).astype(np.int64)
    new = chance.random(here.size) < 1 / run
    new[:1] = True
    begun: Ints = np.maximum.accumulate(np.where(new, np.arange(here.size), 0))
    return fresh[begun]


def _anywhere(chance: np.random.Generator, count: int) -> Ints:
    return chance.integers(0, DOMAIN, size=(count, len(ATTRIBUTES)), endpoint=True)
