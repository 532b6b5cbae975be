"""A node's disk: what survives a crash, and what is still on its way there.

Writes become durable one after the other, each whole. A crash finds some of them under way: the
dice say how many of these are kept. Those kept are the oldest, because a disk with a log, like ours
in the live network, writes in order.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping

from crossroads.node import Persist, Time


class Disk:
    def __init__(self) -> None:
        self.delay: Time = 0  # milliseconds from Persist to Persisted
        self._records: dict[str, bytes] = {}
        self._under_way: deque[Persist] = deque()
        self._free_at: Time = 0  # when the last write under way will be durable

    def records(self) -> Mapping[str, bytes]:
        """A copy: a node never sees a disk change under its hands."""
        return dict(self._records)

    def begin(self, now: Time, write: Persist) -> Time:
        """When the write will be durable: never before an earlier one."""
        self._under_way.append(write)
        self._free_at = max(self._free_at, now + self.delay)
        return self._free_at

    def busy_until(self) -> Time:
        return self._free_at

    def complete(self) -> int:
        """The oldest write is durable; its token."""
        write = self._under_way.popleft()
        self._apply(write)
        return write.token

    def crash(self, dice: random.Random) -> None:
        for _ in range(dice.randrange(len(self._under_way) + 1)):
            self._apply(self._under_way.popleft())
        self._under_way.clear()
        self._free_at = 0

    def wipe(self) -> None:
        self._records.clear()

    def _apply(self, write: Persist) -> None:
        for name, value in write.records:
            if value is None:
                self._records.pop(name, None)
            else:
                self._records[name] = value
