"""Where events lie on the axes of a mapping."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.mapping.axes import Axis
from crossroads.model.types import Value


def position_of(event: Dict[str, Value], axes: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(axis.position(event.get(axis.dimension.attribute)) for axis in axes)


def positions_of(events: pa.Table | pa.RecordBatch, axes: Sequence[Axis]) -> npt.NDArray[np.int64]:
    """[events, axes]."""
    found = np.empty((events.num_rows, len(axes)), np.int64)
    for at, axis in enumerate(axes):
        found[:, at] = axis.positions(events.column(axis.dimension.attribute))
    return found
