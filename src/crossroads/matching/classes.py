"""Signature classes: boxes compiled to flat arrays, and events matched against them.

A class takes an event to one list of entries (by equality, by grid cell, or a single list),
narrows the list by a sorted bound where there is one, and verifies what is left. Boxes that
overlap several cells of a grid have an entry in each; an event looks at one cell, so every
matching box is found exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.matching import kernels
from crossroads.matching.boxes import BoxGroup, Int32Array, Int64Array
from crossroads.matching.class_build import ClassWriter, Empty
from crossroads.matching.class_plan import Boxes
from crossroads.matching.signatures import (
    merge_small,
    normalised,
    one_group_per_signature,
    split_by_kind,
)

LEVELS_MAX = 4  # how often boxes too wide for a grid get a coarser one; then they are scanned
IDS_PER_EVENT_FIRST = 4  # first guess of the output; growing it extrapolates what was seen
GROWTH_MARGIN = 1.15


class TooDense(Exception):
    """The events match more than the caller is ready to hold at once."""


@dataclass(frozen=True)
class ClassIndex:
    """The compiled boxes. Immutable, so any number of threads may match with it at once."""

    dim_sizes: Int64Array  # codes of dimension d are -1 .. dim_sizes[d] - 1
    classes: Int64Array  # (classes, CLASS_COLUMNS), see kernels
    keys: Int64Array  # (key dimensions of all classes, KEY_COLUMNS)
    lanes: Int64Array  # (lanes of all classes, LANE_COLUMNS)
    guards: npt.NDArray[np.uint64]  # guard bits per bound word of each class
    offsets: Int32Array  # where lists begin among the entries
    ids: Int32Array  # what each entry emits
    words: npt.NDArray[np.uint64]  # packed bounds to verify
    bounds: Int32Array  # the sorted bounds of narrowed classes
    slot_keys: Int64Array  # hash slots: cell number, or EMPTY_SLOT
    slot_lists: Int32Array  # hash slots: list number

    def __post_init__(self) -> None:
        # Read-only plain views: what numba compiles for arrays in memory then also serves
        # memory-mapped ones, and nobody changes an index that others are reading.
        for field in fields(self):
            array = np.asarray(getattr(self, field.name)).view()
            array.flags.writeable = False
            object.__setattr__(self, field.name, array)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything there is to store, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> ClassIndex:
        """The index that `arrays` came from; memory-mapped arrays are used in place."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def entry_count(self) -> int:
        return len(self.ids)

    @property
    def class_count(self) -> int:
        return len(self.classes)

    def match(
        self, codes: Int32Array, *, buffer: Int32Array | None = None, most: int | None = None
    ) -> tuple[Int64Array, Int32Array]:
        """Ids per event: those of event e are ids[offsets[e]:offsets[e + 1]], in any order.

        `codes` is (dimensions, events), C-contiguous. A `buffer` is used for the ids as long as
        it is large enough, which saves the cost of fresh memory when batches follow each other.
        TooDense if several events have over `most` ids together: ask for fewer events at a time.
        """
        self._check(codes)
        events = codes.shape[1]
        codes = codes.view()
        codes.flags.writeable = False
        offsets = np.zeros(events + 1, dtype=np.int64)
        if buffer is None:
            buffer = np.empty(events * IDS_PER_EVENT_FIRST + 1024, dtype=np.int32)
        done = 0
        while True:
            reached, room = kernels.match_events(
                self.classes, self.keys, self.lanes, self.guards, self.offsets, self.ids,
                self.words, self.bounds, self.slot_keys, self.slot_lists,
                codes, done, buffer, offsets,
            )  # fmt: skip
            done = int(reached)
            if done == events:
                return offsets, buffer[: offsets[events]]
            used = int(offsets[done])
            if most is not None and events > 1 and used + int(room) > most:
                raise TooDense
            foreseen = int(used / done * events * GROWTH_MARGIN) if done else 0
            foreseen = foreseen if most is None else min(foreseen, most)
            grown = np.empty(max(foreseen, 2 * len(buffer), int(room)), dtype=np.int32)
            grown[:used] = buffer[:used]
            buffer = grown

    def _check(self, codes: Int32Array) -> None:
        # The kernels trust the codes: one out of range would read beyond a table.
        assert codes.dtype == np.int32 and codes.flags.c_contiguous, (codes.dtype, codes.flags)
        assert codes.ndim == 2 and len(codes) == len(self.dim_sizes), codes.shape
        if codes.size:
            assert codes.min() >= -1, "codes start at -1, which stands for NULL"
            assert (codes.max(axis=1) < self.dim_sizes.clip(min=0)).all(), "a code too large"


def build_classes(
    groups: Sequence[BoxGroup],
    dim_sizes: Sequence[int],
    threads: int = 1,
    empty: Empty = np.empty,
) -> ClassIndex:
    """Compile boxes; dimension d has the codes 0 .. dim_sizes[d] - 1, and -1 for NULL."""
    writer = ClassWriter(threads, empty)
    pending: list[Boxes] = []
    for group in one_group_per_signature(groups):
        pending.extend(split_by_kind(normalised(group, dim_sizes, threads), threads))
    for level in range(LEVELS_MAX + 1):
        too_wide: list[Boxes] = []
        for boxes in merge_small(pending):
            rest = writer.add(boxes, grid=level < LEVELS_MAX)
            if len(rest.ids):
                too_wide.append(rest)
        pending = too_wide
    assert not pending  # without a grid no box is too wide
    return ClassIndex(dim_sizes=np.asarray(dim_sizes, dtype=np.int64), **writer.finish())
