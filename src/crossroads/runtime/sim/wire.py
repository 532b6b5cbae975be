"""Carrying messages: from the effect `Send` to the moment at which the message arrives."""

from __future__ import annotations

import random
from collections.abc import Mapping

from crossroads.node import Address, Message, Receive, Time
from crossroads.runtime.sim.agenda import Agenda, Item
from crossroads.runtime.sim.ahead import MESSAGE
from crossroads.runtime.sim.host import Host
from crossroads.runtime.sim.links import Network
from crossroads.runtime.sim.metrics import Metrics


class Wire:
    def __init__(
        self,
        network: Network,
        agenda: Agenda,
        hosts: Mapping[Address, Host],
        metrics: Metrics,
        dice: random.Random,
    ) -> None:
        self._network = network
        self._agenda = agenda
        self._hosts = hosts
        self._metrics = metrics
        self._dice = dice

    def send(self, now: Time, host: Host, to: Address, message: Message) -> None:
        metrics, network = self._metrics, self._network
        kind = type(message)
        payloads = metrics.carriers.get(kind)
        if payloads is not None:
            payloads[type(message.payload)] += 1  # type: ignore[attr-defined]
        elif kind in metrics.plain:
            metrics.plain[kind] += 1
        else:
            metrics.count_first(kind, message)
        receiver = self._hosts.get(to)
        if receiver is None:
            metrics.lost += 1
        elif to == host.address:
            self._in_order(host, now + receiver.slow, (MESSAGE, to, Receive(to, message)))
        elif network.steady:
            at = now + network.default.delay_min + receiver.slow
            self._in_order(host, at, (MESSAGE, to, Receive(host.address, message)))
        else:
            self._through_weather(now, host, receiver, message)

    def _through_weather(self, now: Time, host: Host, receiver: Host, message: Message) -> None:
        """The same for links that delay, lose, repeat or reorder as the dice say."""
        link, dice = self._network.link(host.address, receiver.address), self._dice
        if link is None or dice.random() < link.loss:
            self._metrics.lost += 1
            return
        item = (MESSAGE, receiver.address, Receive(host.address, message))
        spread = link.delay_max - link.delay_min
        at = now + receiver.slow + link.delay_min + dice.randrange(spread + 1)
        if dice.random() < link.reordering:
            self._agenda.put(at + 1 + dice.randrange(link.held_back_max), item)
        else:
            self._in_order(host, at, item)
        if dice.random() < link.duplication:
            self._metrics.repeated += 1
            self._agenda.put(at + dice.randrange(link.held_back_max), item)

    def _in_order(self, host: Host, at: Time, item: Item) -> None:
        """Not before the message that went there last, nor at the same time but ahead of it."""
        arrivals, to = host.last_arrival, item[1]
        last = arrivals.get(to, -1)
        if last >= at:
            self._agenda.put_behind(last, item)
        else:
            arrivals[to] = at
            self._agenda.put(at, item)
