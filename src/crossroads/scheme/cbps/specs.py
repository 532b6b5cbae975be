"""Which mappings are in service: one, or two while the one replaces the other (CHORD 4.2).

A mapping that is nearly static may change now and then, to cool a hot spot. While two are in
service a subscription stands where either of them puts it, and an event visits the keys of both: so
it does not matter who has heard of the change and who has not. Once the time of overlap is over,
the old one is dropped.
"""

from __future__ import annotations

from crossroads.keyspace import Arcs, Ring
from crossroads.mapping.fit import mapping_of
from crossroads.mapping.spec import MappingSpec
from crossroads.matching.definition import Event
from crossroads.node import Time
from crossroads.scheme.cbps.vocabulary import Vocabulary


class Specs:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.epoch = 0  # how many changes there have been
        self.current = vocabulary
        self.old: Vocabulary | None = None
        self.overlap_until: Time = 0

    @property
    def ring(self) -> Ring:
        return self.current.ring

    @property
    def stride(self) -> int:
        """With two mappings no key can be left out."""
        return self.current.mapping.stride if self.old is None else 1

    def change(self, epoch: int, spec: str, overlap_until: Time) -> bool:
        """Is it news?"""
        if epoch <= self.epoch:
            return False
        mapping = mapping_of(MappingSpec.from_json(spec), self.current.schema)
        assert mapping.spec.bits == self.ring.bits, "a new mapping has the keys of the old one"
        self.epoch, self.overlap_until = epoch, overlap_until
        self.old, self.current = self.current, Vocabulary(mapping)
        return True

    def overlap_over(self, now: Time) -> bool:
        """Has the old mapping just been dropped?"""
        if self.old is None or now < self.overlap_until:
            return False
        self.old = None
        return True

    def region(self, text: str, root_key: int) -> Arcs:
        """Raises FilterError."""
        region = self.current.region(text, root_key)
        return region if self.old is None else region | self.old.region(text, root_key)

    def keys(self, event: Event, root_key: int | None) -> Arcs:
        """`root_key`: None if no subscription can be at the root."""
        keys = set(self.current.keys(event))
        if self.old is not None:
            keys |= set(self.old.keys(event))
        if root_key is not None:
            keys.add(root_key)
        return self.ring.keys(keys)
