"""Subscriptions → what the index is made of: coders, boxes, candidates with checks, patterns.

Two ways in, one way out. Filters of one shape arrive as columns (`columnar`), the rest one by one
(`model.normal`); both become ranges of codes. A box whose filter says no more than the box, and
whose boxes do not overlap, emits its subscription at once. The others emit a **candidate**: ids
from `size` upwards, which are verified and counted once (`index`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.matching.boxes import NO_UPPER_BOUND, BoxGroup, Int32Array, Int64Array
from crossroads.matching.checks import CheckGroup
from crossroads.matching.coders import (
    NULL_CODE,
    UNBOUNDED,
    BytesCoder,
    Coder,
    bytes_coder,
    int_coder,
    wide_key,
)
from crossroads.matching.columnar import (
    Alternative,
    Bound,
    Side,
    TooManyAlternatives,
    alternatives,
)
from crossroads.model.atoms import Dimension
from crossroads.model.filter import Attr, Filter, Like, Literal, RLike, TextTest, predicates
from crossroads.model.instantiate import instantiate, split_likes
from crossroads.model.intervals import Interval
from crossroads.model.normal import BOXES_MAX, Check, Conjunction, cover
from crossroads.model.shapes import FilterTable, ShapeGroup, Texts
from crossroads.model.types import Key, Type

# A pattern becomes the key of a candidate where its box alone lets through more events than this:
# searching text costs about as much as verifying a few candidates.
PATTERN_SELECTIVITY = 0.02
_NO_DISTINCT = 1.0

Bools = npt.NDArray[np.bool_]


@dataclass
class PatternKeys:
    """Candidates of one attribute that a text pattern finds."""

    needles: list[bytes] = field(default_factory=list)
    needle_candidates: list[int] = field(default_factory=list)
    regexes: list[str] = field(default_factory=list)
    regex_candidates: list[int] = field(default_factory=list)


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


def compile_filters(table: FilterTable) -> Compiled:
    return _Compiler(table).run()


@dataclass
class _ScalarBox:
    """One box of one filter: per dimension an interval of keys, or None for NULL."""

    owner: int
    sides: dict[Dimension, Interval | None]
    group: int  # check group, or -1
    exact: bool  # emits its subscription directly


class _Compiler:
    def __init__(self, table: FilterTable) -> None:
        self.table = table
        self.columns: list[tuple[ShapeGroup, list[Alternative]]] = []
        self.scalars: list[_ScalarBox] = []
        self.checks: list[CheckGroup] = []
        self.types: dict[Dimension, Type] = {}
        self.int_constants: dict[Dimension, list[Int64Array]] = defaultdict(list)
        self.byte_constants: dict[Dimension, list[pa.Array]] = defaultdict(list)
        self.boxes: dict[tuple[int, ...], list[tuple[Int32Array, Int32Array, Int32Array]]] = (
            defaultdict(list)
        )
        self.owners: list[Int32Array] = []
        self.groups: list[Int32Array] = []
        self.rows: list[Int32Array] = []
        self.candidate_count = 0
        self.patterns: dict[str, PatternKeys] = defaultdict(PatternKeys)

    def run(self) -> Compiled:
        for group in self.table.groups:
            for part in split_likes(group):
                self.read_group(part)
        for row, filter_ in self.table.singles.items():
            self.read_single(row, filter_)
        self.collect_constants()
        self.dimensions = sorted(self.types)
        self.number = {dimension: at for at, dimension in enumerate(self.dimensions)}
        self.coders = [self.coder(dimension) for dimension in self.dimensions]
        for group, found in self.columns:
            self.emit_group(group, found)
        self.emit_scalars()
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

    # -- reading -----------------------------------------------------------------------------

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
        self.columns.append((group, found))
        for side in (side for one in found for side in one.sides):
            self.types.setdefault(side.dimension, side.type)

    def read_single(self, row: int, filter_: Filter) -> None:
        found = cover(filter_)
        boxes = [(sides, one.checks) for one in found.alternatives for sides in _intervals(one)]
        disjoint = found.exact and _disjoint([sides for sides, _ in boxes])
        shared: dict[frozenset[Check], int] = {}
        for sides, checks in boxes:
            if not found.exact:
                group = self.check_group(shared, frozenset(), filter_)
            elif checks:
                group = self.check_group(shared, checks, None)
            else:
                group = -1
            exact = group < 0 and disjoint
            self.scalars.append(_ScalarBox(row, sides, group, exact))
        for one in found.alternatives:
            for dimension, values in one.box.items():
                self.types.setdefault(dimension, values.type)

    def check_group(
        self, shared: dict[frozenset[Check], int], checks: frozenset[Check], filter_: Filter | None
    ) -> int:
        if checks not in shared:
            shared[checks] = len(self.checks)
            ordered = tuple(sorted(checks, key=lambda check: str(check)))
            self.checks.append(CheckGroup(ordered, filter_))
        return shared[checks]

    # -- constants and coders ----------------------------------------------------------------

    def collect_constants(self) -> None:
        for _, found in self.columns:
            for side in (side for one in found for side in one.sides):
                for bound in (side.low, side.high):
                    if bound is not None:
                        self.keep(side.dimension, bound.constants)
        ints: dict[Dimension, list[int]] = defaultdict(list)
        texts: dict[Dimension, list[bytes]] = defaultdict(list)
        for box in self.scalars:
            for dimension, interval in box.sides.items():
                for key in interval or ():
                    if isinstance(key, bytes):
                        texts[dimension].append(key)
                    elif self.types[dimension].wide and key is not None:
                        texts[dimension].append(wide_key(key))
                    elif key is not None:
                        ints[dimension].append(key)
        for dimension, keys in ints.items():
            # A high end may lie one beyond 64 bits: it means the last key, see `upper`.
            clipped = [min(max(key, -(2**63)), 2**63 - 1) for key in keys]
            both = clipped + [key - 1 for key in clipped if key > -(2**63)]
            self.int_constants[dimension].append(np.array(both, np.int64))
        for dimension, given in texts.items():
            self.byte_constants[dimension].append(pa.array(given, pa.large_binary()))

    def keep(self, dimension: Dimension, constants: Int64Array | pa.Array) -> None:
        if isinstance(constants, np.ndarray):
            self.int_constants[dimension].append(constants)
        else:
            self.byte_constants[dimension].append(constants)

    def coder(self, dimension: Dimension) -> Coder:
        type_ = self.types[dimension]
        if type_.is_text or type_.wide:
            return bytes_coder(self.byte_constants[dimension])
        return int_coder(type_, self.int_constants[dimension])

    # -- shapes ------------------------------------------------------------------------------

    def emit_group(self, group: ShapeGroup, found: list[Alternative]) -> None:
        ranges = [self.ranges(one, group.rows.size) for one in found]
        fits = [_fits(one) for one in ranges]
        checked = any(one.checks for one in found)
        overlapping = np.full(group.rows.size, checked)
        for one, other in itertools.combinations(range(len(found)), 2):
            overlapping |= fits[one] & fits[other] & ~_apart(ranges[one], ranges[other])
        for alternative, box, fit in zip(found, ranges, fits, strict=True):
            direct = np.flatnonzero(fit & ~overlapping)
            self.add_boxes(box, direct, group.rows[direct].astype(np.int32))
            again = np.flatnonzero(fit & overlapping)
            if again.size:
                self.emit_candidates(group, alternative, box, again)

    def ranges(self, one: Alternative, size: int) -> dict[int, tuple[Int32Array, Int32Array]]:
        box: dict[int, tuple[Int32Array, Int32Array]] = {}
        for side in one.sides:
            number = self.number[side.dimension]
            low, high = self.range(side, self.coders[number], size)
            if number in box:
                low = np.maximum(low, box[number][0])
                high = np.minimum(high, box[number][1])
            box[number] = low, high
        return box

    def range(self, side: Side, coder: Coder, size: int) -> tuple[Int32Array, Int32Array]:
        if side.null:
            nulls = np.full(size, NULL_CODE, np.int32)
            return nulls, nulls
        low = np.full(size, UNBOUNDED[0], np.int32)
        high = np.full(size, UNBOUNDED[1], np.int32)
        if side.low is not None:
            low = _codes(coder, side.low) + np.int32(side.low.strict)
        if side.high is not None:
            high = _codes(coder, side.high) - np.int32(side.high.strict)
        return low, high

    def add_boxes(
        self, box: dict[int, tuple[Int32Array, Int32Array]], rows: Int64Array, ids: Int32Array
    ) -> None:
        if not rows.size:
            return
        dims = tuple(sorted(box))
        low, high = _stacked(box, dims, rows)
        self.boxes[dims].append((low, high, ids))

    def emit_candidates(
        self,
        group: ShapeGroup,
        one: Alternative,
        box: dict[int, tuple[Int32Array, Int32Array]],
        rows: Int64Array,
    ) -> None:
        owners = group.rows[rows]
        if not one.checks:
            self.add_boxes(box, rows, self.candidates(owners, -1, rows * 0))
            return
        part = group.take(rows)
        places = np.arange(rows.size)
        key = _pattern_key(one.checks)
        if key is None or self.selectivity(box, rows) <= PATTERN_SELECTIVITY:
            self.checks.append(CheckGroup(one.checks, slots=part.slots))
            ids = self.candidates(owners, len(self.checks) - 1, places)
            self.add_boxes(box, rows, ids)
            return
        rest = tuple(check for check in one.checks if check is not key)
        dims = tuple(sorted(box))
        low, high = _stacked(box, dims, rows)
        self.checks.append(CheckGroup(rest, slots=part.slots, dims=dims, lo=low, hi=high))
        ids = self.candidates(owners, len(self.checks) - 1, places)
        self.add_patterns(key, _pattern_texts(key, part), ids)

    def candidates(self, owners: Int64Array, group: int, rows: Int64Array) -> Int32Array:
        """Ids of new candidates."""
        first = self.table.size + self.candidate_count
        self.candidate_count += owners.size
        self.owners.append(owners.astype(np.int32))
        self.groups.append(np.full(owners.size, group, np.int32))
        self.rows.append(rows.astype(np.int32))
        return np.arange(first, first + owners.size, dtype=np.int32)

    def add_patterns(self, key: Check, texts: list[str], ids: Int32Array) -> None:
        places = (ids - self.table.size).tolist()
        match key.predicate:
            case TextTest(_, Attr() as attr, _):
                keys = self.patterns[attr.name]
                keys.needles += [text.encode() for text in texts]
                keys.needle_candidates += places
            case RLike(Attr() as attr, _):
                keys = self.patterns[attr.name]
                keys.regexes += texts
                keys.regex_candidates += places

    def selectivity(self, box: dict[int, tuple[Int32Array, Int32Array]], rows: Int64Array) -> float:
        """Roughly the share of events that the box lets through, on average over the rows."""
        share = np.ones(rows.size)
        for number, (low, high) in box.items():
            size = self.coders[number].size
            one, other = low[rows].astype(np.float64), high[rows].astype(np.float64)
            width = np.minimum(other, size) - np.maximum(one, 0) + 1
            share *= np.where(one == other, 2.0 / size, np.clip(width / size, 0, 1))
        return float(share.mean()) if rows.size else _NO_DISTINCT

    # -- one by one ----------------------------------------------------------------------------

    def emit_scalars(self) -> None:
        """Boxes of singles, collected by their dimensions so that they are coded together."""
        by_dims: dict[tuple[Dimension, ...], list[_ScalarBox]] = defaultdict(list)
        for box in self.scalars:
            by_dims[tuple(sorted(box.sides))].append(box)
        for dims, found in by_dims.items():
            coded = {self.number[dim]: self.scalar_range(dim, found) for dim in dims}
            everything = np.arange(len(found))
            ids = np.array([box.owner for box in found], np.int32)
            inexact = np.array([not box.exact for box in found], np.bool_)
            fits = _fits(coded) if coded else np.ones(len(found), np.bool_)
            self.add_boxes(coded, everything[~inexact & fits], ids[~inexact & fits])
            for at in everything[inexact & fits].tolist():
                self.emit_scalar_candidate(found[at], coded, at)

    def emit_scalar_candidate(
        self, box: _ScalarBox, coded: dict[int, tuple[Int32Array, Int32Array]], at: int
    ) -> None:
        place, owner = np.array([at]), np.array([box.owner])
        key = _pattern_key(self.checks[box.group].checks) if box.group >= 0 else None
        if key is None or self.selectivity(coded, place) <= PATTERN_SELECTIVITY:
            self.add_boxes(coded, place, self.candidates(owner, box.group, owner * 0))
            return
        dims = tuple(sorted(coded))
        low, high = _stacked(coded, dims, place)
        checks = self.checks[box.group].checks
        rest = tuple(check for check in checks if check is not key)
        self.checks.append(CheckGroup(rest, dims=dims, lo=low, hi=high))
        ids = self.candidates(owner, len(self.checks) - 1, owner * 0)
        assert isinstance(key.predicate, TextTest | RLike)
        self.add_patterns(key, [_constant_text(key)], ids)

    def scalar_range(
        self, dimension: Dimension, found: list[_ScalarBox]
    ) -> tuple[Int32Array, Int32Array]:
        coder, type_ = self.coders[self.number[dimension]], self.types[dimension]
        intervals = [box.sides[dimension] for box in found]
        null = np.array([interval is None for interval in intervals], np.bool_)
        lows = [None if interval is None else interval[0] for interval in intervals]
        highs = [None if interval is None else interval[1] for interval in intervals]
        low = _key_codes(coder, type_, lows, 0)
        high = _key_codes(coder, type_, highs, NO_UPPER_BOUND, upper=True)
        low[null] = high[null] = NULL_CODE
        return low, high


def _key_codes(
    coder: Coder, type_: Type, keys: list[Key | None], absent: int, *, upper: bool = False
) -> Int32Array:
    """Codes of interval ends; an upper end lies just below its (exclusive) key."""
    codes = np.full(len(keys), absent, np.int32)
    given = [at for at, key in enumerate(keys) if key is not None]
    if not given:
        return codes
    if isinstance(coder, BytesCoder):
        wide = [_bytes(keys[at]) for at in given]
        found = coder.encode_bytes(pa.array(wide, pa.large_binary()))
        codes[given] = found - np.int32(1) if upper else found
        return codes
    step = 1 if upper else 0
    exact = np.array(
        [min(max(_int(keys[at]) - step, -(2**63)), 2**63 - 1) for at in given], np.int64
    )
    codes[given] = coder.encode(exact)
    return codes


def _bytes(key: Key | None) -> bytes:
    return key if isinstance(key, bytes) else wide_key(_int(key))


def _int(key: Key | None) -> int:
    assert isinstance(key, int)
    return key


def _codes(coder: Coder, bound: Bound) -> Int32Array:
    if isinstance(coder, BytesCoder):
        return coder.encode_bytes(bound.constants)
    return coder.encode(bound.constants)


def _intervals(one: Conjunction) -> Iterator[dict[Dimension, Interval | None]]:
    """Boxes of single intervals; where there would be too many, their hull (a superset)."""
    sides: list[list[tuple[Dimension, Interval | None]]] = []
    for dimension, values in one.box.items():
        parts: list[Interval | None] = [*values.intervals]
        if values.null:
            parts.append(None)
        sides.append([(dimension, part) for part in parts])
    for chosen in itertools.product(*sides):
        yield dict(chosen)


def _disjoint(boxes: list[dict[Dimension, Interval | None]]) -> bool:
    return len(boxes) <= BOXES_MAX and all(
        _interval_apart(one, other) for one, other in itertools.combinations(boxes, 2)
    )


def _interval_apart(
    one: dict[Dimension, Interval | None], other: dict[Dimension, Interval | None]
) -> bool:
    for dimension in one.keys() & other.keys():
        mine, theirs = one[dimension], other[dimension]
        if mine is None or theirs is None:
            if mine is not theirs:
                return True
            continue
        if (mine[1] is not None and mine[1] <= theirs[0]) or (  # type: ignore[operator]
            theirs[1] is not None and theirs[1] <= mine[0]  # type: ignore[operator]
        ):
            return True
    return False


def _fits(box: dict[int, tuple[Int32Array, Int32Array]]) -> Bools:
    fit: Bools = np.True_  # type: ignore[assignment]
    for low, high in box.values():
        fit = fit & (low <= high)
    return fit


def _apart(
    one: dict[int, tuple[Int32Array, Int32Array]], other: dict[int, tuple[Int32Array, Int32Array]]
) -> Bools:
    apart: Bools = np.False_  # type: ignore[assignment]
    for dim in one.keys() & other.keys():
        apart = apart | (one[dim][1] < other[dim][0]) | (other[dim][1] < one[dim][0])
    return apart


def _stacked(
    box: dict[int, tuple[Int32Array, Int32Array]], dims: tuple[int, ...], rows: Int64Array
) -> tuple[Int32Array, Int32Array]:
    low = np.empty((rows.size, len(dims)), np.int32)
    high = np.empty((rows.size, len(dims)), np.int32)
    for at, dim in enumerate(dims):
        low[:, at], high[:, at] = box[dim][0][rows], box[dim][1][rows]
    return low, high


def _joined(
    dims: tuple[int, ...], parts: list[tuple[Int32Array, Int32Array, Int32Array]]
) -> BoxGroup:
    low, high, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return BoxGroup(dims, low, high, ids)


def _flat(parts: list[Int32Array]) -> Int32Array:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _pattern_key(checks: tuple[Check, ...]) -> Check | None:
    """The check by which a candidate can be found in the text: the longest contains, else a regex."""
    contains = [
        check
        for check in checks
        if check.wanted and isinstance(check.predicate, TextTest) and _plain(check.predicate)
    ]
    if contains:
        return max(contains, key=lambda check: len(_constant_text(check)))
    return next(
        (c for c in checks if c.wanted and isinstance(c.predicate, RLike) and _plain(c.predicate)),
        None,
    )


def _plain(predicate: TextTest | RLike) -> bool:
    match predicate:
        case TextTest("contains", Attr(), Literal(str())) | RLike(Attr(), Literal(str())):
            return True
    return False


def _constant_text(check: Check) -> str:
    match check.predicate:
        case TextTest(_, _, Literal(str(text))) | RLike(_, Literal(str(text))):
            return text
    raise AssertionError(check)


def _pattern_texts(key: Check, group: ShapeGroup) -> list[str]:
    """The pattern of each row."""
    match key.predicate:
        case TextTest(_, _, Literal() as literal) | RLike(_, literal):
            assert literal.source is not None
            slot = group.slots[literal.source[0]]
            assert isinstance(slot, Texts)
            texts: list[str] = slot.values.to_pylist()
            return texts
    raise AssertionError(key)
