"""What all nodes of a network agree on: the schema, and how things are placed and read by it.

Pure functions with a memory, so nodes in one process may share one vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Dict

from crossroads.errors import EventError
from crossroads.keyspace import Arcs, Ring
from crossroads.mapping.contract import Mapping
from crossroads.matching.definition import Event, matches
from crossroads.model.filter import Filter
from crossroads.model.parse import parse
from crossroads.model.values import canonical, text_of
from crossroads.scheme.cbps.messages import Values

FILTERS_REMEMBERED = 10_000


class Vocabulary:
    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.schema = mapping.schema
        self.ring = Ring(mapping.spec.bits)
        self._filters: dict[str, Filter] = {}

    # -- subscriptions ---------------------------------------------------------------------

    def filter(self, text: str) -> Filter:
        """Raises FilterError."""
        found = self._filters.get(text)
        if found is None:
            if len(self._filters) >= FILTERS_REMEMBERED:
                self._filters.clear()
            found = self._filters[text] = parse(text, self.schema)
        return found

    def region(self, text: str, root_key: int) -> Arcs:
        """SK(σ), with the root's key if it stands at the root."""
        keys = self.mapping.subscription_keys(self.filter(text))
        region = self.ring.ranges(keys.ranges)
        return region | self.ring.keys((root_key,)) if keys.root else region

    def matches(self, text: str, event: Event) -> bool:
        return matches(self.filter(text), event)

    # -- events ----------------------------------------------------------------------------

    def keys(self, event: Event) -> Iterable[int]:
        return self.mapping.event_keys(event)

    def event(self, values: Dict[str, object]) -> Event:
        """As the schema types it. Raises EventError."""
        typed = {}
        for name, value in values.items():
            attribute = self.schema.find(name)
            if attribute is None:
                hint = self.schema.near(name)
                raise EventError(f"no attribute {name!r} in the network's schema", hint=hint)
            try:
                typed[attribute.name] = canonical(attribute.type, value)
            except ValueError as error:
                raise EventError(f"{name}: {error}") from error
        return typed

    def written(self, event: Event) -> Values:
        return {name: text_of(value) for name, value in event.items() if value is not None}

    def read(self, values: Values) -> Event:
        types = self.schema.attribute
        return {name: canonical(types(name).type, text) for name, text in values.items()}
