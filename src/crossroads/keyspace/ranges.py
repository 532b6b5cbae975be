"""Runs of keys: what a mapping gives for a subscription."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """Keys low … high - 1."""

    low: int
    high: int

    def __contains__(self, key: int) -> bool:
        return self.low <= key < self.high
