"""The compiled subscription set: events in, matching subscriptions out; equal to the definition.

    index = MatchIndex.build(read_filters(texts, schema))
    matches = index.match_batch(events)          # Arrow in
    matches.of(0)                                # ordinals of the subscriptions event 0 matches

A batch of events is turned into int32 codes, the classes of boxes (`classes`) emit subscriptions
and candidates, patterns emit candidates (`automaton`), candidates are verified (`checks`) and each
pair is reported once. An index is immutable: any number of threads may match with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from crossroads.matching.automaton import ContainsAutomaton, RegexSet
from crossroads.matching.batch import Batch, batch_of_event
from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.checks import CheckGroup
from crossroads.matching.class_build import Empty
from crossroads.matching.classes import ClassIndex, build_classes
from crossroads.matching.coders import Coder
from crossroads.matching.compile import compile_filters
from crossroads.matching.patternkeys import PatternKeys
from crossroads.model.atoms import Dimension
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Type, Value


@dataclass(frozen=True)
class Matches:
    """Ordinals of event e: `ordinals[offsets[e]:offsets[e + 1]]`, each once, in no set order."""

    offsets: Int64Array
    ordinals: Int32Array

    def of(self, event: int) -> Int32Array:
        return self.ordinals[self.offsets[event] : self.offsets[event + 1]]

    @property
    def events(self) -> Int32Array:
        """The event of each pair, aligned with `ordinals`."""
        counts = np.diff(self.offsets)
        return np.repeat(np.arange(counts.size, dtype=np.int32), counts)


@dataclass(frozen=True)
class Candidates:
    """What a candidate stands for: its subscription, and what remains to be verified."""

    owners: Int32Array
    groups: Int32Array
    rows: Int32Array
    checks: Sequence[CheckGroup]


@dataclass(frozen=True)
class PatternFinder:
    """Finds the candidates of one attribute by the text of its values."""

    attribute: str
    needles: ContainsAutomaton | None
    needle_candidates: Int32Array
    regexes: RegexSet | None
    regex_candidates: Int32Array

    @classmethod
    def of(cls, attribute: str, keys: PatternKeys) -> PatternFinder:
        return cls(
            attribute,
            ContainsAutomaton.build(keys.needles) if keys.needles else None,
            np.array(keys.needle_candidates, np.int32),
            RegexSet(keys.regexes) if keys.regexes else None,
            np.array(keys.regex_candidates, np.int32),
        )

    def find(self, batch: Batch) -> tuple[Int64Array, Int32Array]:
        """Pairs (event, candidate)."""
        text = batch.text(self.attribute)
        pairs: list[tuple[Int64Array, Int32Array]] = []
        if self.needles is not None:
            offsets, hits = self.needles.hits(*text.buffers)
            pairs.append(_spread(text.index, offsets, self.needle_candidates[hits]))
        if self.regexes is not None:
            offsets, hits = self.regexes.hits(text.values.to_pylist())
            pairs.append(_spread(text.index, offsets, self.regex_candidates[hits]))
        events, candidates = zip(*pairs, strict=True)
        return np.concatenate(events), np.concatenate(candidates)


class MatchIndex:
    """A compiled subscription set. Ordinals are places in the table it was built from."""

    def __init__(
        self,
        schema: Schema,
        size: int,
        dimensions: list[tuple[Dimension, Type]],
        coders: list[Coder],
        classes: ClassIndex,
        candidates: Candidates,
        patterns: list[PatternFinder],
    ) -> None:
        self.schema = schema
        self.size = size
        self.dimensions = dimensions
        self.coders = coders
        self.classes = classes
        self.candidates = candidates
        self.patterns = patterns

    @classmethod
    def build(cls, table: FilterTable, *, threads: int = 1, empty: Empty = np.empty) -> MatchIndex:
        """Compile. Rows with errors match nothing. The index is the same for any `threads`; its
        large arrays are made by `empty`."""
        compiled = compile_filters(table, threads)
        return cls(
            table.schema,
            table.size,
            compiled.dimensions,
            compiled.coders,
            build_classes(
                compiled.boxes, [coder.size for coder in compiled.coders], threads, empty
            ),
            Candidates(compiled.owners, compiled.groups, compiled.rows, tuple(compiled.checks)),
            [PatternFinder.of(name, keys) for name, keys in compiled.patterns.items()],
        )

    @classmethod
    def of(cls, schema: Schema, filters: Iterable[Filter]) -> MatchIndex:
        """From filters that are trees already; their places are the ordinals."""
        singles = dict(enumerate(filters))
        return cls.build(FilterTable(schema, len(singles), singles=singles))

    def match(self, event: Mapping[str, Value]) -> list[int]:
        """Ordinals for one event, ascending."""
        found = self._match(batch_of_event(self.schema, event))
        return sorted(found.ordinals.tolist())

    def match_batch(self, events: pa.Table | pa.RecordBatch, *, most: int | None = None) -> Matches:
        """Of a table whose columns are those of `Schema.arrow` (others are ignored).

        `classes.TooDense` if several events have over `most` matches together.
        """
        return self._match(Batch(self.schema, events), most)

    def count_candidates(self, events: pa.Table) -> int:
        """Pairs of an event and an alternative of a filter that are verified one by one, because
        boxes alone do not decide them."""
        if not self.candidates.owners.size:
            return 0
        batch = Batch(self.schema, events)
        _, _, found, _ = self._found(batch, *self.classes.match(self._codes(batch)))
        return int(found.size)

    @property
    def nbytes(self) -> int:
        """Of the arrays that matching reads (texts of checks not counted)."""
        coded = sum(a.nbytes for coder in self.coders for a in coder.arrays().values())
        return self.classes.nbytes + coded + 3 * self.candidates.owners.nbytes

    # -- inside ------------------------------------------------------------------------------

    def _match(self, batch: Batch, most: int | None = None) -> Matches:
        codes = self._codes(batch)
        offsets, ids = self.classes.match(codes, most=most)
        if not self.candidates.owners.size:
            return Matches(offsets, ids)
        return self._with_candidates(batch, codes, offsets, ids)

    def _codes(self, batch: Batch) -> Int32Array:
        codes = np.empty((len(self.dimensions), batch.size), np.int32)
        for at, (dimension, type_) in enumerate(self.dimensions):
            codes[at] = batch.codes(dimension, type_, self.coders[at])
        return codes

    def _with_candidates(
        self, batch: Batch, codes: Int32Array, offsets: Int64Array, ids: Int32Array
    ) -> Matches:
        offsets, ids, events, found = self._found(batch, offsets, ids)
        if not events.size:
            return Matches(offsets, ids)
        holds = self._verify(batch, codes, events, found)
        # A subscription may have several boxes, and one event may lie in more than one of them.
        pair = events[holds] * np.int64(self.size) + self.candidates.owners[found[holds]]
        pair.sort()  # np.unique hashes first, which takes several times as long
        distinct = pair[np.flatnonzero(np.diff(pair, prepend=np.int64(-1)))]
        events, owners = distinct // self.size, (distinct % self.size).astype(np.int32)
        return Matches(*_merge(offsets, ids, events, owners))

    def _found(
        self, batch: Batch, offsets: Int64Array, ids: Int32Array
    ) -> tuple[Int64Array, Int32Array, Int64Array, Int32Array]:
        """Offsets and ids of what boxes decide; pairs (event, candidate) of what is to be verified,
        which boxes and texts have brought."""
        offsets, ids, events, found = _split(offsets, ids, self.size)
        pairs = [(events, found)]
        pairs += [finder.find(batch) for finder in self.patterns]
        events = np.concatenate([one for one, _ in pairs])
        return offsets, ids, events, np.concatenate([other for _, other in pairs])

    def _verify(
        self, batch: Batch, codes: Int32Array, events: Int64Array, found: Int32Array
    ) -> npt.NDArray[np.bool_]:
        groups = self.candidates.groups[found]
        holds = groups < 0
        order = np.flatnonzero(~holds)
        order = order[np.argsort(groups[order], kind="stable")]
        for chosen in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            if chosen.size:
                group = self.candidates.checks[groups[chosen[0]]]
                rows = self.candidates.rows[found[chosen]].astype(np.int64)
                holds[chosen] = group.verify(batch, codes, events[chosen], rows)
        return holds


def _spread(
    index: Int32Array, offsets: Int64Array, hits: npt.NDArray[Any]
) -> tuple[Int64Array, Int32Array]:
    """Hits of distinct values → pairs (event, hit)."""
    events = np.flatnonzero(index >= 0)
    values = index[events]
    counts = offsets[values + 1] - offsets[values]
    starts = np.repeat(offsets[values] - (np.cumsum(counts) - counts), counts)
    return np.repeat(events, counts), hits[starts + np.arange(starts.size)].astype(np.int32)


@njit(cache=True, nogil=True)
def _split(offsets: Int64Array, ids: Int32Array, size: int) -> Any:
    """Ids below `size` are subscriptions and stay; the others are candidates, as pairs."""
    kept_offsets = np.empty_like(offsets)
    kept_offsets[0] = 0
    kept = np.empty_like(ids)
    events = np.empty(ids.size, np.int64)
    found = np.empty(ids.size, np.int32)
    n = m = 0
    for event in range(offsets.size - 1):
        for at in range(offsets[event], offsets[event + 1]):
            if ids[at] < size:
                kept[n] = ids[at]
                n += 1
            else:
                events[m] = event
                found[m] = ids[at] - size
                m += 1
        kept_offsets[event + 1] = n
    return kept_offsets, kept[:n], events[:m], found[:m]


@njit(cache=True, nogil=True)
def _merge(offsets: Int64Array, ids: Int32Array, events: Int64Array, more: Int32Array) -> Any:
    """Add pairs (ascending by event) to the lists."""
    merged_offsets = np.empty_like(offsets)
    merged_offsets[0] = 0
    merged = np.empty(ids.size + more.size, np.int32)
    n = at_more = 0
    for event in range(offsets.size - 1):
        for at in range(offsets[event], offsets[event + 1]):
            merged[n] = ids[at]
            n += 1
        while at_more < events.size and events[at_more] == event:
            merged[n] = more[at_more]
            n += 1
            at_more += 1
        merged_offsets[event + 1] = n
    return merged_offsets, merged
