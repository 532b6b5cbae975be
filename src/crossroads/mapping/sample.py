"""A sample of both sides, from which mappings are fitted and costs are estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from crossroads.model.shapes import FilterTable

Finding = TypeVar("Finding")


@dataclass(frozen=True)
class Sample:
    filters: FilterTable
    events: pa.Table  # valid events, columns as in `Schema.arrow`
    _found: dict[Callable[[Sample], Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, find: Callable[[Sample], Finding]) -> Finding:
        """`find(sample)`, remembered: what all mappings want to know is found out for the first."""
        if find not in self._found:
            self._found[find] = find(self)
        found: Finding = self._found[find]
        return found
