"""What a Chord member knows of the ring. Data and its rules; no messages, no time.

    predecessor   the member before it: it owns the keys (predecessor, itself]
    successors    the next r members, nearest first; kept as *head :: the head's own list*
    fingers       the i-th is the owner of itself + 2^i: O(log n) members to route by
    cached        members learned from traffic, bounded (only with finger caching)

Rules:

1. A member always knows a predecessor; alone, it is its own. A node without one owns nothing.
2. The successor list holds no member twice and not the member itself. It is shorter than r while
   the whole ring is (`closed`: it goes once around), and after a failure until the next answer.
3. Only `upkeep` and `membership` change predecessor and successors, here and nowhere else; each
   change counts in `changes`, so that a checker can look after every one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum

from crossroads.keyspace import Arcs
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.messages import Peer


class Phase(Enum):
    OUTSIDE = "outside"  # has not joined, or lost the ring
    JOINING = "joining"  # looks for its place, or waits to be taken in
    MEMBER = "member"
    LEAVING = "leaving"  # a member still, until its neighbours are told
    LEFT = "left"  # passes on what still comes


class RingState:
    """One node's pointers. Not shared; whoever holds it may change it through its methods."""

    __slots__ = (
        "_mask",
        "_owned_after",
        "_owned_size",
        "cached",
        "changes",
        "closed",
        "config",
        "fan",
        "fan_distances",
        "fingers",
        "is_member",
        "me",
        "phase",
        "predecessor",
        "route_distances",
        "routes",
        "successors",
    )

    def __init__(self, me: Peer, config: ChordConfig) -> None:
        assert 0 <= me.id < config.ring.size, me
        self.me = me
        self.config = config
        self._mask = config.ring.size - 1
        self.phase = Phase.OUTSIDE
        self.is_member = False  # follows from the phase
        self.predecessor: Peer | None = None
        self._owned_after = 0  # follow from phase and predecessor: a payload's first question
        self._owned_size = 0
        self.successors: tuple[Peer, ...] = ()
        self.closed = False
        self.fingers: list[Peer | None] = [None] * config.bits
        self.cached: dict[int, Peer] = {}  # oldest first
        self.changes = 0
        # Derived, in the order of distance from here: for m-cast (the distinct fingers), and for
        # routing (the same and the cached members).
        self.fan: list[Peer] = []
        self.fan_distances: list[int] = []
        self.routes: list[Peer] = []
        self.route_distances: list[int] = []

    def __repr__(self) -> str:
        before = self.predecessor.id if self.predecessor else None
        after = [peer.id for peer in self.successors]
        return f"<{self.phase.value} {self.me.id}: after {before}, before {after}>"

    # -- place on the ring -----------------------------------------------------------------

    @property
    def head(self) -> Peer:
        """The first successor; alone, itself."""
        return self.successors[0] if self.successors else self.me

    def owns(self, key: int) -> bool:
        return (key - self._owned_after - 1) & self._mask < self._owned_size

    def owned(self) -> Arcs:
        if not self._owned_size:
            return self.config.ring.empty
        return self.config.ring.arc(self._owned_after, self.me.id)

    def distance(self, key: int) -> int:
        """Clockwise from here."""
        return (key - self.me.id) & self._mask

    def between(self, after: int, key: int, before: int) -> bool:
        return self.config.ring.between(after, key, before)

    # -- changes ---------------------------------------------------------------------------

    def set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self.is_member = phase is Phase.MEMBER or phase is Phase.LEAVING
        self.changes += 1
        self._renew_owned()

    def set_predecessor(self, peer: Peer | None) -> None:
        self.predecessor = peer
        self.changes += 1
        self._renew_owned()

    def _renew_owned(self) -> None:
        if self.predecessor is None or not self.is_member:
            self._owned_size = 0
        else:
            self._owned_after = self.predecessor.id
            self._owned_size = ((self.me.id - self._owned_after - 1) & self._mask) + 1

    def follow(self, head: Peer, its_list: Sequence[Peer]) -> bool:
        """Take *head :: its list* as the successors. Has anything changed?"""
        return self.set_successors((head, *its_list))

    def set_successors(self, peers: Iterable[Peer]) -> bool:
        """The first r of them, up to where the ring closes at this member itself."""
        kept: list[Peer] = []
        closed = False
        for peer in peers:
            if peer.id == self.me.id:
                closed = True
                break
            if len(kept) < self.config.successors and peer not in kept:
                kept.append(peer)
        closed = closed and len(kept) < self.config.successors
        if (kept_now := tuple(kept)) == self.successors and closed == self.closed:
            return False
        self.successors, self.closed = kept_now, closed
        self.changes += 1
        self.renew_routes()
        return True

    def drop_successor(self, gone: Peer) -> bool:
        """It does not answer, or has left. Was it among the successors?"""
        left = tuple(peer for peer in self.successors if peer != gone)
        if was_successor := len(left) < len(self.successors):
            self.successors = left
            self.changes += 1
        self.forget_route(gone)
        return was_successor

    def forget_route(self, gone: Peer) -> None:
        """Route by it no longer. Ring pointers to it stay: `upkeep` decides about those."""
        self.cached.pop(gone.id, None)
        self.fingers = [None if peer == gone else peer for peer in self.fingers]
        self.renew_routes()

    # -- what routing uses -----------------------------------------------------------------

    def renew_routes(self) -> None:
        """To be called after any change of fingers, cache or first successor."""
        known = {peer.id: peer for peer in self.fingers if peer is not None}
        if self.successors:
            known[self.head.id] = self.head
        self.fan = self._in_order(known)
        self.fan_distances = [self.distance(peer.id) for peer in self.fan]
        if not self.cached:
            self.routes, self.route_distances = self.fan, self.fan_distances
            return
        self.routes = self._in_order({**self.cached, **known})
        self.route_distances = [self.distance(peer.id) for peer in self.routes]

    def _in_order(self, known: dict[int, Peer]) -> list[Peer]:
        """By distance, beginning with the first successor: keys before it are its own, and whoever
        is remembered there is older news than it."""
        nearest = self.distance(self.head.id) or 1
        placed = ((self.distance(id_), peer) for id_, peer in known.items())
        kept = sorted((far, peer.id) for far, peer in placed if far >= nearest)
        return [known[id_] for _, id_ in kept]

    def knows(self, distance: int) -> bool:
        """Is a member at that distance among the routes?"""
        at = bisect_left(self.route_distances, distance)
        return at < len(self.route_distances) and self.route_distances[at] == distance
