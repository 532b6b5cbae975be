"""A loop over many rows, in a piece per thread: compiled loops do not hold Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy.typing as npt

ROWS_PER_THREAD_MIN = 10_000  # fewer are done sooner than a thread starts


def in_pieces(
    threads: int, loop: Callable[..., None], rows: int, *arrays: npt.NDArray[Any]
) -> None:
    """`loop(*arrays, begin, end)` for all rows. No two rows may write to the same place."""
    if threads == 1 or rows < ROWS_PER_THREAD_MIN:
        loop(*arrays, 0, rows)
        return
    ends = [rows * piece // threads for piece in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(loop, *arrays, *piece) for piece in pairwise(ends)]:
            done.result()
