"""A handful of nodes in hypothesis' hands, against the must/may model of the law.

The machine may do anything that the fault contract allows, in any order; if the law breaks, it is
cut down to the fewest steps that break it.
"""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from crossroads.node import Address, Command, Delivery, Time
from crossroads.runtime.sim import Link, Simulation
from crossroads.scheme.contract import Publish, Subscribe, Unsubscribe
from crossroads.testing.cbpsnetwork import cbps
from crossroads.testing.crowd import Crowd
from crossroads.testing.law import Crashed, Restarted, Seen, judge

SUBJECT = cbps()
FOUNDERS = ("n4", "n13", "n22", "n35", "n47", "n58")
SPARES = ("n9", "n30", "n50")
WIDTHS = st.integers(1, 4)
VALUES = st.integers(0, 63)


class PublishSubscribe(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 16))
    def found(self, seed: int) -> None:
        self.simulation = Simulation(
            seed, link=Link(delay_min=5, delay_max=30), background=SUBJECT.background
        )
        self.log: list[Seen] = []
        self.simulation.on_command.append(self._note)
        self.simulation.on_delivery.append(self._note)
        self.simulation.on_life.append(self._note_life)
        self.crowd = Crowd(self.simulation, SUBJECT.make, random.Random(seed))
        self.crowd.found(FOUNDERS)
        self._settle()
        self.mine: dict[str, Address] = {}
        self.events = 0
        self.crashed_at: list[Time] = []
        self.left_at: list[Time] = []
        self.down: list[Address] = []

    # -- what people do --------------------------------------------------------------------

    @rule(low=VALUES, width=WIDTHS, lease=st.none() | st.integers(500, 20_000), data=st.data())
    def subscribe(self, low: int, width: int, lease: int | None, data: st.DataObject) -> None:
        name = f"s{len(self.mine)}"
        self.mine[name] = data.draw(st.sampled_from(sorted(self.crowd.members)))
        text = f"a >= {low} AND a < {low + 8 * width}"
        self.simulation.command(self.mine[name], Subscribe(name, text, lease))

    @precondition(lambda self: any(node in self.crowd.members for node in self.mine.values()))
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        known = sorted(name for name, node in self.mine.items() if node in self.crowd.members)
        name = data.draw(st.sampled_from(known))
        self.simulation.command(self.mine[name], Unsubscribe(name))

    @rule(value=VALUES, data=st.data())
    def publish(self, value: int, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.crowd.members)))
        self.events += 1
        self.simulation.command(node, Publish(f"e{self.events}", {"a": value, "b": value}))

    # -- what happens to nodes -------------------------------------------------------------

    @precondition(lambda self: self._may_lose_one())
    @rule(data=st.data(), mid_step=st.booleans())
    def crash(self, data: st.DataObject, mid_step: bool) -> None:
        node = data.draw(st.sampled_from(sorted(self.crowd.members)))
        self.crashed_at.append(self.simulation.now)
        self.down.append(node)
        self.simulation.crash(node, mid_step=mid_step)

    @precondition(lambda self: any(self.simulation.node(node) is None for node in self.down))
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        down = sorted(node for node in self.down if self.simulation.node(node) is None)
        node = data.draw(st.sampled_from(down))
        self.down.remove(node)
        if self.simulation.now - self.crashed_at[-1] < (SUBJECT.faults.absence_ms_max or 0) // 2:
            self.simulation.restart(node)
            self.crowd.join(node)

    @precondition(lambda self: self._may_lose_one())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.left_at.append(self.simulation.now)
        self.crowd.leave(data.draw(st.sampled_from(sorted(self.crowd.members))))

    @precondition(lambda self: not set(SPARES) <= set(self.simulation.addresses()))
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        spares = sorted(set(SPARES) - set(self.simulation.addresses()))
        self.crowd.join(data.draw(st.sampled_from(spares)))

    @rule(milliseconds=st.integers(1, 4_000))
    def wait(self, milliseconds: int) -> None:
        self.simulation.run_for(milliseconds)

    # -- the law ---------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "mine"):
            return  # hypothesis gave up before the network was founded
        self._settle()
        for value in range(0, 64, 16):
            self.events += 1
            event = {"a": value, "b": value}
            self.simulation.command(min(self.crowd.members), Publish(f"e{self.events}", event))
        self._settle()
        assert [wrong.words for wrong in judge(self.log, SUBJECT.matches).violations] == []

    def _settle(self) -> None:
        def in_order() -> bool:
            return self.crowd.settled() and SUBJECT.in_order(self.simulation.nodes())

        self.simulation.run_until_quiet(within=120_000, idle=in_order)

    def _may_lose_one(self) -> bool:
        """To a ring, who leaves is lost as much as who crashes: so the contract says."""
        past = self.simulation.now - SUBJECT.faults.repair_ms
        lost_lately = sum(at >= past for at in (*self.crashed_at, *self.left_at))
        staying = set(self.crowd.members) & set(self.crowd.wanted)
        return (
            lost_lately < SUBJECT.faults.crashes_at_once
            and len(staying) > SUBJECT.faults.members_min
        )

    def _note(self, now: Time, node: Address, what: Command | Delivery) -> None:
        self.log.append(Seen(now, node, what))

    def _note_life(self, now: Time, node: Address, up: bool) -> None:
        self.log.append(Seen(now, node, Restarted() if up else Crashed()))


TestPublishSubscribe = PublishSubscribe.TestCase
TestPublishSubscribe.settings = settings(max_examples=20, stateful_step_count=30)
