"""Who must and who may be notified: the law of a scheme, judged from what was seen from outside.

    verdict = judge(log, matches)
    assert not verdict.violations

The log has, in the order in which they happened, the commands that nodes were given, what they
delivered, and when they crashed and came back. Nothing of it comes from inside a protocol, so one
judge serves all of them.

A subscription is **in force** from its acknowledgement until its lease ends, it is withdrawn, or
its node is told to leave. It is **wanted** from the moment it is asked for until it has certainly
ended. An event is **under way** from Publish until Published (for ever if that never comes). Then

    must   the event was acknowledged; the subscription was in force all the time it was under way,
           and its node has not gone for good
    may    the subscription was wanted at some time while the event was under way

and of the pairs that match by definition: must ⊆ notified ⊆ must ∪ may, none twice. And so that a
scheme that promises nothing does not pass: whoever asked and stayed has been answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from crossroads.node import Address, Command, Delivery, Time
from crossroads.scheme.contract import (
    Gone,
    Leave,
    Notified,
    Publish,
    Published,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)

NEVER: Time = 1 << 62
# A node that crashes this soon after it told the application may not have made that durable.
UNSETTLED_MS = 1_000

Pair = tuple[str, str]  # (subscription, event)
Matches = Callable[[str, Mapping[str, object]], bool]


@dataclass(frozen=True, slots=True)
class Crashed:
    pass


@dataclass(frozen=True, slots=True)
class Restarted:
    pass


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of the log."""

    time: Time
    node: Address
    what: Command | Delivery | Crashed | Restarted


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str  # missed, unwanted, twice, elsewhere, unanswered
    about: Pair | str  # a pair, or what was asked for
    words: str


@dataclass(slots=True)
class Verdict:
    must: set[Pair] = field(default_factory=set)
    may: set[Pair] = field(default_factory=set)  # without those that must
    notified: set[Pair] = field(default_factory=set)
    violations: list[Violation] = field(default_factory=list)


@dataclass(slots=True)
class _Wish:
    """One Subscribe command and what became of it."""

    node: Address
    filter: str
    asked: Time
    lease: Time | None
    acknowledged: Time = NEVER
    ends: Time = NEVER  # withdrawn, or its node told to leave: no longer in force
    ended: Time = NEVER  # and certainly over

    def in_force(self) -> tuple[Time, Time]:
        lease_ends = NEVER if self.lease is None else self.asked + self.lease
        return self.acknowledged, min(self.ends, lease_ends)

    def wanted(self) -> tuple[Time, Time]:
        # The network counts the lease from some moment between asking and acknowledging.
        lease_ends = NEVER if self.lease is None else self.acknowledged + self.lease
        return self.asked, min(self.ended, lease_ends)


@dataclass(slots=True)
class _Event:
    values: Mapping[str, object]
    under_way: list[list[Time]]  # [Publish, Published or NEVER], once per Publish


@dataclass(slots=True)
class _History:
    wishes: dict[str, list[_Wish]] = field(default_factory=dict)
    events: dict[str, _Event] = field(default_factory=dict)
    told: dict[Pair, list[tuple[Time, Address]]] = field(default_factory=dict)
    crashes: dict[Address, list[Time]] = field(default_factory=dict)
    open: dict[tuple[Address, str], Seen] = field(default_factory=dict)  # asked, not answered
    away: set[Address] = field(default_factory=set)  # crashed and not back


def judge(log: Sequence[Seen], matches: Matches) -> Verdict:
    """`matches(filter, event)` is the definition of a match."""
    history = _read(log)
    verdict = Verdict(notified=set(history.told))
    for subscription, wishes in history.wishes.items():
        for name, event in history.events.items():
            if not matches(wishes[0].filter, event.values):
                continue
            pair = (subscription, name)
            if wishes[0].node not in history.away and _must(wishes, event):
                verdict.must.add(pair)
            elif any(_overlap(wish.wanted(), way) for wish in wishes for way in event.under_way):
                verdict.may.add(pair)
    verdict.violations = list(_violations(history, verdict))
    return verdict


# -- reading the log -----------------------------------------------------------------------------


def _read(log: Iterable[Seen]) -> _History:
    history = _History()
    for seen in log:
        _read_answer(history.open, seen)
        match seen.what:
            case Crashed():
                history.crashes.setdefault(seen.node, []).append(seen.time)
                history.away.add(seen.node)
            case Restarted():
                history.away.discard(seen.node)
            case Publish(name, values):
                event = history.events.setdefault(name, _Event(values, []))
                event.under_way.append([seen.time, NEVER])
            case Published(name):
                _acknowledge(history.events[name], seen.time)
            case Notified(subscription, name):
                history.told.setdefault((subscription, name), []).append((seen.time, seen.node))
            case _:
                _read_wish(history.wishes, seen)
    return history


def _acknowledge(event: _Event, now: Time) -> None:
    """Every Publish so far is done with: publishing again is the same event."""
    for way in event.under_way:
        way[1] = min(way[1], now)


def _read_answer(waiting: dict[tuple[Address, str], Seen], seen: Seen) -> None:
    match seen.what:
        case Subscribe(name) | Unsubscribe(name) | Publish(name):
            waiting[seen.node, name] = seen
        case Subscribed(name) | Unsubscribed(name) | Published(name) | Refused(name):
            waiting.pop((seen.node, name), None)
        case Crashed() | Leave() | Gone():  # nobody is there to wait for the answer
            for asked in [key for key in waiting if key[0] == seen.node]:
                del waiting[asked]


def _read_wish(wishes: dict[str, list[_Wish]], seen: Seen) -> None:
    now = seen.time
    match seen.what:
        case Subscribe(name, filter_, lease):
            wishes.setdefault(name, []).append(_Wish(seen.node, filter_, now, lease))
        case Subscribed(name):
            for wish in wishes[name]:
                wish.acknowledged = min(wish.acknowledged, now)
        case Unsubscribe(name):
            for wish in wishes.get(name, ()):
                wish.ends = min(wish.ends, now)
        case Unsubscribed(name) | Refused(name):
            for wish in wishes.get(name, ()):
                wish.ends, wish.ended = min(wish.ends, now), min(wish.ended, now)
        case Leave():
            for wish in _of(wishes, seen.node):
                wish.ends = min(wish.ends, now)
        case Gone():
            for wish in _of(wishes, seen.node):
                wish.ends, wish.ended = min(wish.ends, now), min(wish.ended, now)


def _of(wishes: Mapping[str, list[_Wish]], node: Address) -> Iterator[_Wish]:
    return (wish for several in wishes.values() for wish in several if wish.node == node)


# -- judging it ----------------------------------------------------------------------------------


def _must(wishes: Sequence[_Wish], event: _Event) -> bool:
    """Was it acknowledged, and the subscription in force all the time from its first Publish?"""
    start, done = event.under_way[0]
    if done == NEVER:
        return False
    reached = None
    for since, until in sorted(wish.in_force() for wish in wishes):
        # A renewal takes over from the lease before it: together they may cover what none does.
        if since < start or (reached is not None and since <= reached):
            reached = until if reached is None else max(reached, until)
    return reached is not None and reached > done


def _overlap(one: tuple[Time, Time], other: Sequence[Time]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _violations(history: _History, verdict: Verdict) -> Iterator[Violation]:
    yield from _wrong_pairs(history, verdict)
    for pair, told in sorted(history.told.items()):
        yield from _told_wrongly(history, pair, told)
    for (node, name), seen in history.open.items():
        kind = type(seen.what).__name__
        words = f"{node} was told to {kind} {name} at {seen.time} ms, and never answered"
        yield Violation("unanswered", name, words)


def _wrong_pairs(history: _History, verdict: Verdict) -> Iterator[Violation]:
    for pair in sorted(verdict.must - verdict.notified):
        wish, event = history.wishes[pair[0]][0], history.events[pair[1]]
        yield Violation(
            "missed",
            pair,
            f"{pair[0]} of {wish.node} (in force from {wish.acknowledged} ms) was not notified of "
            f"{pair[1]}, published at {event.under_way[0][0]} ms and acknowledged",
        )
    for pair in sorted(verdict.notified - verdict.must - verdict.may):
        at, node = history.told[pair][0]
        yield Violation(
            "unwanted",
            pair,
            f"{node} was notified at {at} ms of {pair[1]} for {pair[0]}, "
            "which it does not match or which was not wanted then",
        )


def _told_wrongly(
    history: _History, pair: Pair, told: Sequence[tuple[Time, Address]]
) -> Iterator[Violation]:
    wishes = history.wishes.get(pair[0], [])
    for at, node in told:
        if wishes and node != wishes[0].node:
            words = f"{node} was notified of {pair[1]} for {pair[0]} of {wishes[0].node}"
            yield Violation("elsewhere", pair, f"{words} at {at} ms")
    for (first, node), (second, _) in pairwise(told):
        if not _forgot(first, second, history.crashes.get(node, ())):
            words = f"{node} was notified of {pair[1]} for {pair[0]} at {first} ms"
            yield Violation("twice", pair, f"{words} and again at {second} ms")


def _forgot(first: Time, second: Time, crashes: Iterable[Time]) -> bool:
    """Did the node crash before what it told the application was certainly durable?"""
    return any(first <= crash <= min(second, first + UNSETTLED_MS) for crash in crashes)
