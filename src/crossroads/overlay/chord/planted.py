"""Bugs that can be planted on purpose, to show that our tests would find them.

Never set outside tests. Most are rules of Chord as it was published, which lose the ring (ERRATA 4)
or break a promise of m-cast (ERRATA 1).
"""

from __future__ import annotations

# A first successor is adopted on hearsay: the successor named it, it has not answered yet.
ADOPT_UNANSWERED_SUCCESSOR = "adopt-unanswered-successor"
# Whoever says "I am your predecessor" is believed, though the old one may be alive and closer.
RECTIFY_WITHOUT_PING = "rectify-without-ping"
# Only the first successor is renewed; the rest of the list is not taken from it.
SHORT_SUCCESSOR_LIST = "short-successor-list"
# A newcomer begins with its first successor alone.
JOIN_WITHOUT_LIST = "join-without-list"
# A member that takes in a newcomer goes on delivering what it gave away.
OWN_AFTER_HANDOVER = "own-after-handover"
# m-cast serves a finger and does not tell the one before it where to stop: some get it twice.
MULTICAST_TWICE = "multicast-twice"

ALL: frozenset[str] = frozenset(
    {
        ADOPT_UNANSWERED_SUCCESSOR,
        RECTIFY_WITHOUT_PING,
        SHORT_SUCCESSOR_LIST,
        JOIN_WITHOUT_LIST,
        OWN_AFTER_HANDOVER,
        MULTICAST_TWICE,
    }
)
