"""A quiet ring as arrays: the nodes in order of their ids, and whom each of them knows.

A node is its **place** in the order of ids. Every node knows its fingers, the first of which is its
successor, each exact, as they are once nothing changes any more; they are kept clockwise from the
node, so that the closest one before a key is found by bisection. (Nodes keep a list of successors
too, but route by the first alone.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from crossroads.errors import UsageError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BulkRing:
    bits: int
    ids: Ints  # ascending, none twice

    def __post_init__(self) -> None:
        assert self.ids.size and np.all(np.diff(self.ids) > 0), "ids ascend"
        assert self.ids[0] >= 0 and self.ids[-1] < self.size, "ids fit the ring"

    @property
    def size(self) -> int:
        return 1 << self.bits

    @property
    def nodes(self) -> int:
        return int(self.ids.size)

    def owners(self, keys: npt.ArrayLike) -> Ints:
        """The place of each key's owner: the first node at or behind it."""
        found = np.searchsorted(self.ids, np.asarray(keys, np.int64))
        return np.where(found == self.nodes, 0, found)

    @cached_property
    def peers(self) -> tuple[Ints, Ints]:
        """(offsets, places): of place i those at offsets[i] … offsets[i + 1] - 1, clockwise."""
        places = np.arange(self.nodes)
        steps = np.left_shift(np.int64(1), np.arange(self.bits))
        fingers = self.owners((self.ids[:, None] + steps) % self.size)
        away = np.sort((fingers - places[:, None]) % self.nodes, axis=1)
        new = np.diff(away, axis=1, prepend=0) > 0  # neither itself (0 away) nor one seen before
        offsets = np.zeros(self.nodes + 1, np.int64)
        np.cumsum(new.sum(axis=1), out=offsets[1:])
        return offsets, ((places[:, None] + away) % self.nodes)[new]


def random_ring(bits: int, nodes: int, dice: np.random.Generator) -> BulkRing:
    """Ids as a hash gives them: any set of that many is as likely as any other."""
    if not 1 <= nodes <= 1 << bits:
        raise UsageError(f"{nodes:,} nodes do not fit a ring of 2^{bits} keys")
    ids = dice.choice(1 << bits, size=nodes, replace=False)
    return BulkRing(bits, np.sort(ids).astype(np.int64))
