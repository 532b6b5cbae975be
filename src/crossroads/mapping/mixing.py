"""A stated hash of 64-bit numbers: the finisher of splitmix64, the same on every machine."""

from __future__ import annotations

import numpy as np

from crossroads.model.compiled import compiled

MASK = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_STEP_64, _FIRST_64, _SECOND_64 = np.uint64(_STEP), np.uint64(_FIRST), np.uint64(_SECOND)


def mix(number: int) -> int:
    """0 … 2**64 - 1, one to one."""
    number = (number + _STEP) & MASK
    number = ((number ^ (number >> 30)) * _FIRST) & MASK
    number = ((number ^ (number >> 27)) * _SECOND) & MASK
    return number ^ (number >> 31)


@compiled
def mix_64(number: np.uint64) -> np.uint64:
    """`mix`, compiled; arithmetic of unsigned 64-bit integers wraps by itself."""
    number = number + _STEP_64
    number = (number ^ (number >> np.uint64(30))) * _FIRST_64
    number = (number ^ (number >> np.uint64(27))) * _SECOND_64
    return number ^ (number >> np.uint64(31))
