"""What no box can say, decided for candidate pairs: many pairs of one kind at a time.

A `CheckGroup` holds the checks of one alternative of one shape, and the literals of every
subscription that has it. Where literals differ by subscription, text tests run as kernels over
pairs and RLIKE once per distinct value and pattern; checks without literals of their own are
evaluated over columns (`truths`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.matching import strings
from crossroads.matching.batch import Batch
from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.definition import truth
from crossroads.matching.truths import truths
from crossroads.model.columnkeys import binary_buffers
from crossroads.model.filter import Attr, Filter, Literal, RLike, TextTest
from crossroads.model.instantiate import instantiate
from crossroads.model.normal import Check
from crossroads.model.regex import compile_regex
from crossroads.model.shapes import ShapeGroup, Slot, Texts

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CheckGroup:
    """`slots` belong to the literals of the checks; `filter` is checked where boxes are not exact.

    `dims`, `lo`, `hi`: ranges of codes still to be verified, for candidates that a text pattern
    and not a box has found (one row per candidate, as in the slots).
    """

    checks: tuple[Check, ...] = ()
    filter: Filter | None = None
    slots: tuple[Slot, ...] = ()
    dims: tuple[int, ...] = ()
    lo: Int32Array | None = None
    hi: Int32Array | None = None

    def verify(
        self, batch: Batch, codes: Int32Array, events: Int64Array, rows: Int64Array
    ) -> Bools:
        """Which pairs (event, row of this group) hold."""
        alive = np.arange(events.size)
        for at, dim in enumerate(self.dims):
            assert self.lo is not None and self.hi is not None
            code = codes[dim, events[alive]]
            fits = (self.lo[rows[alive], at] <= code) & (code <= self.hi[rows[alive], at])
            alive = alive[fits]
        for check in self.checks:
            if alive.size:
                alive = alive[self._check(check, batch, events[alive], rows[alive])]
        if self.filter is not None and alive.size:
            alive = alive[truths(self.filter, batch, events[alive])[0]]
        holds = np.zeros(events.size, np.bool_)
        holds[alive] = True
        return holds

    def _check(self, check: Check, batch: Batch, events: Int64Array, rows: Int64Array) -> Bools:
        if not self.slots:  # literals keep their `source`, but there is nothing it could name
            true, unknown = truths(check.predicate, batch, events)
            return true if check.wanted else ~(true | unknown)
        match check.predicate:
            case TextTest(op, Attr() as attr, Literal() as literal):
                found = self._texts(op, attr, literal, batch, events, rows)
                return _two_valued(found, check.wanted, batch, attr, events)
            case RLike(Attr() as attr, literal):
                found = self._regexes(attr, literal, batch, events, rows)
                return _two_valued(found, check.wanted, batch, attr, events)
        return self._one_by_one(check, batch, events, rows)

    def _one_by_one(
        self, check: Check, batch: Batch, events: Int64Array, rows: Int64Array
    ) -> Bools:
        holds = np.zeros(events.size, np.bool_)
        group = ShapeGroup(check.predicate, np.arange(0), self.slots)
        for at, (event, row) in enumerate(zip(events.tolist(), rows.tolist(), strict=True)):
            holds[at] = truth(instantiate(group, row), batch.event(event)) is check.wanted
        return holds

    def _literals(self, literal: Literal, rows: Int64Array) -> tuple[pa.Array, Int64Array]:
        """Texts of a literal, and which of them each row has."""
        if literal.source is None:
            assert isinstance(literal.value, str)
            return pa.array([literal.value.encode()], pa.large_binary()), np.zeros_like(rows)
        slot = self.slots[literal.source[0]]
        assert isinstance(slot, Texts)
        return slot.values.cast(pa.large_string()).cast(pa.large_binary()), rows

    def _texts(
        self,
        op: str,
        attr: Attr,
        literal: Literal,
        batch: Batch,
        events: Int64Array,
        rows: Int64Array,
    ) -> Bools:
        text = batch.text(attr.name)
        needles, which = self._literals(literal, rows)
        index = text.index[events]
        known = np.flatnonzero(index >= 0)
        found = np.zeros(events.size, np.bool_)
        pairs = _PAIRS[op]
        found[known] = pairs(*text.buffers, index[known], *binary_buffers(needles), which[known])
        return found

    def _regexes(
        self, attr: Attr, literal: Literal, batch: Batch, events: Int64Array, rows: Int64Array
    ) -> Bools:
        text = batch.text(attr.name)
        patterns, which = self._literals(literal, rows)
        asked, back_to_pattern = np.unique(which, return_inverse=True)
        encoded = patterns.take(pa.array(asked)).dictionary_encode()
        number = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        pair = number[back_to_pattern] * (len(text.values) + 1) + text.index[events] + 1
        distinct, back = np.unique(pair, return_inverse=True)
        asked_pattern, value = np.divmod(distinct, len(text.values) + 1)
        values = text.values.to_pylist()
        holds = np.zeros(distinct.size, np.bool_)
        # Distinct pairs are ordered by pattern: each is looked up once, however many texts it has.
        for one in np.split(np.arange(distinct.size), np.flatnonzero(np.diff(asked_pattern)) + 1):
            pattern = encoded.dictionary[int(asked_pattern[one[0]])].as_py().decode()
            search = compile_regex(pattern).search
            holds[one] = [
                at > 0 and search(values[at - 1]) is not None for at in value[one].tolist()
            ]
        return holds[back]


_PAIRS: dict[str, Callable[..., Bools]] = {
    "contains": strings.contains_pairs,
    "startswith": strings.startswith_pairs,
    "endswith": strings.endswith_pairs,
}


def _two_valued(found: Bools, wanted: bool, batch: Batch, attr: Attr, events: Int64Array) -> Bools:
    """A text test is true or false where there is text, and unknown for NULL."""
    return found if wanted else ~found & (batch.text(attr.name).index[events] >= 0)
