"""Coming and going, and who owns what meanwhile.

**Join**: look up one's own id; ask its owner to be taken in (`Enter`). The owner, if free, makes
the newcomer its predecessor and answers with its old predecessor and its successors (`Entered`).
With the answer the newcomer is a member: it has a first successor that answered, that one's list
behind it, a predecessor, and owns (predecessor, itself].

**Leave**: stabilise until the first successor confirms this member as its predecessor, then tell
both neighbours (`Leaving`) and go. The successor takes over at once. A leave is a failure that is
announced: if the word is lost, it is repaired like one.

Who owns a key while it changes hands, if nobody fails:

- To a newcomer: the old owner stops with the answer `Entered`, the newcomer begins when it gets it.
  In between nobody delivers: what comes for these keys is sent to the newcomer, which keeps it
  until it is a member, because a payload may overtake the answer.
- From one that leaves: it stops before it sends `Leaving`, its successor begins when it gets it. In
  between payloads are sent on to the successor, behind `Leaving` on the same link; one that
  overtakes it is sent back and forth until the word is there.

So no two members deliver for the same key. When a member fails, its successor takes over after it
pinged it in vain; if the one that failed had just taken in a newcomer that nobody else knows, both
may own the newcomer's keys for a moment, until it notifies. (With the presets it seldom comes to
that: the newcomer notices too, while the silent one is still being pinged, `silence_ms` long.)

State moves above the overlay. `OwnedChanged` says at both ends what moved and where the other is;
`given_to` may itself have gone meanwhile, so the layer above sees its hand-over acknowledged, or
sends it on by key. After `Left` the node still passes payloads on; it may be switched off when the
layer above has handed over everything.
"""

from __future__ import annotations

from msgspec.structs import replace

from crossroads.node import Address, CancelTimer, Log, Message, Send
from crossroads.overlay.chord import planted, upkeep
from crossroads.overlay.chord.core import FINGERS, REJOIN, STABILISE, Core
from crossroads.overlay.chord.messages import (
    Busy,
    Elsewhere,
    Enter,
    Entered,
    FindSuccessor,
    Leaving,
    Peer,
    Refused,
)
from crossroads.overlay.chord.questions import Purpose
from crossroads.overlay.chord.state import Phase
from crossroads.overlay.contract import Joined

# -- the newcomer ------------------------------------------------------------------------------


def join(core: Core, contact: Address | None) -> None:
    state = core.state
    if state.phase not in (Phase.OUTSIDE, Phase.LEFT):
        core.out.append(Log(f"{state.phase.value} already: asked to join in vain"))
        return
    core.welcome = None
    if contact is None:
        state.set_phase(Phase.MEMBER)
        state.set_predecessor(state.me)
        state.set_successors((state.me,))
        core.out.append(Joined())
        core.gained(state.owned(), None)
        core.arm_upkeep()
        return
    state.set_phase(Phase.JOINING)
    state.set_predecessor(None)
    state.set_successors(())
    core.contact, core.rounds = contact, 0
    look_up_place(core)


def look_up_place(core: Core) -> None:
    assert core.contact is not None
    if core.state.phase is not Phase.JOINING:
        return
    core.rounds += 1
    if core.rounds > core.config.join_rounds_max:
        core.outside(f"found no way into the ring through {core.contact}")
        return
    me = core.state.me
    core.questions.ask(
        core.out,
        Purpose.PLACE,
        Peer(-1, core.contact),  # its place is not known, and does not matter
        lambda number: FindSuccessor(number, me.id, me.address, hops=1),
    )


def try_later(core: Core) -> None:
    core.arm(REJOIN, core.about(core.config.busy_retry_ms * 4))


def enter_at(core: Core, successor: Peer) -> None:
    me = core.state.me
    if successor.address == me.address:
        # Someone remembers this node's former life. Asked, it says that it is no member.
        try_later(core)
    elif successor.id == me.id:
        core.outside(f"{successor.address} has the same place on the ring")
    else:
        core.questions.ask(core.out, Purpose.ENTER, successor, lambda number: Enter(number, me))


def entered(core: Core, successor: Peer, answer: Entered) -> None:
    state = core.state
    state.set_predecessor(answer.predecessor)
    if core.planted(planted.JOIN_WITHOUT_LIST):
        state.set_successors((successor,))
    else:
        # A ring of one has no list; it closes at the newcomer.
        state.set_successors((successor, *(answer.successors or (state.me,))))
    state.set_phase(Phase.MEMBER)
    core.out.append(Joined())
    core.gained(state.owned(), successor.address)
    core.arm_upkeep()


# -- the member that takes it in ---------------------------------------------------------------


def asked_to_enter(core: Core, message: Enter) -> Message:
    state, newcomer, old = core.state, message.newcomer, core.state.predecessor
    if newcomer.id == state.me.id:
        return Refused(message.number)
    if core.welcome is not None:
        welcomed, answer = core.welcome
        if welcomed == newcomer and answer.number == message.number:
            return answer  # the answer was lost, or the question came twice
    if core.questions.pending is not None or old is None or newcomer == old:
        # The predecessor, asking to come in: it crashed and begins a new life, in which it does not
        # know what it owned. Its old life has to be found dead first, by the one before it.
        return Busy(message.number)
    if not state.between(old.id, newcomer.id, state.me.id):
        return Elsewhere(message.number, old)
    answer = Entered(message.number, old, _list_for(core, newcomer))
    core.welcome = (newcomer, answer)
    if not core.planted(planted.OWN_AFTER_HANDOVER):
        state.set_predecessor(newcomer)
        core.lost(state.config.ring.arc(old.id, newcomer.id), newcomer.address)
    if not state.successors and state.set_successors((newcomer, state.me)):
        # A ring of one has become a ring of two: the newcomer is its successor as well.
        core.replicas_changed()
    return answer


def _list_for(core: Core, newcomer: Peer) -> tuple[Peer, ...]:
    """Our successors as the newcomer may have them: it may be among them from a former life."""
    return tuple(peer for peer in core.state.successors if peer.address != newcomer.address)


# -- leaving -----------------------------------------------------------------------------------


def leave(core: Core) -> None:
    state = core.state
    if state.phase in (Phase.OUTSIDE, Phase.JOINING):
        core.outside("asked to leave")
    elif state.phase is Phase.MEMBER:
        core.rounds = 0
        if not state.successors:
            core.depart()
            return
        state.set_phase(Phase.LEAVING)
        core.arm(STABILISE, 0)


def left(core: Core) -> None:
    """No more upkeep; questions still open are closed already."""
    core.out += [CancelTimer(STABILISE), CancelTimer(FINGERS), CancelTimer(REJOIN)]


def told_of_leaving(core: Core, message: Leaving) -> None:
    """From the predecessor, from the first successor, or from both in a ring of two."""
    state, leaver, old = core.state, message.leaver, core.state.predecessor
    if leaver == state.me or old is None:
        return
    if state.phase is Phase.LEFT:
        # This node has left as well; those beside it are the ones to know, if they are still there.
        if message.passed_on < core.config.successors:
            to = old if leaver == state.head else state.head
            on = replace(message, passed_on=message.passed_on + 1)
            core.out.append(Send(to.address, on))
        return
    if not state.is_member:
        return
    upkeep.forget_pings_of(core, leaver)
    if old == leaver:
        upkeep.predecessor_left(core, leaver, message.predecessor)
    elif message.successors[:1] == (state.me,) and state.between(leaver.id, old.id, state.me.id):
        # A newcomer came in between: it is the leaver's successor and owns what it leaves.
        core.out.append(Send(old.address, message))
    if state.is_member and leaver == state.head:
        upkeep.successor_left(core, leaver, message.successors)
