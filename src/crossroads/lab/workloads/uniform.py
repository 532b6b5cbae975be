"""CHORD's workload: integer attributes, a range on each, uniform events (its section "Setting").

A range spans a number of values drawn uniformly up to 3% of the domain around a uniform centre; on
a *selective* attribute up to 0.1% around a Zipf centre. Our default draws widths from 1% to 3%
(the benchmark W1); `width_min=0` gives the document's own 1..3%.

Unstated in the document and chosen here: the Zipf exponent is 1 unless told otherwise; the most
popular centre is the low end of the domain; ranges are clipped at the edges of the domain, which
keeps the centres as drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.lab.workloads.workload import (
    Ints,
    Stream,
    Template,
    Workload,
    block_bounds,
    check_at_least,
    generator,
    zipf_ranks,
)

ATTRIBUTES_MAX = 100  # ranges on more attributes than this match nothing at any size
DOMAIN_MAX = 2**31 - 1  # the attributes are of type int
SELECTIVE_WIDTH_MAX = 0.001  # of the domain, for selective attributes
ZIPF_EXPONENT = 1.0

SCHEMA_HEAD = """\
name = "uniform"
id = ["id"]

[attributes]
id = { type = "bigint", min = 1 }
"""
SCHEMA_ATTRIBUTE = '{name} = {{ type = "int", min = 0, max = {domain} }}\n'


def uniform(
    seed: int = 0,
    events: int = 100_000,
    subscriptions: int = 100_000,
    *,
    attributes: int = 4,
    domain: int = 1_000_000,
    width_min: float = 0.01,
    width_max: float = 0.03,
    selective: int = 0,
    zipf_exponent: float = ZIPF_EXPONENT,
) -> Workload:
    """Values are 0..domain; widths are shares of the domain; the first `selective` attributes are
    selective, with centres whose popularity falls by the `zipf_exponent`."""
    _check(attributes, domain, width_min, width_max, selective)
    check_at_least("zipf_exponent", zipf_exponent, 0)
    names = [f"a{number + 1}" for number in range(attributes)]
    ranges = [
        f"{name} BETWEEN :p{2 * number + 1} AND :p{2 * number + 2}"
        for number, name in enumerate(names)
    ]
    event_schema = pa.schema([("id", pa.int64()), *((name, pa.int32()) for name in names)])

    def draw_events() -> Iterator[pa.RecordBatch]:
        for block, (start, stop) in enumerate(block_bounds(events)):
            rng = generator(seed, Stream.EVENTS, block)
            values = rng.integers(
                0, domain, size=(attributes, stop - start), dtype=np.int32, endpoint=True
            )
            columns = [pa.array(np.arange(start + 1, stop + 1)), *map(pa.array, values)]
            yield pa.record_batch(columns, schema=event_schema)

    def draw_parameters(rng: np.random.Generator, _template: int, size: int) -> list[pa.Array]:
        bounds: list[pa.Array] = []
        for number in range(attributes):
            if number < selective:
                centre = zipf_ranks(rng, domain + 1, size, zipf_exponent)
                width = _widths(rng, size, 0, SELECTIVE_WIDTH_MAX * domain)
            else:
                centre = rng.integers(0, domain, size=size, endpoint=True)
                width = _widths(rng, size, width_min * domain, width_max * domain)
            low = centre - width // 2
            bounds += [
                pa.array(np.clip(bound, 0, domain).astype(np.int32))
                for bound in (low, low + width - 1)
            ]
        return bounds

    return Workload(
        name="uniform",
        seed=seed,
        schema_toml=SCHEMA_HEAD
        + "".join(SCHEMA_ATTRIBUTE.format(name=name, domain=domain) for name in names),
        event_count=events,
        subscription_count=subscriptions,
        templates=(Template(" AND ".join(ranges), 1.0),),
        draw_events=draw_events,
        draw_parameters=draw_parameters,
    )


def _widths(rng: np.random.Generator, size: int, least: float, most: float) -> Ints:
    """How many values each range spans: at least the one in the middle."""
    low = max(1, round(least))
    return rng.integers(low, max(low, round(most)), size=size, endpoint=True)


def _check(
    attributes: int, domain: int, width_min: float, width_max: float, selective: int
) -> None:
    check_at_least("attributes", attributes, 1)
    check_at_least("domain", domain, 1)
    check_at_least("selective", selective, 0)
    if attributes > ATTRIBUTES_MAX:
        raise UsageError(f"attributes must be at most {ATTRIBUTES_MAX}, got {attributes}")
    if domain > DOMAIN_MAX:
        raise UsageError(f"domain must be at most {DOMAIN_MAX:,}, got {domain:,}")
    if selective > attributes:
        raise UsageError(f"selective is {selective}, but there are only {attributes} attributes")
    if not 0 <= width_min <= width_max <= 1:
        raise UsageError(
            f"widths from {width_min} to {width_max} make no sense",
            hint="they are shares of the domain: 0 <= width-min <= width-max <= 1",
        )
