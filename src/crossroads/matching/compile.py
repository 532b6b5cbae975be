"""Subscriptions → what the index is made of: coders, boxes, candidates with checks, patterns.

Two ways in, one way out. Filters of one shape arrive as columns (`columnar`), the rest one by one
(`singles`); both become ranges of codes (`ranges`). A box whose filter says no more than the box,
and whose boxes do not overlap, emits its subscription at once. The others emit a **candidate**: ids
from `size` upwards, which are verified and counted once (`index`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crossroads.errors import InputError
from crossroads.matching.boxes import BoxGroup, Int32Array, Int64Array
from crossroads.matching.checks import CheckGroup
from crossroads.matching.coders import Coder, bytes_coder, int_coder
from crossroads.matching.patternkeys import (
    PatternKeys,
    attribute_of,
    pattern_key,
    pattern_of,
    patterns_of,
)
from crossroads.matching.ranges import (
    CodedBox,
    apart,
    fitting,
    interval_constants,
    interval_range,
    shares,
    sides_range,
    stacked,
)
from crossroads.matching.singles import SingleBox, boxes_of
from crossroads.model.atoms import Dimension
from crossroads.model.columnar import Alternative, Side, TooManyAlternatives, alternatives
from crossroads.model.filter import Filter, Like, predicates
from crossroads.model.instantiate import instantiate, split_likes
from crossroads.model.intervals import Interval
from crossroads.model.normal import Check
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, ShapeGroup
from crossroads.model.types import Type

# A pattern becomes the key of a candidate where its box alone lets through more events than this:
# searching text costs about as much as verifying a few candidates.
PATTERN_SELECTIVITY = 0.02
IDS_MAX = 2**31 - 1  # ids of subscriptions and candidates are int32

_Checks = tuple[Check, ...]


@dataclass
class Compiled:
    dimensions: list[tuple[Dimension, Type]]
    coders: list[Coder]
    boxes: list[BoxGroup]
    owners: Int32Array  # subscription of each candidate
    groups: Int32Array  # check group of each candidate, -1: none, only counted once
    rows: Int32Array  # row of each candidate in its group
    checks: list[CheckGroup]
    patterns: dict[str, PatternKeys]


def compile_filters(table: FilterTable, threads: int = 1) -> Compiled:
    """The same for any number of threads; dimensions are coded side by side."""
    with ThreadPoolExecutor(threads, thread_name_prefix="coding") as pool:
        return _compile(table, pool)


def _compile(table: FilterTable, pool: ThreadPoolExecutor) -> Compiled:
    reader = _Reader(table.schema)
    for group in table.groups:
        for part in split_likes(group):
            reader.read_group(part)
    for row, filter_ in table.singles.items():
        reader.read_single(row, filter_)
    dimensions = sorted(reader.types)
    coders = reader.coders(dimensions, pool)
    writer = _Writer(table.size, dimensions, reader.types, coders, pool)
    for group, found in reader.shapes:
        writer.emit_shape(group, found)
    writer.emit_singles(reader.singles)
    return writer.done()


class _Reader:
    """First pass: the normal form of everything, and the constants that the coders must know."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.types: dict[Dimension, Type] = {}
        self.shapes: list[tuple[ShapeGroup, list[Alternative]]] = []
        self.singles: list[SingleBox] = []

    def read_group(self, group: ShapeGroup) -> None:
        general = any(isinstance(leaf, Like) for leaf in predicates(group.template))
        try:
            found = None if general else alternatives(group)
        except TooManyAlternatives:
            found = None
        if found is None:
            for at, row in enumerate(group.rows.tolist()):
                self.read_single(row, instantiate(group, at))
            return
        self.shapes.append((group, found))
        for side in (side for one in found for side in one.sides):
            self.types.setdefault(side.dimension, side.type)

    def read_single(self, row: int, filter_: Filter) -> None:
        for box in boxes_of(row, filter_):
            self.singles.append(box)
            for dimension in box.sides.keys() - self.types.keys():
                self.types[dimension] = self.schema.attribute(dimension.attribute).type

    def coders(self, dimensions: list[Dimension], pool: ThreadPoolExecutor) -> list[Coder]:
        ints: dict[Dimension, list[Int64Array]] = defaultdict(list)
        texts: dict[Dimension, list[pa.Array]] = defaultdict(list)
        for side in (side for _, found in self.shapes for one in found for side in one.sides):
            for bound in (side.low, side.high):
                if bound is not None and isinstance(bound.constants, np.ndarray):
                    ints[side.dimension].append(bound.constants)
                elif bound is not None:
                    texts[side.dimension].append(bound.constants)
        for dimension, intervals in self._intervals().items():
            type_ = self.types[dimension]
            constants = set(interval_constants(type_, intervals))
            if _as_bytes(type_):
                texts[dimension].append(pa.array(list(constants), pa.large_binary()))
            else:
                ints[dimension].append(np.array(list(constants), np.int64))

        def coder(dimension: Dimension) -> Coder:
            type_ = self.types[dimension]
            if _as_bytes(type_):
                return bytes_coder(texts[dimension])
            return int_coder(type_, ints[dimension])

        return list(pool.map(coder, dimensions))

    def _intervals(self) -> dict[Dimension, set[Interval | None]]:
        found: dict[Dimension, set[Interval | None]] = defaultdict(set)
        for box in self.singles:
            for dimension, interval in box.sides.items():
                found[dimension].add(interval)
        return found


def _as_bytes(type_: Type) -> bool:
    return type_.is_text or type_.wide


class _Writer:
    """Second pass: codes are known, boxes and candidates are written."""

    def __init__(
        self,
        size: int,
        dimensions: list[Dimension],
        types: dict[Dimension, Type],
        coders: list[Coder],
        pool: ThreadPoolExecutor,
    ) -> None:
        self.size = size
        self.pool = pool
        self.dimensions = dimensions
        self.types = types
        self.coders = coders
        self.number = {dimension: at for at, dimension in enumerate(dimensions)}
        self.checks: list[CheckGroup] = []
        self.boxes: dict[tuple[int, ...], list[tuple[Int32Array, Int32Array, Int32Array]]] = (
            defaultdict(list)
        )
        self.owners: list[Int32Array] = []
        self.groups: list[Int32Array] = []
        self.rows: list[Int32Array] = []
        self.candidate_count = 0
        self.patterns: dict[str, PatternKeys] = defaultdict(PatternKeys)

    def done(self) -> Compiled:
        return Compiled(
            [(dimension, self.types[dimension]) for dimension in self.dimensions],
            self.coders,
            [_joined(dims, parts) for dims, parts in self.boxes.items()],
            _flat(self.owners),
            _flat(self.groups),
            _flat(self.rows),
            self.checks,
            dict(self.patterns),
        )

    # -- shapes ------------------------------------------------------------------------------

    def emit_shape(self, group: ShapeGroup, found: list[Alternative]) -> None:
        size = group.rows.size
        boxes = [self.coded(one, size) for one in found]
        fits = [fitting(one, size) for one in boxes]
        checked = any(one.checks for one in found)
        overlapping = np.full(size, checked)
        for one, other in itertools.combinations(range(len(found)), 2):
            overlapping |= fits[one] & fits[other] & ~apart(boxes[one], boxes[other], size)
        for alternative, box, fit in zip(found, boxes, fits, strict=True):
            direct = np.flatnonzero(fit & ~overlapping)
            self.add_boxes(box, direct, group.rows[direct].astype(np.int32))
            again = np.flatnonzero(fit & overlapping)
            if again.size:
                self.emit_shape_candidates(group, alternative, box, again)

    def coded(self, one: Alternative, size: int) -> CodedBox:
        sides: dict[int, list[Side]] = defaultdict(list)
        for side in one.sides:
            sides[self.number[side.dimension]].append(side)
        return {
            number: sides_range(found, self.coders[number], size) for number, found in sides.items()
        }

    def emit_shape_candidates(
        self, group: ShapeGroup, one: Alternative, box: CodedBox, rows: Int64Array
    ) -> None:
        owners = group.rows[rows]
        if not one.checks:
            self.add_boxes(box, rows, self.candidates(owners, -1, rows * 0))
            return
        part = group.take(rows)
        places = np.arange(rows.size)
        key = pattern_key(one.checks)
        if key is None or shares(box, self.coders, rows).mean() <= PATTERN_SELECTIVITY:
            self.checks.append(CheckGroup(one.checks, slots=part.slots))
            self.add_boxes(box, rows, self.candidates(owners, len(self.checks) - 1, places))
            return
        rest = tuple(check for check in one.checks if check is not key)
        dims = tuple(sorted(box))
        low, high = stacked(box, dims, rows)
        slots = part.slots if rest else ()
        self.checks.append(CheckGroup(rest, slots=slots, dims=dims, lo=low, hi=high))
        ids = self.candidates(owners, len(self.checks) - 1, places)
        self.add_patterns(key, patterns_of(key, part), ids)

    # -- one by one --------------------------------------------------------------------------

    def emit_singles(self, singles: list[SingleBox]) -> None:
        """Boxes of singles, collected by their dimensions so that they are coded together."""
        by_dims: dict[tuple[Dimension, ...], list[SingleBox]] = defaultdict(list)
        for box in singles:
            by_dims[tuple(sorted(box.sides))].append(box)
        shared = _SharedChecks(self.checks)
        for dimensions, found in by_dims.items():
            coded = {
                self.number[one]: interval_range(
                    self.types[one],
                    self.coders[self.number[one]],
                    [box.sides[one] for box in found],
                )
                for one in dimensions
            }
            fits = fitting(coded, len(found))
            direct = np.array([box.direct for box in found], np.bool_)
            owners = np.array([box.owner for box in found], np.int64)
            rows = np.flatnonzero(direct & fits)
            self.add_boxes(coded, rows, owners[rows].astype(np.int32))
            self.emit_single_candidates(
                found, owners, coded, np.flatnonzero(~direct & fits), shared
            )

    def emit_single_candidates(
        self,
        found: list[SingleBox],
        owners: Int64Array,
        coded: CodedBox,
        rows: Int64Array,
        shared: _SharedChecks,
    ) -> None:
        boxed: list[int] = []
        by_text: dict[_Checks, list[tuple[int, Check]]] = defaultdict(list)
        for at, share in zip(rows.tolist(), shares(coded, self.coders, rows).tolist(), strict=True):
            checks = found[at].checks
            key = pattern_key(checks) if checks and share > PATTERN_SELECTIVITY else None
            if key is None:
                boxed.append(at)
            else:
                by_text[_ordered(checks - {key})].append((at, key))
        chosen = np.array(boxed, np.int64)
        groups = np.array([shared.of(found[at]) for at in boxed], np.int32)
        self.add_boxes(coded, chosen, self.candidates(owners[chosen], groups, chosen * 0))
        dims = tuple(sorted(coded))
        for rest, keyed in by_text.items():
            chosen = np.array([at for at, _ in keyed])
            low, high = stacked(coded, dims, chosen)
            self.checks.append(CheckGroup(rest, dims=dims, lo=low, hi=high))
            ids = self.candidates(owners[chosen], len(self.checks) - 1, np.arange(chosen.size))
            for at, (_, key) in enumerate(keyed):
                self.add_patterns(key, [pattern_of(key)], ids[at : at + 1])

    # -- both --------------------------------------------------------------------------------

    def add_boxes(self, box: CodedBox, rows: Int64Array, ids: Int32Array) -> None:
        if rows.size:
            dims = tuple(sorted(box))
            low, high = stacked(box, dims, rows)
            self.boxes[dims].append((low, high, ids))

    def candidates(
        self, owners: Int64Array, group: int | Int32Array, rows: Int64Array
    ) -> Int32Array:
        """Ids of new candidates."""
        first = self.size + self.candidate_count
        if first + owners.size > IDS_MAX:
            raise InputError(
                "the subscriptions need more than 2^31 boxes", hint="split the subscription set"
            )
        self.candidate_count += owners.size
        self.owners.append(owners.astype(np.int32))
        self.groups.append(np.broadcast_to(np.asarray(group, np.int32), owners.shape))
        self.rows.append(rows.astype(np.int32))
        return np.arange(first, first + owners.size, dtype=np.int32)

    def add_patterns(self, key: Check, patterns: list[str], ids: Int32Array) -> None:
        self.patterns[attribute_of(key)].add(key, patterns, (ids - self.size).tolist())


class _SharedChecks:
    """Check groups of singles: one for all boxes that ask the same."""

    def __init__(self, groups: list[CheckGroup]) -> None:
        self._groups = groups
        self._by_checks: dict[frozenset[Check], int] = {}
        self._by_residual: dict[int, int] = {}  # by identity: long filters are slow to compare

    def of(self, box: SingleBox) -> int:
        if box.residual is not None:
            if id(box.residual) not in self._by_residual:
                self._by_residual[id(box.residual)] = len(self._groups)
                self._groups.append(CheckGroup(filter=box.residual))
            return self._by_residual[id(box.residual)]
        if not box.checks:
            return -1
        if box.checks not in self._by_checks:
            self._by_checks[box.checks] = len(self._groups)
            self._groups.append(CheckGroup(_ordered(box.checks)))
        return self._by_checks[box.checks]


def _ordered(checks: frozenset[Check]) -> _Checks:
    """Always the same order, so that equal subscriptions make equal files."""
    return tuple(checks) if len(checks) < 2 else tuple(sorted(checks, key=repr))


def _joined(
    dims: tuple[int, ...], parts: list[tuple[Int32Array, Int32Array, Int32Array]]
) -> BoxGroup:
    if len(parts) == 1:
        return BoxGroup(dims, *parts[0])
    low, high, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return BoxGroup(dims, low, high, ids)


def _flat(parts: list[Int32Array]) -> Int32Array:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
