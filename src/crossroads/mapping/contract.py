"""What a mapping is: SK(σ) and EK(e), and the law that holds for every one of them.

    e matches σ  ⇒  σ is at the root, or EK(e) ∩ SK(σ) ≠ ∅

A mapping sees values only as **positions** on the axes of its spec (`axes`): whole numbers that
keep the order of values and lose their detail. A subscription is then a few boxes of positions
(`boxes`), a superset of what it matches, and a mapping is integer arithmetic: box → ranges of keys,
event → keys. What it cannot place (TRUE, contains alone, a filter as wide as the key space) goes to
the **root**, which every event visits.

Each mapping has two forms that give the same answer: one filter or event at a time, plainly, for
nodes; and whole columns, for Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.keyspace import KeyRange as KeyRange
from crossroads.mapping.axes import Axis
from crossroads.mapping.boxtable import BoxTable
from crossroads.mapping.spec import KEY_BITS_MAX as KEY_BITS_MAX
from crossroads.mapping.spec import MappingSpec
from crossroads.model.filter import Filter
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable
from crossroads.model.types import Value

Keys = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]

KEY_BITS = 32  # of a key, where attributes do not have to share them


@dataclass(frozen=True, slots=True)
class SubscriptionKeys:
    """SK(σ): sorted, disjoint ranges that do not touch.

    `root`: it stands at the root instead, where every event comes by, and has no ranges.
    """

    ranges: tuple[KeyRange, ...]
    root: bool = False


@dataclass(frozen=True)
class RangeTable:
    """SK of many: subscription i has the ranges offsets[i] … offsets[i + 1] - 1."""

    offsets: Offsets
    low: Keys
    high: Keys  # not included
    root: npt.NDArray[np.bool_]  # by subscription


@dataclass(frozen=True)
class KeyTable:
    """EK of many: event i has the keys offsets[i] … offsets[i + 1] - 1, ascending, none twice."""

    offsets: Offsets
    keys: Keys


class Mapping(ABC):
    """One mapping, ready to use. Made by `fit`, or again from a spec by `mapping_of`."""

    name: ClassVar[str]
    one_key: ClassVar[bool] = False  # every event has exactly one key, so no pair meets twice

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        self.spec = spec
        self.schema = schema

    # -- fitting: for `fit`; whoever makes specs by hand needs neither of the two ----------------

    @staticmethod
    def fit_parameters(
        axes: Sequence[Axis], boxes: BoxTable, positions: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """`spec.parameters`, from the boxes of sampled filters and the positions of sampled events
        (rows are events). What else a mapping takes is a keyword here. By itself: the axes say all.
        """
        return {}

    @classmethod
    def bits_needed(cls, axes: Sequence[Axis], parameters: Dict[str, Any]) -> int:
        """m, where nobody asked for another."""
        return KEY_BITS

    # -- keys ------------------------------------------------------------------------------------

    @property
    def stride(self) -> int:
        """Of the keys in a range of SK, only every so-many-th from its beginning is ever an
        event's: a network need not visit the others."""
        return 1

    @abstractmethod
    def subscription_keys(self, filter_: Filter) -> SubscriptionKeys: ...

    @abstractmethod
    def event_keys(self, event: Dict[str, Value | None]) -> tuple[int, ...]:
        """EK, ascending; the root is not named, every event visits it."""

    @abstractmethod
    def keys_of_subscriptions(self, table: FilterTable) -> RangeTable:
        """`subscription_keys` of every filter; a row in `table.errors` has no key at all."""

    @abstractmethod
    def keys_of_events(self, events: pa.Table | pa.RecordBatch) -> KeyTable:
        """`event_keys` of every row; columns as in `Schema` (typed, canonical)."""
