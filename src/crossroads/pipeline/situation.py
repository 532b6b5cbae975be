"""What is to be done and with what, and the sample from which its cost is foreseen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from crossroads.errors import UsageError
from crossroads.mapping.contract import Mapping
from crossroads.mapping.fit import fit
from crossroads.mapping.sample import Sample
from crossroads.matching.classes import TooDense
from crossroads.matching.index import Matches, MatchIndex
from crossroads.pipeline.keyedsample import KeyedSample

MATCHES_MAX = 1 << 24  # of the sample: more would only cost time


@dataclass(frozen=True)
class Side:
    """How many there are of each, and how large they are on disk."""

    count: int
    bytes: int
    exact: bool = True  # counted; else foreseen from the bytes

    @property
    def row_bytes(self) -> float:
        return self.bytes / max(1, self.count)


@dataclass(frozen=True)
class Situation:
    """What is to be done, and with what."""

    subscriptions: Side
    events: Side
    cores: int  # that work at the same time
    memory: int  # bytes that one host can spare for an index
    local: bool  # all paths are visible to all workers
    shapes: int = 1  # joins that `naive` and `sql` need, one for each shape of filter


@dataclass(frozen=True)
class Surveyed:
    """A situation and the sample that stands for it."""

    situation: Situation
    sample: Sample
    fitted: dict[str, Mapping | str] = field(default_factory=dict)  # or why it could not be
    keys: dict[str, KeyedSample] = field(default_factory=dict)

    @property
    def scale(self) -> float:
        """Subscriptions for each one in the sample."""
        return self.situation.subscriptions.count / max(1, self.sample.filters.size)

    @cached_property
    def index(self) -> MatchIndex:
        return MatchIndex.build(self.sample.filters)

    @property
    def word_searches(self) -> int:
        """Texts of an event that are searched for words, for all of them at once."""
        return sum(one.needles is not None for one in self.index.patterns)

    @property
    def expression_searches(self) -> int:
        """Texts of an event that are searched for expressions, for all of them at once."""
        return sum(one.regexes is not None for one in self.index.patterns)

    @cached_property
    def index_bytes(self) -> float:
        """Per subscription; a small index says little, so at least what ids and names take."""
        return max(64.0, self.index.nbytes / max(1, self.sample.filters.size)) + 40.0

    @cached_property
    def matches(self) -> Matches:
        """Of sampled events with sampled subscriptions; of fewer events where matches are many."""
        rows = self.sample.events.num_rows
        while True:
            try:
                return self.index.match_batch(self.sample.events.slice(0, rows), most=MATCHES_MAX)
            except TooDense:  # never of one event alone
                rows = max(1, rows // 16)

    @property
    def matches_per_event(self) -> float:
        events = self.matches.offsets.size - 1
        return float(self.matches.ordinals.size / max(1, events) * self.scale)

    @cached_property
    def verified_per_event(self) -> float:
        """Pairs that an index cannot decide by ranges alone."""
        events = self.matches.offsets.size - 1
        found = self.index.count_candidates(self.sample.events.slice(0, events))
        return float(found / max(1, events) * self.scale)

    @property
    def index_bytes_in_all(self) -> float:
        return self.situation.subscriptions.count * self.index_bytes

    def mapping(self, name: str) -> Mapping | str:
        if name not in self.fitted:
            try:
                self.fitted[name] = fit(name, self.sample.filters.schema, self.sample)
            except UsageError as error:
                self.fitted[name] = error.message
        return self.fitted[name]

    def keyed(self, name: str) -> KeyedSample | str:
        """The sample's keys under a mapping; or why it could not be fitted."""
        mapping = self.mapping(name)
        if isinstance(mapping, str):
            return mapping
        if name not in self.keys:
            self.keys[name] = KeyedSample.of(mapping, self.sample)
        return self.keys[name]
