"""A trace in words, one line per entry, for scenario files and for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from crossroads.node import Command, Delivery, Message
from crossroads.runtime.sim.trace import Entry


@dataclass(frozen=True, slots=True)
class Shown:
    """Which entries: kinds of messages, payloads and deliveries, and start, crash, timer."""

    kinds: frozenset[str]

    @staticmethod
    def of(words: list[str]) -> Shown:
        return Shown(frozenset(kind for word in words for kind in word.split(",") if kind))


def entry_in_words(entry: Entry, shown: Shown) -> str | None:
    """None: it is not to be shown."""
    what = entry.what
    if isinstance(what, Message):
        payload = getattr(what, "payload", None)
        kinds = {type(what).__name__, type(payload).__name__}
        text = f"{entry.source}→{entry.to} {_struct(what)}"
    elif isinstance(what, Delivery):
        kinds = {type(what).__name__}
        text = f"{entry.to} delivers {_struct(what)}"
    elif isinstance(what, Command):
        kinds = {"command", f"command:{type(what).__name__}"}
        text = f"{entry.to} is told {_struct(what)}"
    elif entry.source == "timer" and isinstance(what, tuple):
        kinds = {"timer", str(what[0])}
        text = f"{entry.to} timer {'/'.join(map(str, what))}"
    else:
        kinds = {entry.source}
        text = f"{entry.to} {entry.source}"
    return f"{entry.time} {text}" if kinds & shown.kinds else None


def _struct(value: Struct) -> str:
    """Kind and fields; numbers of questions and the like are left to whoever reads the hash."""
    parts = [
        f"{name}={value_in_words(getattr(value, name))}"
        for name in value.__struct_fields__
        if getattr(value, name) is not None
    ]
    return " ".join([type(value).__name__, *parts])


def value_in_words(value: Any) -> str:
    match value:
        case Struct() if hasattr(value, "address"):
            return str(value.address)  # a member is known by its address
        case Struct() if hasattr(value, "arcs"):
            return " ".join(f"({after},{upto}]" for after, upto in value.arcs()) or "{}"
        case Struct():
            inner = ", ".join(
                value_in_words(getattr(value, name)) for name in value.__struct_fields__
            )
            return f"{type(value).__name__}({inner})"
        case dict():
            inner = ", ".join(f"{name}={value_in_words(one)}" for name, one in value.items())
            return f"{{{inner}}}"
        case tuple() | list():
            return f"[{' '.join(value_in_words(one) for one in value)}]"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)
