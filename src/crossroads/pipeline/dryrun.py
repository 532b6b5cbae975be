"""One filter against the events of some files: how many match, which, and what keeps the rest out.

The filter and its predicates are compiled into one index, as if each were a subscription, so that
one pass over the events counts them all. Batches come and go: memory does not grow with the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crossroads.matching.explain import explain
from crossroads.matching.index import MatchIndex
from crossroads.model.filter import And, Filter, Not, Or, attributes, conjunction
from crossroads.model.schema import Schema
from crossroads.model.types import Value
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import EventBatch, read_split
from crossroads.pipeline.source import Split, list_files, plan_splits, warnings_of

PREDICATES_MAX = 100  # predicates counted apart: more than a person reads
REJECTS_KEPT = 5  # rejected events that are shown


@dataclass(frozen=True, slots=True)
class Example:
    """An event that matches, with the attributes the filter looks at."""

    id: str
    file: str
    line: int
    values: dict[str, Value]


@dataclass(frozen=True, slots=True)
class PredicateCount:
    """`alone`: events it lets through; `without`: events that match once it is left out.

    `without` is None unless the predicate is one of those joined by the outermost AND.
    """

    text: str
    alone: int
    without: int | None


@dataclass(frozen=True, slots=True)
class DryRun:
    events: int
    matched: int
    rejected: int
    examples: list[Example]
    predicates: list[PredicateCount]
    rejects: list[Reject]
    warnings: list[str]


def dry_run(
    filter_: Filter,
    schema: Schema,
    path: str | Path,
    *,
    examples: int = 10,
    progress: Callable[[int], None] = lambda _: None,
) -> DryRun:
    """`progress` hears how many rows have been read so far."""
    splits = plan_splits(list_files(path), schema)
    leaves = list(dict.fromkeys(_leaves(filter_, True)))[:PREDICATES_MAX]
    without = {part: rest for part, rest in _left_out(filter_) if part in leaves}
    asked = [filter_, *leaves, *without.values()]
    index = MatchIndex.of(schema, asked)
    shown = [name for name in schema.names if name in attributes(filter_)]
    counts = np.zeros(len(asked), np.int64)
    found: list[Example] = []
    rejects: list[Reject] = []
    events = rejected = 0
    for split in splits:
        for batch in read_split(split, schema):
            matches = index.match_batch(batch.table)
            counts += np.bincount(matches.ordinals, minlength=len(asked))
            if len(found) < examples:
                rows = matches.events[matches.ordinals == 0][: examples - len(found)]
                found += [_example(split, batch, shown, int(row)) for row in rows]
            events += batch.table.num_rows
            rejected += len(batch.rejects)
            rejects += batch.rejects[: REJECTS_KEPT - len(rejects)]
            progress(events + rejected)
    alone = counts[1 : 1 + len(leaves)].tolist()
    rest = dict(zip(without, counts[1 + len(leaves) :].tolist(), strict=True))
    return DryRun(
        events=events,
        matched=int(counts[0]),
        rejected=rejected,
        examples=found,
        predicates=[
            PredicateCount(_text(leaf), count, rest.get(leaf))
            for leaf, count in zip(leaves, alone, strict=True)
        ],
        rejects=rejects,
        warnings=warnings_of(splits),
    )


def _leaves(filter_: Filter, wanted: bool) -> Iterator[Filter]:
    """The predicates as they count: one under NOT is let through where it is false."""
    match filter_:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _leaves(part, wanted)
        case Not(part):
            yield from _leaves(part, not wanted)
        case _:
            yield filter_ if wanted else Not(filter_)


def _left_out(filter_: Filter) -> Iterator[tuple[Filter, Filter]]:
    """Each part of the outermost AND, and what remains of the filter without it."""
    if isinstance(filter_, And):
        for part in dict.fromkeys(filter_.parts):
            rest = [other for other in filter_.parts if other != part]
            if rest:
                yield part, conjunction(rest)


def _text(leaf: Filter) -> str:
    if isinstance(leaf, Not):
        return f"NOT ({_text(leaf.part)})"
    return explain(leaf, {}).text


def _example(split: Split, batch: EventBatch, shown: list[str], row: int) -> Example:
    (values,) = batch.table.select(shown).slice(row, 1).to_pylist() if shown else ({},)
    return Example(batch.ids[row].as_py(), split.path, int(batch.lines[row]), values)
