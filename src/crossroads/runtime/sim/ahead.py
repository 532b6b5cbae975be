"""What lies ahead in a simulation: the forms of its items, their channels, and whether it is quiet.

Overlays and schemes maintain themselves for ever, so "nothing left to do" never comes. A run is
**quiet** when nothing is ahead but the messages and timers that its caller calls background.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from crossroads.node import Address, Message, Time, Timer
from crossroads.runtime.sim.agenda import Agenda, Item
from crossroads.runtime.sim.host import Host

# The forms of an item: what it is, and to whom. The empty tuple marks the time of an action.
MESSAGE = 0  # (MESSAGE, to, Receive)
TIMER = 1  # (TIMER, to, timer, number of its SetTimer)
DURABLE = 2  # (DURABLE, to, life)

EXAMPLES_SHOWN = 5

Background = Callable[[Message | Timer], bool]


def nothing_is_background(what: Message | Timer) -> bool:
    return False


def channel_of(item: Item) -> Hashable | None:
    """Messages of one link, and the answers of one disk, keep their order."""
    if item and item[0] == MESSAGE:
        return item[2].sender, item[1]
    if item and item[0] == DURABLE:
        return str(item[1])
    return None


def foreground(
    agenda: Agenda, hosts: Mapping[Address, Host], background: Background
) -> Iterator[tuple[Time, str, str]]:
    """What must happen before things are quiet: when, its kind, and in words."""
    for at, item in agenda:
        if not item:
            yield at, "action", "planned action"
            continue
        what, to = item[0], item[1]
        if what == MESSAGE:
            message = item[2].message
            if not background(message):
                kind = type(message).__name__
                yield at, kind, f"{kind} {item[2].sender}→{to}"
        elif what == TIMER:
            if hosts[to].timers.get(item[2]) == item[3] and not background(item[2]):
                yield at, "timer", f"timer {'/'.join(map(str, item[2]))} of {to}"
        elif hosts[to].life == item[2]:
            yield at, "write", f"write of {to}"


def in_words(ahead: Iterable[tuple[Time, str, str]]) -> str:
    """Kinds with their counts, and a few examples: fit for the message of an error."""
    found = list(ahead)
    if not found:
        return "nothing is in flight but maintenance"
    kinds = Counter(kind for _, kind, _ in found)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    examples = [f"{text} at {at} ms" for at, _, text in found[:EXAMPLES_SHOWN]]
    if len(found) > EXAMPLES_SHOWN:
        examples.append(f"{len(found) - EXAMPLES_SHOWN} more")
    return f"still in flight: {counts} ({'; '.join(examples)})"
