"""Bugs that can be planted on purpose, to show that our tests would find them.

Never set outside tests.
"""

from __future__ import annotations

# One copy is made, however many there should be.
LOST_REPLICA = "lost-replica"
# Copies are made once; whoever becomes a neighbour later is never brought up to date.
NO_REPAIR = "no-repair"
# A subscription is acknowledged at once; copies are left to the next comparison.
ACKNOWLEDGE_BEFORE_COPIES = "acknowledge-before-copies"
# One of the subscriptions in a region that changes hands is left behind, and not missed later.
HANDOVER_FORGETS_ONE = "handover-forgets-one"
# A new owner does not ask for the subscriptions of its keys.
NO_HANDOVER = "no-handover"
# The subscriber does not remember what it was notified of.
NO_DEDUPLICATION = "no-deduplication"
# A publication is acknowledged as soon as it was matched.
PUBLISHED_BEFORE_NOTIFIED = "published-before-notified"
# Whoever owns the key of an absent subscriber takes its notifications for it.
ANYONE_ACCEPTS = "anyone-accepts"
# The subscriber does not make its subscriptions durable.
NOT_DURABLE = "not-durable"

ALL: frozenset[str] = frozenset(
    {
        LOST_REPLICA,
        NO_REPAIR,
        ACKNOWLEDGE_BEFORE_COPIES,
        HANDOVER_FORGETS_ONE,
        NO_HANDOVER,
        NO_DEDUPLICATION,
        PUBLISHED_BEFORE_NOTIFIED,
        ANYONE_ACCEPTS,
        NOT_DURABLE,
    }
)
