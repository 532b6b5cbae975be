"""How many cells plan `keyed` takes: enough for every core, none too large to build or to hold."""

from __future__ import annotations

CELLS_PER_CORE = 4  # evens out cells that take longer than others
SUBSCRIPTIONS_PER_CELL = 250_000  # some 30 MB of index; compiling it takes a few hundred
SUBSCRIPTIONS_PER_CELL_MIN = 1_000  # so few are matched at once, also by one core alone
KEYED_CELLS_MAX = 4096  # unless asked for more


def keyed_cells(subscriptions: int, cores: int, bits: int) -> int:
    """For that many subscriptions and cores, of keys of that many bits."""
    few = min(cores * CELLS_PER_CORE, 1 + subscriptions // SUBSCRIPTIONS_PER_CELL_MIN)
    enough = max(few, subscriptions // SUBSCRIPTIONS_PER_CELL)
    return min(enough, KEYED_CELLS_MAX, 1 << bits)
