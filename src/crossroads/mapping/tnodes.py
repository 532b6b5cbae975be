"""The string trees of STRINGS (§3), over positions instead of strings.

A position is written with D digits of base β. A **Tnode** of depth d is named by its **label**, the
leading d + 1 digits, and stands for all positions that begin with them:

    [num(label) · β^(D-d-1), (num(label) + 1) · β^(D-d-1))

The trees, one per first digit, are the forest. An event walks down from the first digit to its
last and meets what is stored on its way; so a prefix is one Tnode, an exact value is the last on
the path, and a range is cut into as few Tnodes as fill it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, order=True)
class Tnode:
    depth: int
    label: int  # as a number: leading zeros are told by the depth


@dataclass(frozen=True)
class Forest:
    """All trees of one axis: β digits, D of them."""

    base: int
    digits: int

    @staticmethod
    def holding(positions: int, base: int) -> Forest:
        """The least forest with a leaf for each of so many positions."""
        digits = 1
        while base**digits < positions:
            digits += 1
        return Forest(base, digits)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        return tuple(range(self.digits))

    def width(self, depth: int) -> int:
        """Positions of one Tnode of that depth."""
        width: int = self.base ** (self.digits - depth - 1)
        return width

    def interval(self, tnode: Tnode) -> tuple[int, int]:
        """Its positions, half-open (S2)."""
        width = self.width(tnode.depth)
        return tnode.label * width, (tnode.label + 1) * width

    def responsible(self, low: int, high: int) -> Tnode:
        """The Tnode whose interval is exactly [low, high): d = D - log_β(high - low) - 1."""
        for depth in self.depths:
            tnode = Tnode(depth, low // self.width(depth))
            if self.interval(tnode) == (low, high):
                return tnode
        raise ValueError(f"[{low}, {high}) is no Tnode's interval; decompose it")

    def path(self, position: int) -> tuple[Tnode, ...]:
        """From the root of its tree to its leaf: what an event of that position walks."""
        return tuple(Tnode(depth, position // self.width(depth)) for depth in self.depths)

    def decompose(self, low: int, high: int, depths: Sequence[int]) -> list[Tnode]:
        """The fewest Tnodes of those depths (ascending) that hold the positions low … high.

        Without the deepest level they may hold a little more, at both ends.
        """
        unit = self.width(depths[-1])
        return self._filling(low // unit * unit, high // unit * unit + unit - 1, depths)

    def _filling(self, low: int, high: int, depths: Sequence[int]) -> list[Tnode]:
        found: list[Tnode] = []
        width = self.width(depths[0])
        for label in range(low // width, high // width + 1):
            first, last = label * width, (label + 1) * width - 1
            if low <= first and last <= high:
                found.append(Tnode(depths[0], label))
            else:
                found += self._filling(max(low, first), min(high, last), depths[1:])
        return found

    def pieces(self, low: int, high: int, depths: Sequence[int]) -> int:
        """How many Tnodes `decompose` gives, without making them: there may be too many to."""
        unit = self.width(depths[-1])
        begin, end, count = low // unit, high // unit + 1, 0
        for depth, above in zip(reversed(depths), reversed(depths[:-1]), strict=False):
            ratio = self.width(above) // self.width(depth)
            upper_begin, upper_end = -(-begin // ratio), end // ratio
            if upper_begin >= upper_end:  # no Tnode of the level above fits in
                break
            count += upper_begin * ratio - begin + end - upper_end * ratio
            begin, end = upper_begin, upper_end
        return count + end - begin

    def tnode(self, label: str) -> Tnode:
        """By its label as the document writes it; the characters are digits of base β."""
        assert 1 <= len(label) <= self.digits, label  # depth at most D - 1 (ERRATA 23)
        return Tnode(len(label) - 1, int(label, self.base))

    def label(self, tnode: Tnode) -> str:
        """The label as the document writes it, for bases up to 36."""
        text, rest = "", tnode.label
        for _ in range(tnode.depth + 1):
            rest, digit = divmod(rest, self.base)
            text = DIGITS[digit] + text
        return text
