"""The definition over many events at once: each distinct predicate asked once per event.

`definition.truth` answers for the predicates; AND, OR and NOT are put together here, on whole
columns of answers, because large sets of filters repeat their predicates. Nothing of the index
is used. Its law, held by a test: `matches` gives what `definition.matches`
gives, event by event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from crossroads.matching.definition import truth
from crossroads.model.filter import And, Filter, Not, Or, Predicate
from crossroads.model.types import Value

# Ordered, so that AND is the least and OR the greatest of its parts, and NOT the mirror image.
FALSE, UNKNOWN, TRUE = -1, 0, 1
_CODES = {False: FALSE, None: UNKNOWN, True: TRUE}
PREDICATES_KEPT = 100_000  # answers to as many are kept: a byte per event for each

Truths = npt.NDArray[np.int8]


class BulkDefinition:
    def __init__(self, events: Sequence[Mapping[str, Value]]) -> None:
        self.events = events
        self._known: dict[Predicate, Truths] = {}

    def matches(self, filter_: Filter) -> npt.NDArray[np.bool_]:
        """Per event: is the filter true?"""
        found: npt.NDArray[np.bool_] = self.truths(filter_) == TRUE
        return found

    def truths(self, filter_: Filter) -> Truths:
        match filter_:
            case And(parts):
                return reduce(np.minimum, [self.truths(part) for part in parts])
            case Or(parts):
                return reduce(np.maximum, [self.truths(part) for part in parts])
            case Not(part):
                return -self.truths(part)
        found = self._known.get(filter_)
        if found is None:
            answers = (_CODES[truth(filter_, event)] for event in self.events)
            found = np.fromiter(answers, np.int8, len(self.events))
            if len(self._known) < PREDICATES_KEPT:
                self._known[filter_] = found
        return found
