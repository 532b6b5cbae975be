"""MEGHDOOT's zones on the document's workload: which share of them an event visits.

    python -m bench.zones [--zones 10000]

Counts, not times: the same on every machine. Stands in docs/papers.md.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

from crossroads.lab.workloads import stocks
from crossroads.mapping.fit import fit
from crossroads.mapping.sample import Sample
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters

EVENTS, SUBSCRIPTIONS = 115_000, 14_029  # the document's
SHARES = (0.05, 0.10)  # of the zones: M1 says that 95% of events visit less than the first


def visited_shares(zones: int, seed: int) -> tuple[int, npt.NDArray[np.float64]]:
    """How many zones there are, and which share of them each event visits."""
    workload = stocks(seed, EVENTS, SUBSCRIPTIONS)
    schema = Schema.from_toml(workload.schema_toml)
    events = workload.events().combine_chunks()
    filters = read_filters(workload.subscriptions()["filter"], schema)
    mapping = fit("zones", schema, Sample(filters, events), zones=zones)
    there = len(mapping.spec.parameters["replicas"])
    return there, np.diff(mapping.keys_of_events(events).offsets) / there


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.zones")
    parser.add_argument("--zones", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    zones, shares = visited_shares(options.zones, options.seed)
    print(f"{zones:,} zones, {SUBSCRIPTIONS:,} subscriptions, {EVENTS:,} events")
    print(f"an event visits {shares.mean():.1%} of them on average, {shares.max():.1%} at most")
    for most in SHARES:
        print(f"{(shares < most).mean():.0%} of the events visit under {most:.0%}")


if __name__ == "__main__":
    main()
