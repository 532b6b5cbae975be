"""A new mapping for all, while the network runs (CHORD 4.2: nearly static mappings).

Someone announces it (`Remap`); the word goes to every member by m-cast, and from then on along the
ring: whoever compares copies with a neighbour that has not heard of it yet sends it the word. Those
who have heard it serve both mappings until the time of overlap is over (`specs`).
"""

from __future__ import annotations

from crossroads.node import Address, Command, Log, Time
from crossroads.scheme.cbps.core import Core
from crossroads.scheme.cbps.messages import Compare, Remapped
from crossroads.scheme.cbps.publisher import Publisher
from crossroads.scheme.cbps.subscriber import Subscriber


class Remap(Command, frozen=True, gc=False):
    spec: str  # a MappingSpec as JSON, for the same schema and keys
    overlap: Time  # milliseconds for which both are in service: leases and word of mouth, and more


class Remapping:
    def __init__(self, core: Core, subscriber: Subscriber, publisher: Publisher) -> None:
        self._core = core
        self._subscriber = subscriber
        self._publisher = publisher
        self._word: Remapped | None = None  # the last that was heard

    def announce(self, now: Time, command: Remap) -> None:
        core = self._core
        word = Remapped(core.specs.epoch + 1, command.spec, now + command.overlap)
        self.heard(now, word)
        core.cast(now, core.ring.whole, word, "multicast")

    def heard(self, now: Time, word: Remapped) -> None:
        core = self._core
        if core.specs.change(word.epoch, word.spec, word.overlap_until):
            self._word = word
            core.out.append(Log(f"mapping {word.epoch} is in service"))
            core.arm(("overlap",), word.overlap_until - now)
            self._publisher.moved(now)
            self._subscriber.moved(now)

    def overlap_over(self, now: Time) -> None:
        if self._core.specs.overlap_over(now):
            self._subscriber.moved(now)

    def is_behind(self, sender: Address, epoch: int) -> bool:
        """Has the sender a later mapping? Then what it said has to wait until this node has it,
        too: who knows the old one only has not asked everyone whom it should."""
        core = self._core
        if epoch <= core.specs.epoch:
            return False
        # Comparing nothing tells the sender so, and it answers with the word.
        core.send(sender, Compare(core.ring.empty, 0, core.specs.epoch))
        return True

    def compared(self, sender: Address, message: Compare) -> None:
        """Tell one who is behind, or be told."""
        if message.epoch < self._core.specs.epoch and self._word is not None:
            self._core.send(sender, self._word)
        else:
            self.is_behind(sender, message.epoch)
