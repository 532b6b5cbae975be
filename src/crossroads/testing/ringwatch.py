"""Watches a Chord ring while a case runs: what must hold after every change of pointers.

- Zave's invariant. `InvariantWatch` is told of each change; with `thorough`, the definition is
  asked after every step as well, and the two must agree.
- As long as members only join, no key has two owners, not even for a moment: whoever gives keys
  away stops answering for them before the other begins. After a member has gone this holds again
  once the ring is repaired: until then a member may hear of a predecessor that is not the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from crossroads.node import Time
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.faults import fault_contract
from crossroads.overlay.chord.invariant import InvariantWatch, check_invariant, successor_lists
from crossroads.overlay.chord.node import Chord
from crossroads.overlay.contract import Overlay


class RingWatch:
    def __init__(self, config: ChordConfig, *, thorough: bool = False) -> None:
        self._config = config
        self._needed = config.successors + 1
        self._watch = InvariantWatch(config.ring, self._needed)
        self._changes: dict[int, int] = {}  # by place on the ring, as of the last look
        self._members: set[int] = set()
        self._repaired_at: Time = 0
        self._repair_ms = fault_contract(config).repair_ms
        self._thorough = thorough

    def begin(self, up: Iterable[Overlay[Any, Any]]) -> list[str]:
        for overlay in up:
            self._look(0, overlay)
        return self._watch.violations()

    def stepped(
        self, now: Time, overlay: Overlay[Any, Any], up: Iterable[Overlay[Any, Any]]
    ) -> list[str]:
        """One node has handled an input; `up` are all that are up. What is wrong now?"""
        found: list[str] = []
        if self._look(now, overlay):
            found += self._watch.violations()
            if now > self._repaired_at:
                found += _shared(overlay, up)
        if self._thorough:
            lists = successor_lists(one.state for one in up if isinstance(one, Chord))
            by_definition = check_invariant(lists, self._config.ring, self._needed)
            assert by_definition == self._watch.violations(), (by_definition, found)
        return found

    def crashed(self, now: Time, overlay: Overlay[Any, Any]) -> list[str]:
        assert isinstance(overlay, Chord)
        self._changes.pop(overlay.state.me.id, None)
        self._gone(now, overlay.state.me.id)
        return self._watch.update(overlay.state.me.id, None)

    def _look(self, now: Time, overlay: Overlay[Any, Any]) -> bool:
        """Have its pointers changed since the last time?"""
        assert isinstance(overlay, Chord)
        state = overlay.state
        place = state.me.id
        if self._changes.get(place) == state.changes:
            return False
        self._changes[place] = state.changes
        if state.is_member:
            self._members.add(place)
            self._watch.update(place, [peer.id for peer in state.successors])
        else:
            self._gone(now, place)
            self._watch.update(place, None)
        return True

    def _gone(self, now: Time, place: int) -> None:
        if place in self._members:
            self._members.discard(place)
            self._repaired_at = now + self._repair_ms


def _shared(overlay: Overlay[Any, Any], up: Iterable[Overlay[Any, Any]]) -> Iterator[str]:
    owned = overlay.owned()
    for other in up:
        if other is not overlay and (both := owned & other.owned()):
            keys = f"{both.size} keys, {next(both.keys())} among them"
            yield f"{overlay.address} and {other.address} both own {keys}"
