"""How MEGHDOOT shares load (§4.1): too many subscriptions split a zone, too many events copy it.

To split a zone that many events pass does not help, they would pass both halves; a copy takes every
other one of them. The document leaves open from when on (ERRATA 22): here a zone is compared
with the mean of all.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

HOT_FACTOR = 2  # a zone with twice the mean of events is not hot yet: medians divide only so evenly
REPLICAS_MAX = 32  # the document's hottest zone had 27 copies


def split_or_replicate(
    subscriptions: float,
    events: float,
    mean_subscriptions: float,
    mean_events: float,
    *,
    splittable: bool = True,
) -> Literal["split", "replicate"]:
    """What a loaded zone does with a newcomer: which of its loads exceeds the mean by more?

    Even loads split, because that halves the work of every event that comes. A zone whose
    subscriptions all lie in one point can only be copied.
    """
    assert min(subscriptions, events, mean_subscriptions, mean_events) >= 0
    # Multiplied out: a mean may be zero.
    by_events = events * mean_subscriptions > subscriptions * mean_events
    return "replicate" if by_events or not splittable else "split"


def replicas(visits: Ints, factor: float = HOT_FACTOR) -> Ints:
    """Copies of each zone, so that none sees many more events than `factor` times the mean.

    `visits`: events per zone. A zone that none would see needs no copy, but there is always one.
    """
    bearable = factor * visits.mean()
    if bearable <= 0:
        return np.ones(visits.size, np.int64)
    copies: Ints = np.clip(np.ceil(visits / bearable), 1, REPLICAS_MAX).astype(np.int64)
    return copies
