"""Rings that change while they are watched: the invariant in full after every step.

A case is its seed: a quiet ring of 2r + 2 members or more, then joins, leaves, crashes and restarts
as the fault contract of Chord allows, on links that reorder and repeat.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from crossroads.node import Address, Dice, Node, Time
from crossroads.overlay.chord import Chord, ChordConfig, Peer, converged, fault_contract
from crossroads.overlay.chord.invariant import InvariantWatch, check_invariant, successor_lists
from crossroads.overlay.chord.state import RingState
from crossroads.runtime.sim import Link, Simulation
from crossroads.runtime.sim.overlaynode import OverlayNode
from crossroads.scheme.contract import Gone, Join, Leave, Member

CALM = Link(delay_min=10, delay_max=50)
STORMY = Link(delay_min=10, delay_max=40, duplication=0.05, reordering=0.1)
WAVES = 3


def shape(state: RingState) -> tuple[object, ...]:
    """All that a member points to."""
    return (state.me, state.predecessor, state.successors, state.closed, tuple(state.fingers))


@dataclass
class Churn:
    seed: int
    config: ChordConfig
    members: int
    failures: bool = True  # or only joins and leaves
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        size = self.config.ring.size
        self.peers = {f"n{id_}": Peer(id_, f"n{id_}") for id_ in range(size)}
        self.names = [f"n{id_}" for id_ in self.dice.sample(range(size), self.members)]
        self.built = converged((self.peers[name] for name in self.names), self.config)
        self.wanted = set(self.names)
        self.simulation = Simulation(self.seed, link=self.dice.choice((CALM, STORMY)))
        self.watch = InvariantWatch(self.config.ring, self.config.successors + 1)
        self.seen: dict[Address, int] = {}
        self.ambushes = 0
        self.joining: set[Address] = set()
        # A ring that is whole before it is watched.
        for name in self.names:
            self.simulation.add(name, self.make)
        for state in self.states():
            self.watch.update(state.me.id, [peer.id for peer in state.successors])
        self.simulation.after_input = self.look
        self.simulation.on_delivery.append(self.delivered)

    def make(self, address: Address, dice: Dice) -> OverlayNode:
        peer = self.peers[address]
        state = self.built.pop(peer.id, None)  # the second life of a node begins outside
        return OverlayNode(Chord(peer, self.config, dice, state=state))

    def states(self) -> Iterator[RingState]:
        for node in self.simulation.nodes():
            assert isinstance(node, OverlayNode) and isinstance(node.overlay, Chord)
            yield node.overlay.state

    # -- what happens ----------------------------------------------------------------------

    def run(self) -> list[str]:
        """Waves of up to r - 1 removals, each repaired before the next; newcomers at any time."""
        contract = fault_contract(self.config)
        try:
            for _ in range(WAVES):
                self.plan_wave(contract.repair_ms)
                self.simulation.run_for(contract.repair_ms)
                self.settle(contract.repair_ms)
                if self.wrong:
                    break
        except AssertionError as broken:
            self.wrong.append(f"at {self.simulation.now} ms: {broken}")
        return self.wrong

    def plan_wave(self, within: Time) -> None:
        dice, now = self.dice, self.simulation.now
        standing = sorted(self.wanted)
        room = len(standing) - 2 * self.config.successors
        count = min(dice.randrange(self.config.successors), room) if room > 0 else 0
        # Half of the failures hit where it hurts most: the successor of someone who just came.
        self.ambushes = sum(self.failures and dice.random() < 0.5 for _ in range(count))
        for name in dice.sample(standing, count - self.ambushes):
            act = self.crash if self.failures and dice.random() < 0.6 else self.leave
            self.simulation.at(now + 1 + dice.randrange(within // 2), lambda n=name, a=act: a(n))
        for _ in range(dice.randrange(4)):
            name = dice.choice([one for one in sorted(self.peers) if one not in self.wanted])
            self.simulation.at(now + 1 + dice.randrange(within // 2), lambda n=name: self.join(n))

    def join(self, name: Address) -> None:
        contacts = [state.me.address for state in self.states() if state.is_member]
        if name in self.wanted or name in contacts:
            return
        if name not in self.simulation.addresses():
            self.simulation.add(name, self.make)
        elif self.simulation.node(name) is None:
            self.simulation.restart(name)
        self.wanted.add(name)
        self.joining.add(name)
        self.simulation.command(name, Join(self.dice.choice(contacts)))

    def leave(self, name: Address) -> None:
        if name in self.wanted and self.simulation.node(name) is not None:
            self.wanted.discard(name)
            self.simulation.command(name, Leave())

    def crash(self, name: Address) -> None:
        if name in self.wanted and self.simulation.node(name) is not None:
            self.wanted.discard(name)
            self.simulation.crash(name)
            self.told(self.peers[name].id, None)

    def settle(self, within: Time) -> None:
        """The ring becomes the one that these members make when built at once."""
        for _ in range(within // 500 + 120):
            if self.simulation_is(converged((self.peers[n] for n in self.wanted), self.config)):
                return
            self.simulation.run_for(500)
        self.wrong.append(f"the ring is not whole again: {sorted(map(repr, self.states()))}")

    def simulation_is(self, ring: dict[int, RingState]) -> bool:
        members = [shape(state) for state in self.states() if state.is_member]
        return sorted(members, key=repr) == sorted(map(shape, ring.values()), key=repr)

    # -- what is looked at -----------------------------------------------------------------

    def look(self, now: Time, node: Node) -> None:
        assert isinstance(node, OverlayNode) and isinstance(node.overlay, Chord)
        state = node.overlay.state
        if self.seen.get(node.address) == state.changes:
            return
        self.seen[node.address] = state.changes
        successors = [peer.id for peer in state.successors] if state.is_member else None
        self.told(state.me.id, successors)
        if not self.failures:
            self.own_disjointly(now)

    def told(self, member: int, successors: list[int] | None) -> None:
        found = self.watch.update(member, successors)
        full = check_invariant(
            successor_lists(self.states()), self.config.ring, self.config.successors + 1
        )
        assert found == full, (found, full)
        assert not full, full[0]

    def own_disjointly(self, now: Time) -> None:
        """No two members answer for the same key, at any time, when nobody fails."""
        owned = [(state.me.id, state.owned()) for state in self.states()]
        for (one, its), (other, others) in combinations(owned, 2):
            assert not its & others, f"{one} and {other} both own {(its & others).arcs()}"

    def delivered(self, now: Time, name: Address, what: object) -> None:
        if isinstance(what, Member):
            self.joining.discard(name)
        if isinstance(what, Member) and self.ambushes:
            self.ambushes -= 1
            node = self.simulation.node(name)
            assert isinstance(node, OverlayNode) and isinstance(node.overlay, Chord)
            successor = node.overlay.state.head.address
            soon = now + 1 + self.dice.randrange(400)
            self.simulation.at(soon, lambda: self.crash(successor))
        if isinstance(what, Gone) and name in self.wanted:
            if name not in self.joining:
                self.wrong.append(f"at {now} ms {name} fell out of the ring: {what.reason}")
            self.wanted.discard(name)  # a newcomer whose contact failed tries another
            self.simulation.at(now + 1, lambda: self.join(name))
