"""Filters as plain lists and strings (JSON-ready), and back: for index files and messages.

A node is `[name of its class, field, field, …]`. Reading builds only the classes below, so a
strange file can at worst give a strange filter.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from crossroads.errors import InputError
from crossroads.model.filter import (
    And,
    Arithmetic,
    Attr,
    Cast,
    Compare,
    Constant,
    Filter,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    RLike,
    TextTest,
    Truth,
)
from crossroads.model.types import VOID, Kind, Type, Value, parse_type
from crossroads.model.values import canonical, text_of

_NODES = {
    node.__name__: node
    for node in (
        And, Arithmetic, Attr, Cast, Compare, Constant, In, IsNull, Like, Literal, Negate, Not, Or,
        RLike, TextTest, Truth,
    )
}  # fmt: skip


def to_wire(node: Any) -> Any:
    match node:
        case Type():
            return str(node)
        case Literal(value, type_, source):
            shown = None if value is None else text_of(value)
            return ["Literal", str(type_), shown, list(source) if source else None]
        case tuple():
            return [to_wire(part) for part in node]
        case None | bool() | str():
            return node
    return [type(node).__name__, *(to_wire(getattr(node, part.name)) for part in fields(node))]


def from_wire(wire: Any) -> Filter:
    try:
        node: Filter = _node(wire)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"not a filter in wire form: {str(wire)[:80]}") from error
    return node


def _node(wire: Any) -> Any:
    name, *parts = wire
    if name == "Literal":
        type_ = _type(parts[0])
        source = (int(parts[2][0]), bool(parts[2][1])) if parts[2] else None
        return Literal(_value(type_, parts[1]), type_, source)
    kind: Any = _NODES[name]
    if kind in (And, Or):
        return kind(tuple(_node(part) for part in parts[0]))
    if kind is In:
        return In(_node(parts[0]), tuple(_node(option) for option in parts[1]))
    return kind(
        *(
            _type(part) if field.name == "type" else _node(part) if isinstance(part, list) else part
            for field, part in zip(fields(kind), parts, strict=True)
        )
    )


def _type(text: str) -> Type:
    return VOID if text == Kind.VOID else parse_type(text)


def _value(type_: Type, text: str | None) -> Value:
    if type_.kind is Kind.DOUBLE and text in ("inf", "-inf", "nan"):
        return math.inf if text == "inf" else -math.inf if text == "-inf" else math.nan
    return canonical(Type(Kind.STRING) if type_.is_text else type_, text)
