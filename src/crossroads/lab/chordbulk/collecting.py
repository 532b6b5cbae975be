"""Buffering and collecting of notifications (CHORD 4.3.2): the rule of `scheme.cbps.notifier`.

A node keeps the matches it finds for a period, which begins with the first one; then it sends all
matches of one subscription in one message (**buffering**). With **collecting** only the agent does,
the owner of the middle key of the subscription's range; any other node passes its matches on to the
neighbour nearer the middle, all that go the same way in one message, and they wait there again.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from crossroads.lab.chordbulk.meeting import Meetings
from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.mapping.contract import RangeTable
from crossroads.model.compiled import compiled, frozen

Floats = npt.NDArray[np.float64]

_FOUND, _OVER = 0, 1  # a match is at a node; the period of a node is over


@dataclass(frozen=True)
class Sent:
    """Notifications in the order in which they are sent, and messages between neighbours."""

    place: Ints
    subscription: Ints
    exchanges: int = 0


def buffered(found: Meetings, seconds: Floats, period: float) -> Sent:
    """`seconds`: when each match is found."""
    still = np.zeros_like(found.place)
    return Sent(
        *_sent(seconds, found.place, found.subscription, found.place, still, 0, period, 0.0)
    )


def collected(
    found: Meetings,
    seconds: Floats,
    period: float,
    ring: BulkRing,
    ranges: RangeTable,
    delay: float,
) -> Sent:
    """Every subscription has one range of keys. `delay`: seconds from a node to its neighbour."""
    assert np.all(np.diff(ranges.offsets) == 1), "one range each"
    low = ranges.low[found.subscription].astype(np.int64)
    high = ranges.high[found.subscription].astype(np.int64)
    middle = (low + high - 1) // 2
    way = np.where(middle > found.key, 1, -1)
    agent = ring.owners(middle)
    return Sent(
        *_sent(seconds, found.place, found.subscription, agent, way, ring.nodes, period, delay)
    )


def _sent(
    seconds: Floats, place: Ints, subscription: Ints, agent: Ints, way: Ints, nodes: int,
    period: float, delay: float,
) -> tuple[Ints, Ints, int]:  # fmt: skip
    if not place.size:
        return place, subscription, 0
    return _carried(
        frozen(seconds),
        place.copy(),
        frozen(subscription),
        frozen(agent),
        frozen(way),
        max(nodes, int(place.max()) + 1),
        period,
        delay,
    )


@compiled
def _carried(
    seconds: Floats, at: Ints, subscription: Ints, agent: Ints, way: Ints, nodes: int,
    period: float, delay: float,
) -> tuple[Ints, Ints, int]:  # fmt: skip
    ahead = [(seconds[match], _FOUND, match) for match in range(at.size)]
    heapify(ahead)
    newest = np.full(nodes, -1)  # of the matches that wait at a node
    before = np.empty(at.size, np.int64)  # the one that came before it
    told = np.full(subscription.max() + 1, -1)  # at which number of `sent`
    place, of = np.empty(at.size, np.int64), np.empty(at.size, np.int64)
    sent = exchanges = 0
    while ahead:
        now, kind, what = heappop(ahead)
        if kind == _FOUND:
            here = at[what]
            if newest[here] < 0:
                heappush(ahead, (now + period, _OVER, here))
            before[what], newest[here] = newest[here], what
            continue
        begun = sent
        up = down = 0
        match = newest[what]
        newest[what] = -1
        while match >= 0:
            following = before[match]
            if agent[match] != what:
                up, down = max(up, way[match]), min(down, way[match])
                at[match] = (what + way[match]) % nodes
                heappush(ahead, (now + delay, _FOUND, match))
            elif told[subscription[match]] < begun:
                told[subscription[match]] = sent
                place[sent], of[sent] = what, subscription[match]
                sent += 1
            match = following
        exchanges += up - down
    return place[:sent].copy(), of[:sent].copy(), exchanges
