"""One filter of a shape group as a tree of its own; and LIKE rewritten into what it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from crossroads.model.coerce import comparable
from crossroads.model.filter import (
    And,
    Cast,
    Compare,
    Filter,
    In,
    Like,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
    RLike,
    TextTest,
    TextTestOp,
    predicates,
)
from crossroads.model.like import parse_like
from crossroads.model.literals import number
from crossroads.model.shapes import Doubles, Moments, Numbers, ShapeGroup, Slot, Texts
from crossroads.model.types import DOUBLE, STRING, VOID, from_key


def instantiate(group: ShapeGroup, row: int) -> Filter:
    """The filter at that place of the group, exactly as parsing its text would give it."""

    def literal(found: Literal) -> Literal:
        if found.source is None:
            return found
        return replace(_literal(group.slots[found.source[0]], row, found.source[1]), source=None)

    def operand(found: Operand) -> Operand:
        inner = found.operand if isinstance(found, Cast) else found
        if isinstance(inner, Literal) and inner.value is None:
            return Literal(None, VOID)  # its type is whatever it meets
        return literal(inner) if isinstance(inner, Literal) else inner

    def predicate(leaf: Predicate) -> Predicate:
        match leaf:
            case Compare(op, left, right):
                # Types meet anew: the template's row may have had 45 where this one has 45.5.
                sides = [operand(left), operand(right)]
                return Compare(op, *comparable(sides, None, two_sides=True))
            case In(sought, options):
                first, *rest = comparable([operand(sought), *map(operand, options)], None)
                return In(first, tuple(one for one in rest if isinstance(one, Literal)))
            case TextTest(op, left, right):
                return TextTest(op, left, literal(right) if isinstance(right, Literal) else right)
            case Like(sought, pattern, escape):
                return Like(sought, literal(pattern), escape)
            case RLike(sought, pattern):
                return RLike(sought, literal(pattern))
            case _:
                return leaf

    return transform(group.template, predicate)


def _literal(slot: Slot, row: int, negative: bool) -> Literal:
    match slot:
        case Numbers(mantissa, scale):
            text = f"{Decimal(int(mantissa[row])).scaleb(-int(scale[row])):f}"
            return number(text.lstrip("-"), negative=negative != text.startswith("-"))
        case Doubles(values):
            return Literal(float(-values[row] if negative else values[row]), DOUBLE)
        case Texts(values):
            return Literal(values[row].as_py(), STRING)
        case Moments(type_, keys):
            return Literal(from_key(type_, int(keys[row])), type_)


def transform(filter_: Filter, change: Callable[[Predicate], Filter]) -> Filter:
    """The same tree with every predicate changed."""
    match filter_:
        case And(parts):
            return And(tuple(transform(part, change) for part in parts))
        case Or(parts):
            return Or(tuple(transform(part, change) for part in parts))
        case Not(part):
            return Not(transform(part, change))
        case _:
            return change(filter_)


# -- LIKE ------------------------------------------------------------------------------------------

_Meaning = tuple[str, str]  # what the pattern asks (an operation), and the text it asks it about
GENERAL = "like"


def split_likes(group: ShapeGroup) -> Iterator[ShapeGroup]:
    """Groups without LIKE patterns in slots, where the pattern asks for something simpler.

    `LIKE ?` is a different question for 'ab%', '%ab' and '%ab%': the rows are parted by question.
    Groups that still have a LIKE ask for more than one affix or for single characters.
    """
    like = next(
        (
            leaf
            for leaf in predicates(group.template)
            if isinstance(leaf, Like) and leaf.pattern.source is not None
        ),
        None,
    )
    if like is None:
        yield group
        return
    assert like.pattern.source is not None
    slot = group.slots[like.pattern.source[0]]
    assert isinstance(slot, Texts)
    encoded = slot.values.dictionary_encode()
    meanings = [_meaning(pattern, like.escape) for pattern in encoded.dictionary.to_pylist()]
    index = encoded.indices.to_numpy(zero_copy_only=False)
    kinds = np.array([kind for kind, _ in meanings])[index]
    for kind in sorted(set(kinds.tolist())):
        chosen = np.flatnonzero(kinds == kind)
        part = group.take(chosen)
        if kind == GENERAL:
            yield part
            continue
        texts = pa.array([text for _, text in meanings], pa.large_string()).take(
            pa.array(index[chosen])
        )
        yield from split_likes(_rewritten(part, like, kind, Texts(texts)))


def _rewritten(group: ShapeGroup, like: Like, kind: str, slot: Texts) -> ShapeGroup:
    literal = Literal("x", STRING, (len(group.slots), False))

    def change(leaf: Predicate) -> Predicate:
        if leaf is not like:
            return leaf
        if kind == "=":
            return Compare("=", like.operand, literal)
        op: TextTestOp = kind  # type: ignore[assignment]
        return TextTest(op, like.operand, literal)

    return ShapeGroup(transform(group.template, change), group.rows, (*group.slots, slot))


def _meaning(pattern: str, escape: str) -> _Meaning:
    like = parse_like(pattern, escape)
    if like.equals is not None:
        return "=", like.equals
    if like.matches_everything:
        return GENERAL, pattern
    if like.is_prefix_only:
        return "startswith", like.prefix
    if like.is_suffix_only:
        return "endswith", like.suffix
    if like.contains:
        return "contains", like.contains
    return GENERAL, pattern
