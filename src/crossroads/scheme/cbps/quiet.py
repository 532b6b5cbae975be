"""What goes on for ever: a network is quiet when nothing else is under way.

Upkeep of the overlay below, comparisons of copies, renewals and leases are background; whatever
carries a payload, every acknowledgement, and every retry are not.
"""

from __future__ import annotations

from crossroads.node import Message, Timer
from crossroads.scheme.cbps.core import TIMERS
from crossroads.scheme.cbps.messages import MESSAGES, Compare, Copy, Holdings, Want

_UPKEEP = (Compare, Holdings, Want)
_UPKEEP_TIMERS = frozenset({"compare", "renew", "lease", "forget", "overlap"})


def is_background(what: Message | Timer) -> bool:
    if not isinstance(what, Message):
        return what[0] != TIMERS or what[1] in _UPKEEP_TIMERS
    if isinstance(what, Copy):
        return not what.number  # no acknowledgement waits for it
    if isinstance(what, MESSAGES):
        return isinstance(what, _UPKEEP)
    return "payload" not in what.__struct_fields__
