"""What will happen when: buckets of one millisecond each, and the dice that order a bucket.

Things due in the same millisecond happen in an order drawn from the seed, so that a protocol cannot
come to rely on the order in which a simulator happened to put them. Two things must not be swapped:
messages on one link that keeps its order, and answers of one disk. They are **channels**, and what
is due on one channel in one millisecond stays in the order in which it was put there.

Many items share a bucket, so a heap of times and a dictionary of lists is far cheaper than a heap
of items.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from heapq import heappop, heappush
from typing import Any

from crossroads.node import Time

# (what, to, …): tuples are the cheapest thing that holds an item; `simulation` knows their forms.
Item = tuple[Any, ...]


# Which channel an item is on; None: on none, it may happen before or after anything else.
ChannelOf = Callable[[Item], Hashable | None]


class Agenda:
    def __init__(self, dice: random.Random, channel_of: ChannelOf) -> None:
        self._draw = dice.random
        self._channel_of = channel_of
        self._times: list[Time] = []
        self._buckets: dict[Time, list[Item]] = {}
        # Times at which a channel has more than one item, and which channels these are.
        self._crowded: dict[Time, set[Hashable]] = {}

    def put(self, at: Time, item: Item) -> None:
        bucket = self._buckets.get(at)
        if bucket is None:
            self._buckets[at] = [item]
            heappush(self._times, at)
        else:
            bucket.append(item)

    def put_behind(self, at: Time, item: Item) -> None:
        """The same for an item that must not happen before another of its channel, due then too."""
        self._crowded.setdefault(at, set()).add(self._channel_of(item))
        self.put(at, item)

    def next_time(self) -> Time | None:
        return self._times[0] if self._times else None

    def take(self) -> list[Item]:
        """The bucket of `next_time()`, in the order in which its items happen.

        What is put at the same time afterwards forms another bucket of that time, taken next.
        """
        at = heappop(self._times)
        bucket = self._buckets.pop(at)
        crowded = self._crowded.pop(at, None)
        if len(bucket) == 1:
            return bucket
        draw = self._draw
        keys = [draw() for _ in bucket]
        drawn = sorted(range(len(bucket)), key=keys.__getitem__)
        if crowded is not None:
            self._keep_channels(bucket, drawn, crowded)
        return [bucket[place] for place in drawn]

    def __iter__(self) -> Iterator[tuple[Time, Item]]:
        """Everything ahead, in no particular order within a millisecond."""
        for at in sorted(self._buckets):
            for item in self._buckets[at]:
                yield at, item

    def _keep_channels(self, bucket: list[Item], drawn: list[int], crowded: set[Hashable]) -> None:
        """The turns that fell to a channel's items, to these items in the order they were put."""
        channel_of = self._channel_of
        turns: dict[Hashable, list[int]] = {}
        for turn, place in enumerate(drawn):
            channel = channel_of(bucket[place])
            if channel in crowded:
                turns.setdefault(channel, []).append(turn)
        for theirs in turns.values():
            places = sorted(drawn[turn] for turn in theirs)
            for turn, place in zip(theirs, places, strict=True):
                drawn[turn] = place
