"""Carrying payloads and lookups: decide with the pure rules, ask `forward`, send, probe the hop.

A payload that is lost on a hop is not sent again by the overlay: the layer above retries end to
end. But a next hop that has not been heard of for a while is pinged when it is used, and if it does
not answer, routed around from then on.
"""

from __future__ import annotations

from msgspec.structs import replace

from crossroads.keyspace import Arcs
from crossroads.node import Log, Message, Send, Time
from crossroads.overlay.chord import planted
from crossroads.overlay.chord.core import FINGERS, Core
from crossroads.overlay.chord.fingers import finger_start, learn, set_finger
from crossroads.overlay.chord.mcast import Branch, split
from crossroads.overlay.chord.messages import (
    Cast,
    FindSuccessor,
    FoundSuccessor,
    Peer,
    Ping,
    Routed,
)
from crossroads.overlay.chord.questions import Purpose
from crossroads.overlay.chord.routing import is_last, next_hop, toward
from crossroads.overlay.chord.state import Phase
from crossroads.overlay.chord.unicast import after_stop
from crossroads.overlay.contract import Arrived, Forward

HEARD_MAX = 1_024  # addresses whose last sign of life is remembered; most are long gone by then

# -- one key -----------------------------------------------------------------------------------


def received_routed(core: Core, now: Time, message: Routed, forward: Forward) -> None:
    if core.config.cache_size:
        learn(core.state, message.origin)
    carry(core, now, message, forward)


def carry(core: Core, now: Time, message: Routed, forward: Forward) -> None:
    """On from here, or home. `hops` of the message counts those behind it."""
    state = core.state
    if state.owns(message.key):
        _arrived(core, now, message, forward)
        return
    if message.hops >= core.config.hops_max:
        core.out.append(Log(f"dropped on the way to {message.key}: {message.hops} hops"))
        return
    hop, last = _hop(core, message.key, message.last)
    if hop is None:
        core.out.append(Log(f"no member to send to on the way to {message.key}: dropped"))
        return
    payload = forward(message.payload, hop.address)
    if payload is not None:
        on = Routed(message.key, payload, message.origin, message.hops + 1, last, message.rest)
        core.out.append(Send(hop.address, on))
        _probe_if_silent(core, now, hop)


def _hop(core: Core, key: int, last: bool) -> tuple[Peer | None, bool]:
    """Where next, and whether that should be the owner."""
    state = core.state
    if state.is_member and last:
        return state.predecessor, True  # given to a newcomer that the sender does not know yet
    if state.is_member and state.routes:
        return toward(state, key)
    if state.phase is Phase.LEFT and state.successors:
        return state.head, last or is_last(state, state.head, key)
    return None, False


def _arrived(core: Core, now: Time, message: Routed, forward: Forward) -> None:
    state, ring = core.state, core.config.ring
    origin, hops = message.origin.address, message.hops
    if message.rest is None:
        here = ring.keys((message.key,))
        core.out.append(Arrived(message.payload, origin, hops, here))
        return
    core.out.append(Arrived(message.payload, origin, hops, message.rest & state.owned()))
    if (onward := after_stop(state, message.rest)) is not None:
        key, rest = onward
        carry(core, now, replace(message, key=key, rest=rest, last=False), forward)


# -- a region ----------------------------------------------------------------------------------


def received_cast(core: Core, now: Time, message: Cast) -> None:
    learn(core.state, message.origin)
    cast(core, now, message)


def cast(core: Core, now: Time, message: Cast) -> None:
    state = core.state
    if state.phase is Phase.LEFT:
        # The successor owns what was ours and takes our place, unless it is served already.
        if state.successors and state.head.id != message.limit:
            core.out.append(Send(state.head.address, replace(message, hops=message.hops + 1)))
        return
    if mine := message.region & state.owned():
        core.out.append(Arrived(message.payload, message.origin.address, message.hops, mine))
    for branch in _branches(core, message.region, message.limit):
        on = replace(message, region=branch.region, limit=branch.limit, hops=message.hops + 1)
        core.out.append(Send(branch.peer.address, on))
        _probe_if_silent(core, now, branch.peer)


def _branches(core: Core, region: Arcs, limit: int) -> list[Branch]:
    branches = split(core.state, region, limit)
    if core.planted(planted.MULTICAST_TWICE):
        return [branch._replace(limit=limit) for branch in branches]
    return branches


# -- lookups -----------------------------------------------------------------------------------


def received_lookup(core: Core, message: FindSuccessor) -> None:
    """Answered by the owner, or by the member before it, which knows it as its successor."""
    state = core.state
    hop = _lookup_hop(core, message.key)
    if hop is None or is_last(state, hop, message.key):
        owner = state.me if hop is None else hop
        core.out.append(Send(message.asker, FoundSuccessor(message.number, owner)))
    elif message.hops < core.config.hops_max:
        core.out.append(Send(hop.address, replace(message, hops=message.hops + 1)))


def _lookup_hop(core: Core, key: int) -> Peer | None:
    state = core.state
    return state.head if state.phase is Phase.LEFT else next_hop(state, key)


def fingers_due(core: Core) -> None:
    """Look up the next finger; those that need no question are set on the way."""
    core.arm(FINGERS, core.about(core.config.fingers_every_ms))
    if len(core.heard) > HEARD_MAX:
        core.heard.clear()
    state = core.state
    if not state.successors or core.questions.is_open(Purpose.FINGER):
        return
    for _ in range(core.config.bits):
        i, start = core.finger, finger_start(state, core.finger)
        hop = next_hop(state, start)
        if hop is not None and not (hop == state.head and is_last(state, hop, start)):
            _look_up_finger(core, hop, i)
            return
        core.finger = set_finger(state, i, state.me if hop is None else hop)
        if core.finger == 0:
            return


def _look_up_finger(core: Core, hop: Peer, i: int) -> None:
    start, me = finger_start(core.state, i), core.state.me.address
    core.questions.ask(
        core.out,
        Purpose.FINGER,
        hop,
        lambda number: FindSuccessor(number, start, me, hops=1),
        finger=i,
    )


# -- next hops that may be gone ----------------------------------------------------------------


def _probe_if_silent(core: Core, now: Time, hop: Peer) -> None:
    heard = core.heard.get(hop.address)
    if heard is None or now - heard >= core.config.probe_after_ms:
        core.heard[hop.address] = now  # asked: not again for a while
        probe(core, hop)


def probe(core: Core, hop: Peer) -> None:
    core.questions.ask(core.out, Purpose.PROBE, hop, Ping)


def hop_silent(core: Core, hop: Peer) -> None:
    core.state.forget_route(hop)
    core.heard.pop(hop.address, None)


def origin_message(core: Core, key: int, payload: Message, rest: Arcs | None) -> Routed:
    return Routed(key, payload, core.state.me, hops=0, last=False, rest=rest)
