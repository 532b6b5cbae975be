"""The invariant that keeps a Chord ring whole (P. Zave; ERRATA 4), in full and step by step.

Of the live members, with the **extended list** of a member being itself followed by its successors:

1. every member has a live member among its successors;
2. more than r members are **principals**: no extended list skips them, that is, has two neighbours
   on the list with the principal between the two on the ring.

Whatever order members join, stabilise and rectify in, both keep holding as long as the failures
are within the contract; and whenever both hold, upkeep leads back to a perfect ring. Nothing
simpler will do: that first successors form one ring, say, can fail and be repaired.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from crossroads.keyspace import Ring
from crossroads.overlay.chord.state import RingState

Lists = Mapping[int, Sequence[int]]  # of the live members: successors by id, nearest first


def successor_lists(states: Iterable[RingState]) -> dict[int, tuple[int, ...]]:
    """Of those that are members; `states` are of the nodes that are up."""
    return {
        state.me.id: tuple(peer.id for peer in state.successors)
        for state in states
        if state.is_member
    }


def check_invariant(lists: Lists, ring: Ring, needed: int) -> list[str]:
    """What is wrong, in words. `needed` principals: r + 1, or fewer while a ring grows from its
    founder, which must then not fail."""
    if len(lists) < 2:  # alone, there is no one to point to
        return []
    found = [
        _no_live_successor(member, successors)
        for member, successors in sorted(lists.items())
        if not any(one in lists for one in successors)
    ]
    principals = [
        member
        for member in sorted(lists)
        if not any(_skips(ring, one, successors, member) for one, successors in lists.items())
    ]
    if len(principals) < needed:
        found.append(_too_few(principals, needed))
    return found


def _skips(ring: Ring, member: int, successors: Sequence[int], whom: int) -> bool:
    return any(ring.between(a, whom, b) for a, b in _steps(member, successors))


def _steps(member: int, successors: Sequence[int]) -> Iterator[tuple[int, int]]:
    at = member
    for one in successors:
        yield at, one
        at = one


def _no_live_successor(member: int, successors: Sequence[int]) -> str:
    return f"member {member} has no live successor among {list(successors)}"


def _too_few(principals: Iterable[int], needed: int) -> str:
    return f"principals are only {sorted(principals)}, {needed} are needed"


class InvariantWatch:
    """The same, kept up to date: told of one member's new list, or of its end, it looks at what
    that touches. `check_invariant` is the definition.
    """

    def __init__(self, ring: Ring, needed: int) -> None:
        self._ring = ring
        self._needed = needed
        self._members: list[int] = []  # ascending
        self._lists: dict[int, tuple[int, ...]] = {}
        self._skipped: dict[int, int] = {}  # live members: how many steps of lists skip them
        self._living: dict[int, int] = {}  # live members: how many of their successors live
        self._listed_by: dict[int, set[int]] = {}  # anyone: the live members that list it
        self._principals: set[int] = set()
        self._lonely: set[int] = set()  # without a live successor

    def update(self, member: int, successors: Sequence[int] | None) -> list[str]:
        """A live member's list is this now; None: it is no live member. What is wrong now?"""
        old = self._lists.get(member)
        new = None if successors is None else tuple(successors)
        if old == new:
            return self.violations()
        if old is not None:
            self._withdraw(member, old)
        if old is not None and new is None:
            self._remove(member)
        elif old is None and new is not None:
            self._add(member)
        if new is not None:
            self._enter(member, new)
        return self.violations()

    def violations(self) -> list[str]:
        if len(self._members) < 2:
            return []
        found = [_no_live_successor(one, self._lists[one]) for one in sorted(self._lonely)]
        if len(self._principals) < self._needed:
            found.append(_too_few(self._principals, self._needed))
        return found

    # -- lists come and go -----------------------------------------------------------------

    def _enter(self, member: int, successors: tuple[int, ...]) -> None:
        self._lists[member] = successors
        self._count(member, successors, +1)
        for one in set(successors):
            self._listed_by.setdefault(one, set()).add(member)
        self._set_living(member, sum(one in self._skipped for one in set(successors)))

    def _withdraw(self, member: int, successors: tuple[int, ...]) -> None:
        del self._lists[member]
        self._count(member, successors, -1)
        for one in set(successors):
            self._listed_by[one].discard(member)

    def _count(self, member: int, successors: tuple[int, ...], by: int) -> None:
        for a, b in _steps(member, successors):
            for skipped in self._strictly_between(a, b):
                self._set_skipped(skipped, self._skipped[skipped] + by)

    def _strictly_between(self, a: int, b: int) -> list[int]:
        low, high = bisect_right(self._members, a), bisect_left(self._members, b)
        if a < b:
            return self._members[low:high]
        return self._members[low:] + self._members[:high]

    # -- members come and go ---------------------------------------------------------------

    def _add(self, member: int) -> None:
        insort(self._members, member)
        steps = (step for one, listed in self._lists.items() for step in _steps(one, listed))
        self._set_skipped(member, sum(self._ring.between(a, member, b) for a, b in steps))
        for one in self._listed_by.get(member, ()):
            self._set_living(one, self._living[one] + 1)

    def _remove(self, member: int) -> None:
        self._members.remove(member)
        del self._skipped[member], self._living[member]
        self._principals.discard(member)
        self._lonely.discard(member)
        for one in self._listed_by.get(member, ()):
            self._set_living(one, self._living[one] - 1)

    def _set_skipped(self, member: int, count: int) -> None:
        self._skipped[member] = count
        if count:
            self._principals.discard(member)
        else:
            self._principals.add(member)

    def _set_living(self, member: int, count: int) -> None:
        self._living[member] = count
        if count:
            self._lonely.discard(member)
        else:
            self._lonely.add(member)
