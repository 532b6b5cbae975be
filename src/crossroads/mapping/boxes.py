"""Boxes of positions: what a subscription may match, on the axes of a mapping.

A box has a span of positions per axis; it is a superset of what one alternative of the filter
admits. A set of several intervals becomes several boxes (an IN list is many narrow boxes, not one
wide one) up to `PARTS_MAX` per alternative, then neighbours are joined. A filter that can match
nothing has no box. `boxtable` gives the same for all filters of a table, whole shapes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from crossroads.mapping.axes import Axis, Span
from crossroads.mapping.written import alternatives_of
from crossroads.model.atoms import Dimension
from crossroads.model.filter import Filter
from crossroads.model.intervals import ValueSet, only_null, point
from crossroads.model.normal import Box

IntBox = tuple[Span, ...]

PARTS_MAX = 64  # boxes of one alternative: IN lists stay apart, a subscription stays small


def boxes_of(filter_: Filter, axes: Sequence[Axis]) -> list[IntBox]:
    """Ascending, none twice."""
    return sorted({box for one in alternatives_of(filter_) for box in _placed(one, axes)})


def _placed(box: Box, axes: Sequence[Axis]) -> Iterator[IntBox]:
    """The boxes of one alternative: the product of the parts of its attributes."""
    parts: list[tuple[list[int], list[IntBox]]] = []
    for attribute in sorted({dimension.attribute for dimension in box}):
        numbers = [at for at, axis in enumerate(axes) if axis.dimension.attribute == attribute]
        found = _parts(box, attribute, [axes[at] for at in numbers])
        if not found:
            return
        parts.append((numbers, found))
    room = PARTS_MAX
    few: list[tuple[list[int], list[IntBox]]] = []
    for numbers, found in sorted(parts, key=lambda part: len(part[1])):
        few.append((numbers, _joined(found, room)))
        room //= len(few[-1][1])
    for chosen in product(*(found for _, found in few)):
        spans = [axis.whole for axis in axes]
        for (numbers, _), part in zip(few, chosen, strict=True):
            for number, span in zip(numbers, part, strict=True):
                spans[number] = span
        yield tuple(spans)


def _parts(box: Box, attribute: str, axes: list[Axis]) -> list[IntBox]:
    """Spans on the axes of one attribute; none if no value of it fits."""
    forwards, backwards = box.get(Dimension(attribute)), box.get(Dimension(attribute, True))
    return sorted(
        {
            tuple(axis.span(ways[axis.dimension.backwards]) for axis in axes)
            for ways in _both_ways(forwards, backwards)
        }
    )


def _both_ways(
    forwards: ValueSet | None, backwards: ValueSet | None
) -> Iterator[tuple[ValueSet | None, ValueSet | None]]:
    """Single intervals of a text read forwards and backwards: a whole text says both."""
    if forwards is None:
        assert backwards is not None
        for part in _singly(backwards):
            yield (part if part.null else None), part
        return
    for part in _singly(forwards):
        texts = part.points if part.type.is_text and not part.null else None
        if part.null:
            if backwards is None or backwards.null:
                yield part, part
        elif texts:
            (text,) = texts
            assert isinstance(text, bytes)
            if backwards is None or backwards.has(text[::-1]):
                yield part, point(part.type, text[::-1])
        elif backwards is None:
            yield part, None
        else:
            yield from ((part, other) for other in _singly(backwards) if not other.null)


def _singly(values: ValueSet) -> Iterator[ValueSet]:
    for interval in values.intervals:
        yield ValueSet(values.type, (interval,))
    if values.null:
        yield only_null(values.type)


def _joined(parts: list[IntBox], most: int) -> list[IntBox]:
    """At most that many; on one axis, neighbours with the least between them are joined."""
    if len(parts) <= most:
        return parts
    if len(parts[0]) != 1:
        return [tuple(_hull([part[at] for part in parts]) for at in range(len(parts[0])))]
    spans = [part[0] for part in parts]  # ascending
    gaps = sorted(
        ((behind[0] - before[1], at) for at, (before, behind) in enumerate(pairwise(spans), 1)),
        reverse=True,
    )
    cuts = [0, *sorted(at for _, at in gaps[: most - 1]), len(spans)]
    return [(_hull(spans[start:end]),) for start, end in pairwise(cuts)]


def _hull(spans: Sequence[Span]) -> Span:
    return min(low for low, _ in spans), max(high for _, high in spans)
