"""How loops over arrays are compiled: one set of numba's options, one kind of array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """njit with our settings, keeping the type of the function for the type checker."""
    return cast(F, njit(cache=True, nogil=True)(function))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view: numba compiles for one kind of array, fresh, saved or memory-mapped."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
