"""The six workloads on which plans are compared: three of the documents and three skewed ones.

Sized so that the best plan takes three seconds or more on two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.sizes import W2_SYMBOLS
from crossroads.lab.workloads import Workload, mixed, stocks, uniform, write_workload

AUDITORS = 20  # subscriptions of "match-all" that every event matches
HOT_SPOT = 500_000  # where half of all "hot events" are, in every attribute


def _w1(folder: Path, scale: float, seed: int) -> None:
    write_workload(_ranges(seed, scale, 1_000_000, 1_500_000), folder)


def _w2(folder: Path, scale: float, seed: int) -> None:
    events, subscriptions = int(2_800_000 * scale), int(100_000 * scale)
    write_workload(stocks(seed, events, subscriptions, symbols=W2_SYMBOLS), folder)


def _mixed(folder: Path, scale: float, seed: int) -> None:
    write_workload(mixed(seed, int(400_000 * scale), int(100_000 * scale)), folder)


def _hot_events(folder: Path, scale: float, seed: int) -> None:
    """Half of all events at one point."""
    files = write_workload(_ranges(seed, scale, 1_000_000, 1_500_000), folder)
    table = pq.read_table(files.events)
    hot = pa.array(np.arange(table.num_rows) % 2 == 0)
    for at, name in enumerate(table.column_names):
        if name != "id":
            spot = pa.scalar(HOT_SPOT, table.schema.field(name).type)
            table = table.set_column(at, name, pc.if_else(hot, spot, table[name]))
    pq.write_table(table, files.events)


def _match_all(folder: Path, scale: float, seed: int) -> None:
    """Some subscriptions match every event."""
    files = write_workload(_ranges(seed, scale, 1_000_000, 1_400_000), folder)
    table = pq.read_table(files.subscriptions)
    everything = pa.table(
        {
            "id": [f"all-{n}" for n in range(AUDITORS)],
            "subscriber": [f"auditor-{n}" for n in range(AUDITORS)],
            "filter": ["a1 >= 0 OR a1 IS NULL"] * AUDITORS,
        }
    ).cast(table.schema)
    pq.write_table(pa.concat_tables([table, everything]), files.subscriptions)


def _crowded(folder: Path, scale: float, seed: int) -> None:
    """One attribute is selective, and its ranges gather at one end."""
    write_workload(_ranges(seed, scale, 1_000_000, 1_600_000, selective=1), folder)


def _ranges(
    seed: int, scale: float, events: int, subscriptions: int, *, selective: int = 0
) -> Workload:
    return uniform(seed, int(events * scale), int(subscriptions * scale), selective=selective)


# By name: writes the files of the workload into a folder, at a share of its size, from a seed.
WORKLOADS: dict[str, Callable[[Path, float, int], None]] = {
    "W1": _w1,
    "W2": _w2,
    "mixed": _mixed,
    "hot events": _hot_events,
    "match-all": _match_all,
    "crowded": _crowded,
}
