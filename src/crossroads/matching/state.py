"""An index as named arrays and a little JSON, and back: what an index file holds.

Large things are arrays, used in place when they come back as read-only memory maps. Checks are
different: a set of rare filters may have a hundred thousand of them, each a small tree. They are
kept as JSON texts side by side in one array and read when a candidate first asks for them, so that
opening costs nothing per subscription. The literals of their slots are concatenated by kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.matching.automaton import ContainsAutomaton, RegexSet
from crossroads.matching.checks import CheckGroup
from crossroads.matching.classes import ClassIndex
from crossroads.matching.coders import coder_from_arrays
from crossroads.matching.index import Candidates, MatchIndex, PatternFinder
from crossroads.model.atoms import Dimension
from crossroads.model.compiled import frozen
from crossroads.model.filter import And, Not, Or
from crossroads.model.normal import Check
from crossroads.model.schema import Schema
from crossroads.model.shapes import Doubles, Moments, Numbers, Slot, Texts
from crossroads.model.types import parse_type
from crossroads.model.wire import from_wire, to_wire

Array = npt.NDArray[Any]

# Arrays of all check groups together, and what they hold.
_CHECK_ARRAYS: dict[str, type[np.generic]] = {
    "text": np.uint8,  # JSON of one group after the other
    "text_ends": np.int64,  # (groups + 1)
    "lo": np.int32,  # ranges still to be verified, row by row
    "hi": np.int32,
    "mantissas": np.int64,  # slots of plain numbers
    "scales": np.uint8,
    "doubles": np.float64,
    "keys": np.int64,  # slots of moments
    "strings": np.uint8,  # slots of text: bytes,
    "string_ends": np.int64,  # and one offset more than strings for each slot
}


def index_state(index: MatchIndex) -> tuple[dict[str, Array], dict[str, Any]]:
    """Everything there is to store: arrays by name, and the rest as JSON can carry it."""
    arrays: dict[str, Array] = {}
    for at, coder in enumerate(index.coders):
        arrays |= _named(f"coder{at}", coder.arrays())
    arrays |= _named("classes", index.classes.arrays())
    candidates = index.candidates
    arrays["candidates.owners"] = candidates.owners
    arrays["candidates.groups"] = candidates.groups
    arrays["candidates.rows"] = candidates.rows
    arrays |= _named("checks", _CheckWriter(candidates.checks).arrays())
    patterns: list[dict[str, Any]] = []
    for at, finder in enumerate(index.patterns):
        if finder.needles is not None:
            arrays |= _named(f"needles{at}", finder.needles.arrays())
        arrays[f"pattern{at}.needle_candidates"] = finder.needle_candidates
        arrays[f"pattern{at}.regex_candidates"] = finder.regex_candidates
        regexes = None if finder.regexes is None else list(finder.regexes.patterns)
        patterns.append({"attribute": finder.attribute, "regexes": regexes})
    meta = {
        "size": index.size,
        "dimensions": [
            [dimension.attribute, dimension.backwards, str(type_)]
            for dimension, type_ in index.dimensions
        ],
        "patterns": patterns,
    }
    return arrays, meta


def index_from_state(
    schema: Schema, arrays: Mapping[str, Array], meta: Mapping[str, Any]
) -> MatchIndex:
    """The index that the state came from. Nothing large is copied."""
    dimensions = [
        (Dimension(attribute, backwards), parse_type(type_))
        for attribute, backwards, type_ in meta["dimensions"]
    ]
    candidates = Candidates(
        arrays["candidates.owners"],
        arrays["candidates.groups"],
        arrays["candidates.rows"],
        StoredChecks(_under("checks", arrays)),
    )
    return MatchIndex(
        schema,
        int(meta["size"]),
        dimensions,
        [coder_from_arrays(_under(f"coder{at}", arrays)) for at in range(len(dimensions))],
        ClassIndex.from_arrays(_under("classes", arrays)),
        candidates,
        [_finder(at, parts, arrays) for at, parts in enumerate(meta["patterns"])],
    )


def _finder(at: int, parts: Mapping[str, Any], arrays: Mapping[str, Array]) -> PatternFinder:
    needles = _under(f"needles{at}", arrays)
    regexes = parts["regexes"]
    return PatternFinder(
        parts["attribute"],
        ContainsAutomaton.from_arrays(needles) if needles else None,
        arrays[f"pattern{at}.needle_candidates"],
        None if regexes is None else RegexSet(regexes),
        arrays[f"pattern{at}.regex_candidates"],
    )


def _named(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    start = prefix + "."
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}


# -- checks ----------------------------------------------------------------------------------------


class _CheckWriter:
    """Collects the arrays of one check group after the other."""

    def __init__(self, groups: Sequence[CheckGroup]) -> None:
        self._parts: dict[str, list[Array]] = {name: [] for name in _CHECK_ARRAYS}
        self._lengths = dict.fromkeys(_CHECK_ARRAYS, 0)
        self._append("text_ends", np.zeros(1, np.int64))
        for group in groups:
            text = json.dumps(self._record(group), separators=(",", ":")).encode()
            self._append("text", np.frombuffer(text, np.uint8))
            self._append("text_ends", np.array([self._lengths["text"]], np.int64))

    def arrays(self) -> dict[str, Array]:
        return {
            name: np.concatenate([np.empty(0, dtype), *self._parts[name]])
            for name, dtype in _CHECK_ARRAYS.items()
        }

    def _append(self, name: str, array: Array) -> int:
        """Where the addition begins."""
        begin = self._lengths[name]
        self._parts[name].append(array)
        self._lengths[name] += array.size
        return begin

    def _record(self, group: CheckGroup) -> dict[str, Any]:
        record: dict[str, Any] = {}
        if group.checks:
            record["checks"] = [[to_wire(one.predicate), one.wanted] for one in group.checks]
        if group.filter is not None:
            record["filter"] = to_wire(group.filter)
        if group.dims:
            assert group.lo is not None and group.hi is not None
            begin = self._append("lo", group.lo.reshape(-1))
            self._append("hi", group.hi.reshape(-1))
            record["dims"] = [list(group.dims), begin, len(group.lo)]
        if group.slots:
            record["slots"] = [self._slot(slot) for slot in group.slots]
        return record

    def _slot(self, slot: Slot) -> list[Any]:
        match slot:
            case Numbers(mantissa, scale):
                self._append("scales", scale)
                return ["numbers", self._append("mantissas", mantissa), mantissa.size]
            case Doubles(values):
                return ["doubles", self._append("doubles", values), values.size]
            case Moments(type_, keys):
                return ["moments", self._append("keys", keys), keys.size, str(type_)]
            case Texts(values):
                texts = values.cast(pa.large_string())
                _, ends, data = texts.buffers()
                offsets = np.frombuffer(ends, np.int64)[texts.offset :][: len(texts) + 1]
                flat = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
                begin = self._append("strings", flat[int(offsets[0]) : int(offsets[-1])])
                at = self._append("string_ends", offsets - offsets[0] + begin)
                return ["texts", at, len(texts)]


class StoredChecks(Sequence[CheckGroup]):
    """Check groups that are read when first asked for. Any number of threads may ask."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = {name: frozen(arrays[name]) for name in _CHECK_ARRAYS}
        self._read: dict[int, CheckGroup] = {}  # two threads may read one twice: equal, harmless

    def __len__(self) -> int:
        return int(self._arrays["text_ends"].size) - 1

    @overload
    def __getitem__(self, at: int) -> CheckGroup: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[CheckGroup]: ...
    def __getitem__(self, at: int | slice) -> CheckGroup | Sequence[CheckGroup]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        place = int(at)
        if not 0 <= place < len(self):
            raise IndexError(place)
        if place not in self._read:
            self._read[place] = self._group(place)
        return self._read[place]

    def __iter__(self) -> Iterator[CheckGroup]:
        # Without remembering: whoever walks through all of them (to save them) needs each once.
        return (self._read.get(at) or self._group(at) for at in range(len(self)))

    def _group(self, at: int) -> CheckGroup:
        begin, end = self._arrays["text_ends"][at : at + 2].tolist()
        record = json.loads(self._arrays["text"][begin:end].tobytes())
        dims: tuple[int, ...] = ()
        lo = hi = None
        if "dims" in record:
            numbers, start, rows = record["dims"]
            dims = tuple(numbers)
            stop = start + rows * len(dims)
            lo = self._arrays["lo"][start:stop].reshape(rows, len(dims))
            hi = self._arrays["hi"][start:stop].reshape(rows, len(dims))
        return CheckGroup(
            tuple(_check(*parts) for parts in record.get("checks", ())),
            from_wire(record["filter"]) if "filter" in record else None,
            tuple(self._slot(*parts) for parts in record.get("slots", ())),
            dims,
            lo,
            hi,
        )

    def _slot(self, kind: str, begin: int, rows: int, type_: str = "") -> Slot:
        def part(name: str) -> Array:
            return self._arrays[name][begin : begin + rows]

        match kind:
            case "numbers":
                return Numbers(part("mantissas"), part("scales"))
            case "doubles":
                return Doubles(part("doubles"))
            case "moments":
                return Moments(parse_type(type_), part("keys"))
        assert kind == "texts", kind
        ends = self._arrays["string_ends"][begin : begin + rows + 1]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._arrays["strings"])]
        return Texts(pa.Array.from_buffers(pa.large_string(), rows, buffers))


def _check(wire: Any, wanted: bool) -> Check:
    predicate = from_wire(wire)
    assert not isinstance(predicate, And | Or | Not), predicate
    return Check(predicate, wanted)
