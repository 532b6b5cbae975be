"""Keys as strings of bits: prefixes, ranges as prefixes, and the zones of PUB-2-SUB.

Whole numbers only. A **prefix** names all strings that begin with it. A node with the virtual
address VA owns the strings that begin with VA and with no child's address; children are numbered
VA + 1, VA + 01, VA + 001, … in the order in which they come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Prefix:
    """The `length` bits of `value`."""

    value: int
    length: int

    def __post_init__(self) -> None:
        assert 0 <= self.value < 1 << self.length, self

    @staticmethod
    def of(text: str) -> Prefix:
        """`Prefix.of("0110")`; the empty text begins everything."""
        return Prefix(int(text, 2) if text else 0, len(text))

    def __str__(self) -> str:
        return f"{self.value:0{self.length}b}" if self.length else ""

    def begins(self, other: Prefix) -> bool:
        rest = other.length - self.length
        return rest >= 0 and other.value >> rest == self.value

    def extended(self, bits: str) -> Prefix:
        return Prefix.of(str(self) + bits)

    def range(self, bits: int) -> tuple[int, int]:
        """The keys of that many bits that begin with it: [low, end)."""
        rest = bits - self.length
        assert rest >= 0, (self, bits)
        return self.value << rest, (self.value + 1) << rest


def prefixes_of_range(low: int, end: int, bits: int) -> Iterator[Prefix]:
    """The fewest prefixes that name exactly the keys [low, end), ascending."""
    assert 0 <= low <= end <= 1 << bits, (low, end, bits)
    while low < end:
        # The largest aligned block that starts here and does not reach beyond the end.
        room = (end - low).bit_length() - 1
        aligned = (low & -low).bit_length() - 1 if low else bits
        rest = min(room, aligned)
        yield Prefix(low >> rest, bits - rest)
        low += 1 << rest


def in_zone(key: Prefix, address: Prefix, children: Iterable[Prefix]) -> bool:
    """Does the node own this string (of any length)?"""
    return address.begins(key) and not any(child.begins(key) for child in children)


def zone(address: Prefix, children: Iterable[Prefix], bits: int) -> list[tuple[int, int]]:
    """The keys of that many bits that the node owns: ascending ranges [low, end)."""
    at, end = address.range(bits)
    owned: list[tuple[int, int]] = []
    for taken, behind in sorted(child.range(bits) for child in children):
        if at < taken:
            owned.append((at, taken))
        at = max(at, behind)
    return [*owned, (at, end)] if at < end else owned


def meets(owned: Iterable[tuple[int, int]], low: int, end: int) -> bool:
    """Has the zone a key of [low, end)?"""
    return any(start < end and low < behind for start, behind in owned)


def newcomer(parent: Prefix, children: Collection[Prefix]) -> Prefix:
    """The address of a node that joins below `parent`: the shortest that is free."""
    bits = "1"
    while parent.extended(bits) in children:
        bits = "0" + bits
    return parent.extended(bits)


def designated(key: Prefix, addresses: Iterable[Prefix]) -> Prefix | None:
    """The address that owns the string: the longest one that begins it."""
    begin = [address for address in addresses if address.begins(key)]
    return max(begin, key=lambda address: address.length, default=None)
