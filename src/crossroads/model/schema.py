"""The schema: named, typed attributes with optional domains, and which of them identify an event.

From TOML, or from the same structure as a Python mapping:

    name = "stocks"
    id = ["date", "symbol"]

    [attributes]
    date   = { type = "date", min = "1998-01-02", max = "2002-12-31" }
    symbol = { type = "string" }
    open   = { type = "double", min = 0, max = 500 }

`min`/`max` are the domain in which values are expected: mappings and generators use it, and a value
outside is still matched like any other. With `domains = "enforce"` such events are rejected.
`values = [...]` makes an enumeration; anything else is always rejected. `format` is how a date or
timestamp is written in the input (`%d-%m-%Y %H:%M`). Names resolve without regard to case.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from crossroads.errors import SchemaError
from crossroads.model.types import Type, Value, parse_type
from crossroads.model.values import canonical, text_of

ATTRIBUTES_MAX = 1000  # an event is read column by column; beyond this a schema is a mistake
RESERVED_PREFIX = "_"  # the pipeline adds columns of its own, all of which start with this


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute: what it is called, what it holds, and where its values are expected."""

    name: str
    type: Type
    min: Value = None
    max: Value = None
    values: tuple[Value, ...] = ()
    format: str | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name.startswith(RESERVED_PREFIX) or "`" in self.name:
            raise SchemaError(f"attribute name {self.name!r} is empty, starts with _ or contains `")
        if self.format is not None and not self.type.is_time:
            raise SchemaError(f"attribute {self.name}: only dates and timestamps have a format")
        if self.values and (self.min is not None or self.max is not None):
            raise SchemaError(f"attribute {self.name}: give values or min/max, not both")
        if self.min is not None and self.max is not None and not self.min <= self.max:  # type: ignore[operator]
            raise SchemaError(f"attribute {self.name}: min {self.min} is above max {self.max}")

    def describe(self) -> dict[str, Any]:
        """As it would stand in TOML, absent parts left out."""
        parts: dict[str, Any] = {"type": str(self.type)}
        if self.min is not None:
            parts["min"] = _plain(self.min)
        if self.max is not None:
            parts["max"] = _plain(self.max)
        if self.values:
            parts["values"] = [_plain(value) for value in self.values]
        if self.format is not None:
            parts["format"] = self.format
        return parts


@dataclass(frozen=True)
class Schema:
    """Attributes in order, the attributes that identify an event, and how domains are treated."""

    name: str
    id: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    enforce_domains: bool = False
    _by_name: dict[str, Attribute] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.attributes:
            raise SchemaError(f"schema {self.name!r} has no attributes")
        if len(self.attributes) > ATTRIBUTES_MAX:
            raise SchemaError(f"schema {self.name!r} has over {ATTRIBUTES_MAX} attributes")
        by_name: dict[str, Attribute] = {}
        for attribute in self.attributes:
            other = by_name.setdefault(attribute.name.casefold(), attribute)
            if other is not attribute:
                raise SchemaError(
                    f"attributes {other.name!r} and {attribute.name!r} differ only in case",
                    hint="names resolve without regard to case, as in Spark",
                )
        object.__setattr__(self, "_by_name", by_name)
        if not self.id:
            raise SchemaError(
                f"schema {self.name!r} does not say which attributes identify an event",
                hint='add e.g. id = ["date", "symbol"]',
            )
        object.__setattr__(self, "id", tuple(self.attribute(name).name for name in self.id))

    # -- construction ------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        try:
            return cls.from_mapping(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"not valid TOML: {error}") from error

    @classmethod
    def from_mapping(cls, parts: Mapping[str, Any]) -> Schema:
        unknown = set(parts) - {"name", "id", "attributes", "domains"}
        if unknown:
            raise SchemaError(
                f"unknown key {min(unknown)!r} in the schema",
                hint="known keys: name, id, domains, attributes",
            )
        if not isinstance(parts.get("attributes"), Mapping):
            raise SchemaError("the schema has no [attributes] table")
        domains = parts.get("domains", "hint")
        if domains not in ("hint", "enforce"):
            raise SchemaError(f'domains = {domains!r} is neither "hint" nor "enforce"')
        identity = parts.get("id", ())
        return cls(
            name=str(parts.get("name", "events")),
            id=(identity,) if isinstance(identity, str) else tuple(identity),
            attributes=tuple(_attributes(parts["attributes"])),
            enforce_domains=domains == "enforce",
        )

    def to_toml(self) -> str:
        lines = [f"name = {_toml(self.name)}", f"id = {_toml(list(self.id))}"]
        if self.enforce_domains:
            lines.append('domains = "enforce"')
        lines += ["", "[attributes]"]
        for attribute in self.attributes:
            inside = ", ".join(
                f"{key} = {_toml(value)}" for key, value in attribute.describe().items()
            )
            lines.append(f"{_toml_key(attribute.name)} = {{ {inside} }}")
        return "\n".join(lines) + "\n"

    # -- questions ---------------------------------------------------------------------------

    def find(self, name: str) -> Attribute | None:
        return self._by_name.get(name.casefold())

    def attribute(self, name: str) -> Attribute:
        found = self.find(name)
        if found is None:
            raise SchemaError(
                f"no attribute {name!r} in schema {self.name!r}", hint=self.near(name)
            )
        return found

    def near(self, name: str) -> str:
        """A hint for a name that does not exist."""
        close = difflib.get_close_matches(name.casefold(), self._by_name, n=1, cutoff=0.5)
        if close:
            return f"did you mean {self._by_name[close[0]].name!r}?"
        names = [attribute.name for attribute in self.attributes]
        return "attributes: " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def arrow(self) -> pa.Schema:
        """Columns of a table of valid events."""
        return pa.schema([(a.name, a.type.arrow) for a in self.attributes])

    @cached_property
    def hash(self) -> str:
        """Of the content: equal for equal schemas, wherever and whenever they were read."""
        return hashlib.sha256(json.dumps(self.describe()).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": list(self.id),
            "domains": "enforce" if self.enforce_domains else "hint",
            "attributes": {a.name: a.describe() for a in self.attributes},
        }

    def changes_from(self, other: Mapping[str, Any]) -> list[str]:
        """What differs from a described schema, one line each, for people."""
        mine, theirs = self.describe(), other
        found = [
            f"{key}: {theirs.get(key)!r} became {mine[key]!r}"
            for key in ("name", "id", "domains")
            if mine[key] != theirs.get(key)
        ]
        ours, before = mine["attributes"], theirs.get("attributes", {})
        found += [f"attribute {name} was removed" for name in before if name not in ours]
        found += [f"attribute {name} was added" for name in ours if name not in before]
        found += [
            f"attribute {name}: {before[name]} became {ours[name]}"
            for name in ours
            if name in before and before[name] != ours[name]
        ]
        if not found and list(before) != list(ours):
            found.append("the order of the attributes changed")
        return found


def _attributes(parts: Mapping[str, Any], prefix: str = "") -> Iterable[Attribute]:
    for key, value in parts.items():
        name = prefix + key
        if isinstance(value, str):
            yield Attribute(name=name, type=parse_type(value))
        elif isinstance(value, Mapping) and isinstance(value.get("type"), str):
            yield _attribute(name, value)
        elif isinstance(value, Mapping) and value:
            # TOML reads an unquoted `order.total = {…}` as nested tables.
            yield from _attributes(value, prefix=name + ".")
        else:
            raise SchemaError(f"attribute {name!r} needs a type", hint='{ type = "double" }')


def _attribute(name: str, parts: Mapping[str, Any]) -> Attribute:
    unknown = set(parts) - {"type", "min", "max", "values", "format"}
    if unknown:
        raise SchemaError(
            f"attribute {name}: unknown key {min(unknown)!r}",
            hint="known keys: type, min, max, values, format",
        )
    type_ = parse_type(parts["type"])
    written = parts.get("format")

    def value(raw: Any) -> Value:
        try:
            return canonical(type_, raw, written)
        except ValueError as error:
            with suppress(ValueError):
                return canonical(type_, raw)  # our own form, in which `describe` writes it
            raise SchemaError(f"attribute {name}: {error}") from error

    return Attribute(
        name=name,
        type=type_,
        min=value(parts.get("min")),
        max=value(parts.get("max")),
        values=tuple(value(raw) for raw in parts.get("values", ())),
        format=written,
    )


def _plain(value: Value) -> bool | int | float | str:
    """As TOML and JSON can carry it and `from_mapping` reads it back."""
    if isinstance(value, bool | int | float | str):
        return value
    assert value is not None
    return text_of(value)


def _toml_key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _toml(name)


def _toml(value: Any) -> str:
    """A TOML value. JSON's form of it, but for characters, infinities and NaN."""
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, float):
        return repr(value)  # inf and nan are TOML's words too
    # TOML knows no surrogate pairs, so no escapes beyond ASCII; it wants DEL escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
