"""Keeping the ring whole: stabilise and rectify, as corrected by P. Zave (ERRATA 4).

**Stabilise**, every now and then: ask the first successor for its neighbours. Its list, behind
itself, is the new successor list. If it names a predecessor between the two, ask that one as well;
only once it answers is it the new first successor. At the end the first successor is notified.
A first successor that does not answer is dropped, and the next one asked at once.

**Rectify**, when notified: a notifier between the predecessor and oneself is the new predecessor,
once it answers a ping: its word may be late, and itself gone. Any other is taken only if the old
predecessor is pinged and does not answer.

So a member's first successor has always answered it, or was in the list of one that did, and the
invariant (`invariant`) is kept: every change of pointers looks as if it happened at one moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from crossroads.node import Address, Send
from crossroads.overlay.chord import planted
from crossroads.overlay.chord.core import STABILISE, Core
from crossroads.overlay.chord.messages import Neighbours, Notify, Peer, Ping
from crossroads.overlay.chord.questions import Purpose, Question
from crossroads.overlay.chord.state import Phase

# -- stabilise ---------------------------------------------------------------------------------


def stabilise_due(core: Core) -> None:
    """The timer fired: once more, unless a question is open that may change pointers."""
    core.arm(STABILISE, core.about(core.config.stabilise_every_ms))
    if core.state.successors and core.questions.pending is None:
        core.ask_neighbours(Purpose.SUCCESSOR, core.state.head)


def successor_answered(core: Core, head: Peer, answer: Neighbours) -> None:
    state = core.state
    if core.planted(planted.SHORT_SUCCESSOR_LIST):
        changed = state.set_successors((head, *state.successors[1:2]))
    else:
        changed = state.follow(head, answer.successors)
    if changed:
        core.replicas_changed()
    closer = answer.predecessor
    if closer is not None and state.between(state.me.id, closer.id, head.id):
        if core.planted(planted.ADOPT_UNANSWERED_SUCCESSOR):
            state.set_successors((closer, *state.successors))
            core.replicas_changed()
            _notify(core)
        else:
            core.ask_neighbours(Purpose.CANDIDATE, closer)
        return
    _notify(core)
    _leave_if_confirmed(core, closer)


def candidate_answered(core: Core, candidate: Peer, answer: Neighbours) -> None:
    """Alive, and between this member and the first successor: it is the new first successor."""
    if core.state.follow(candidate, answer.successors):
        core.replicas_changed()
    _notify(core)
    _ask_again_to_leave(core)


def candidate_silent(core: Core, candidate: Peer) -> None:
    """The first successor's predecessor is gone, and it does not know yet: notified, it will."""
    core.state.forget_route(candidate)
    candidate_not_taken(core)


def candidate_not_taken(core: Core) -> None:
    """Silent or busy: the first successor stays what it is for now."""
    _notify(core)
    _ask_again_to_leave(core)


def successor_silent(core: Core, head: Peer) -> None:
    """The first successor is gone: on with the next. The list is the reason why there is one."""
    state = core.state
    was_closed = state.closed
    if state.drop_successor(head):
        core.replicas_changed()
    if state.successors:
        core.ask_neighbours(Purpose.SUCCESSOR, state.head)
    elif was_closed:
        _stay_alone(core)
    elif state.routes:
        # More failed at once than the contract allows. Rather than fall out of the ring, and take
        # those before it along, start from the nearest finger and walk back by predecessors.
        state.set_successors(state.routes[:1])
        core.ask_neighbours(Purpose.SUCCESSOR, state.head)
    else:
        core.outside("no successor answers: more neighbours failed at once than it knew")


def successor_busy(core: Core) -> None:
    core.arm(STABILISE, core.about(core.config.busy_retry_ms))


def _notify(core: Core) -> None:
    core.out.append(Send(core.state.head.address, Notify(core.state.me)))


def _stay_alone(core: Core) -> None:
    """The list went once around the ring, and nobody on it answers: this member is the ring."""
    state = core.state
    before = state.owned()
    state.set_predecessor(state.me)
    if more := state.owned() - before:
        core.gained(more, None)
    if state.phase is Phase.LEAVING:
        core.depart()


# -- rectify -----------------------------------------------------------------------------------


def notified(core: Core, by: Peer) -> None:
    state, old, pending = core.state, core.state.predecessor, core.questions.pending
    if not state.is_member or old is None or by in (old, state.me):
        return
    if pending is not None:
        # Dropped while busy: it comes again with the notifier's next stabilisation. But if the old
        # predecessor is being pinged, the one nearest to it will be the new one.
        other = pending.about
        if other is not None and state.between(other.id, by.id, old.id):
            pending.about = by
        return
    is_closer = state.between(old.id, by.id, state.me.id)
    if core.planted(planted.RECTIFY_WITHOUT_PING):
        if is_closer:
            closer_answered(core, by)
        else:
            _take_over_from(core, old, by)
    elif is_closer:
        core.questions.ask(core.out, Purpose.CLOSER_PREDECESSOR, by, Ping)
    else:
        core.questions.ask(core.out, Purpose.OLD_PREDECESSOR, old, Ping, about=by)


def closer_answered(core: Core, closer: Peer) -> None:
    state, old = core.state, core.state.predecessor
    assert old is not None
    if state.between(old.id, closer.id, state.me.id):
        state.set_predecessor(closer)
        core.lost(state.config.ring.arc(old.id, closer.id), closer.address)


def old_predecessor_silent(core: Core, question: Question) -> None:
    notifier = question.about
    assert notifier is not None
    if core.state.predecessor == question.to:
        _take_over_from(core, question.to, notifier)


def _take_over_from(
    core: Core, gone: Peer, before: Peer, taken_from: Address | None = None
) -> None:
    """What the predecessor owned belongs to this member now, back to the one before it."""
    state = core.state
    state.forget_route(gone)
    state.set_predecessor(before)
    core.gained(state.config.ring.arc(before.id, gone.id), taken_from)


# -- a neighbour leaves ------------------------------------------------------------------------


def forget_pings_of(core: Core, leaver: Peer) -> None:
    """A predecessor, old or to be, has gone: its answer, if any, is out of date."""
    pending = core.questions.pending
    pings = (Purpose.OLD_PREDECESSOR, Purpose.CLOSER_PREDECESSOR)
    if pending is not None and pending.to == leaver and pending.purpose in pings:
        core.questions.close(core.out, pending)


def predecessor_left(core: Core, leaver: Peer, before: Peer) -> None:
    """Its keys come here, and its state with them, as if it had failed but better."""
    _take_over_from(core, leaver, before, leaver.address)


def successor_left(core: Core, leaver: Peer, its_list: Sequence[Peer]) -> None:
    """Announced, so nobody has to wait for its silence. What followed it follows this member: its
    list skips no one that the two lists together did not."""
    state, pending = core.state, core.questions.pending
    if pending is not None and pending.purpose in (Purpose.SUCCESSOR, Purpose.CANDIDATE):
        core.questions.close(core.out, pending)  # its answer could bring the leaver back
        core.arm(STABILISE, core.about(core.config.busy_retry_ms))
    state.forget_route(leaver)
    if state.set_successors(its_list):
        core.replicas_changed()
    if not state.successors:
        _stay_alone(core)


# -- leaving -----------------------------------------------------------------------------------


def _leave_if_confirmed(core: Core, successors_predecessor: Peer | None) -> None:
    """In good order: the successor has this member as its predecessor, so it will take over."""
    if core.state.phase is not Phase.LEAVING:
        return
    if successors_predecessor == core.state.me:
        core.depart()
    else:
        _ask_again_to_leave(core)


def _ask_again_to_leave(core: Core) -> None:
    if core.state.phase is not Phase.LEAVING:
        return
    core.rounds += 1
    if core.rounds >= core.config.leave_rounds_max:
        core.depart()
    else:
        core.arm(STABILISE, core.about(core.config.busy_retry_ms))
