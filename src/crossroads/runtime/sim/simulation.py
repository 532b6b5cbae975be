"""The deterministic simulator: runs protocol nodes in virtual time, and is its seed.

    simulation = Simulation(seed=7, link=Link(delay_min=40, delay_max=60))
    for name in ("n1", "n2"):
        simulation.add(name, lambda address, dice: MyNode(address, dice))
    simulation.command("n1", Join(None))
    simulation.at(2_000, lambda: simulation.crash("n2"))
    simulation.run(until=10_000)
    simulation.trace.digest()        the same for the same seed, in any process

It keeps the rules of `crossroads.node`. Time is in whole milliseconds and stands still while a node
thinks; what is due at one time happens in an order drawn from the seed (see `agenda`). A message on
the wire outlives the crash of its sender, and reaches whoever is up at its address when it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crossroads.errors import NotQuiet, UsageError
from crossroads.node import (
    Address,
    CancelTimer,
    Command,
    Deliver,
    Delivery,
    Effect,
    Fired,
    Input,
    Log,
    Node,
    Persist,
    Persisted,
    Send,
    SetTimer,
    Started,
    Time,
)
from crossroads.runtime.sim.agenda import Agenda, Item
from crossroads.runtime.sim.ahead import (
    DURABLE,
    MESSAGE,
    TIMER,
    Background,
    channel_of,
    foreground,
    in_words,
    nothing_is_background,
)
from crossroads.runtime.sim.host import Factory, Host, dice_for
from crossroads.runtime.sim.links import Link, Network
from crossroads.runtime.sim.metrics import Metrics
from crossroads.runtime.sim.trace import Trace
from crossroads.runtime.sim.wire import Wire

ROUNDS_MAX = 10_000  # buckets of one millisecond; more means that nodes talk without time passing
QUIET_CHECKED_EVERY_MS = 100
MID_STEP_MS_MAX = 1_000

Action = Callable[[], None]


class Simulation:
    """One thread only. `seed` and the calls made on it decide everything that happens."""

    def __init__(
        self,
        seed: int,
        *,
        link: Link | None = None,
        keep_trace: bool = False,
        background: Background = nothing_is_background,
    ) -> None:
        """`background`: what belongs to endless maintenance (see `run_until_quiet`)."""
        self.seed = seed
        self.now: Time = 0
        self.network = Network(link)
        self.trace = Trace(keep=keep_trace)
        self.metrics = Metrics()
        # Hooks look on; what they want to change they put on the agenda with `at`.
        self.on_command: list[Callable[[Time, Address, Command], None]] = []
        self.on_delivery: list[Callable[[Time, Address, Delivery], None]] = []
        self.on_life: list[Callable[[Time, Address, bool], None]] = []  # True: up, False: crashed
        self.on_log: Callable[[Time, Address, str], None] | None = None
        self.after_input: Callable[[Time, Node], None] | None = None  # to check invariants
        self._background = background
        self._hosts: dict[Address, Host] = {}
        self._agenda = Agenda(dice_for(seed, "ties"), channel_of)
        self._actions: dict[Time, list[Action]] = {}
        self._wire = Wire(
            self.network, self._agenda, self._hosts, self.metrics, dice_for(seed, "wire")
        )
        self._crashes = dice_for(seed, "crashes")
        self._timer_number = 0

    # -- nodes -----------------------------------------------------------------------------

    def add(self, address: Address, factory: Factory) -> None:
        """A new node on a new disk, started now. `factory` is called again at each restart."""
        if address in self._hosts:
            raise UsageError(f"there is already a node {address}", hint="restart it instead")
        self._hosts[address] = Host(address, factory)
        self._start(self._hosts[address])

    def crash(self, address: Address, *, mid_step: bool = False) -> None:
        """The node is gone at once, or in the middle of the effects of its next input.

        If no input comes, it is gone after a second all the same.
        """
        host = self._up(address)
        if not mid_step:
            self._end(host)
            return
        host.cut_next, life = True, host.life

        def at_last() -> None:
            if host.life == life and host.node is not None:
                self._end(host)

        self.at(self.now + MID_STEP_MS_MAX, at_last)

    def restart(self, address: Address, *, disk: bool = True) -> None:
        host = self._host(address)
        if host.node is not None:
            raise UsageError(f"{address} is up", hint="crash it first")
        if not disk:
            host.disk.wipe()
        self._start(host)

    def set_slow(self, address: Address, delay: Time) -> None:
        """From now on everything reaches this node so many milliseconds later."""
        self._host(address).slow = delay

    def set_slow_disk(self, address: Address, delay: Time) -> None:
        self._host(address).disk.delay = delay

    def node(self, address: Address) -> Node | None:
        """None while it is down."""
        host = self._hosts.get(address)
        return host.node if host else None

    def addresses(self) -> tuple[Address, ...]:
        """All nodes that were ever added, in that order."""
        return tuple(self._hosts)

    def nodes(self) -> list[Node]:
        """Those that are up."""
        return [host.node for host in self._hosts.values() if host.node is not None]

    # -- what happens from outside ---------------------------------------------------------

    def command(self, address: Address, command: Command) -> None:
        """Now. The effects are carried out before this returns."""
        host = self._up(address)
        self.trace.add_named(self.now, "command", address, command)
        self.metrics.commanded(self.now, command)
        for hook in self.on_command:
            hook(self.now, address, command)
        self._tell(host, command)

    def at(self, time: Time, action: Action) -> None:
        """Do it at that time: before everything else due then, and in the order of these calls."""
        if time < self.now:
            raise UsageError(f"it is {self.now} ms already, {time} is past")
        self._actions.setdefault(time, []).append(action)
        self._agenda.put(time, ())

    # -- time ------------------------------------------------------------------------------

    def run(self, *, until: Time) -> None:
        """Everything due up to and including that time; then it is that time."""
        rounds = 0
        while (time := self._agenda.next_time()) is not None and time <= until:
            rounds = rounds + 1 if time == self.now else 0
            if rounds > ROUNDS_MAX:
                raise NotQuiet(f"time stands still at {time} ms: {self._in_flight()}")
            self.now = time
            self._run_bucket(self._agenda.take())
        self.now = max(self.now, until)

    def run_for(self, milliseconds: Time) -> None:
        self.run(until=self.now + milliseconds)

    def run_until_quiet(self, *, within: Time, idle: Callable[[], bool] | None = None) -> Time:
        """Run until things are quiet; the time at which they were found so.

        Quiet is: no action planned with `at`, no write under way, no message and no timer ahead
        except those of the background, and `idle()`, if given, says yes. Looked at every 100 ms.
        Raises NotQuiet, with what is still in flight, after `within` milliseconds.
        """
        bound = self.now + within
        while True:
            if self._nothing_ahead() and (idle is None or idle()):
                return self.now
            if self.now >= bound:
                waiting = "" if idle is None or idle() else "; the caller still waits for something"
                raise NotQuiet(
                    f"not quiet after {within} ms, stopped at {self.now} ms: "
                    f"{self._in_flight()}{waiting}"
                )
            self.run(until=min(bound, self.now + QUIET_CHECKED_EVERY_MS))

    def observe(self) -> Metrics:
        """The metrics, brought up to date."""
        for address, host in self._hosts.items():
            self.metrics.received[address] = host.received
            stored, evaluated = (getattr(host.node, name, None) for name in ("stored", "evaluated"))
            if stored is not None and evaluated is not None:
                self.metrics.holds(address, stored=stored(), evaluated=evaluated())
        return self.metrics

    # -- inputs ----------------------------------------------------------------------------

    def _run_bucket(self, items: list[Item]) -> None:
        now, hosts, trace = self.now, self._hosts, self.trace.add
        for action in self._actions.pop(now, ()):
            action()
        for item in items:
            if not item:  # only marks the time of an action
                continue
            host = hosts[item[1]]
            node = host.node
            what = item[0]
            if what == MESSAGE:
                if node is None:
                    self.metrics.lost += 1
                    continue
                receive = item[2]
                host.received += 1
                trace(now, receive.sender, item[1], receive.message)
                self._tell(host, receive)
            elif what == TIMER:
                timer = item[2]
                if host.timers.get(timer) == item[3]:
                    del host.timers[timer]
                    trace(now, "timer", item[1], timer)
                    self._tell(host, Fired(timer))
            elif host.life == item[2] and node is not None:
                token = host.disk.complete()
                trace(now, "durable", item[1], token)
                self._tell(host, Persisted(token))

    def _tell(self, host: Host, item: Input) -> None:
        node = host.node
        assert node is not None
        effects = node.handle(self.now, item)
        if host.cut_next:
            self._carry_out(host, effects[: self._crashes.randrange(len(effects) + 1)])
            self._end(host)
            return
        if effects:
            self._carry_out(host, effects)
        if self.after_input is not None:
            self.after_input(self.now, node)

    def _start(self, host: Host) -> None:
        host.begin_life(self.seed)
        self.trace.add(self.now, "start", host.address, host.life)
        for hook in self.on_life:
            hook(self.now, host.address, True)
        self._tell(host, Started(host.disk.records()))

    def _end(self, host: Host) -> None:
        host.end_life(self._crashes)
        self.trace.add(self.now, "crash", host.address, host.life)
        for hook in self.on_life:
            hook(self.now, host.address, False)

    # -- effects ---------------------------------------------------------------------------

    def _carry_out(self, host: Host, effects: Sequence[Effect]) -> None:
        now, send = self.now, self._wire.send
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                send(now, host, effect.to, effect.message)  # type: ignore[union-attr]
            elif kind is SetTimer:
                self._set_timer(host, effect)  # type: ignore[arg-type]
            elif kind is CancelTimer:
                host.timers.pop(effect.timer, None)  # type: ignore[union-attr]
            else:
                self._rarely(host, effect)

    def _rarely(self, host: Host, effect: Effect) -> None:
        match effect:
            case Deliver(what):
                self.trace.add_named(self.now, "deliver", host.address, what)
                self.metrics.delivered(self.now, what)
                for hook in self.on_delivery:
                    hook(self.now, host.address, what)
            case Persist():
                before = host.disk.busy_until()
                at = host.disk.begin(self.now, effect)
                put = self._agenda.put_behind if at == before else self._agenda.put
                put(at, (DURABLE, host.address, host.life))
            case Log(text):
                if self.on_log is not None:
                    self.on_log(self.now, host.address, text)
            case _:
                raise AssertionError(f"{host.address} asked for {effect!r}, which is no effect")

    def _set_timer(self, host: Host, effect: SetTimer) -> None:
        assert effect.after >= 0, (host.address, effect)
        self._timer_number = number = self._timer_number + 1
        host.timers[effect.timer] = number
        at = self.now + effect.after + host.slow
        self._agenda.put(at, (TIMER, host.address, effect.timer, number))

    # -- what is ahead ---------------------------------------------------------------------

    def _nothing_ahead(self) -> bool:
        return not any(True for _ in foreground(self._agenda, self._hosts, self._background))

    def _in_flight(self) -> str:
        return in_words(foreground(self._agenda, self._hosts, self._background))

    # -- hosts -----------------------------------------------------------------------------

    def _host(self, address: Address) -> Host:
        if address not in self._hosts:
            raise UsageError(f"there is no node {address}")
        return self._hosts[address]

    def _up(self, address: Address) -> Host:
        host = self._host(address)
        if host.node is None:
            raise UsageError(f"{address} is down", hint="restart it first")
        return host
