"""What a mapping was fitted to: frozen, serialisable, hashed. Equal specs, equal keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field
from typing import Any

from crossroads.errors import UsageError
from crossroads.mapping.axes import Axis

KEY_BITS_MAX = 62  # keys and the ends of ranges stay within signed 64-bit integers


@dataclass(frozen=True)
class MappingSpec:
    name: str
    schema: str  # the hash of the schema it was fitted for
    bits: int  # m: keys are 0 … 2**m - 1
    axes: tuple[Axis, ...]
    parameters: Dict[str, Any] = field(default_factory=dict)  # plain JSON, by mapping
    notes: tuple[str, ...] = ()  # what was taken from the data, said to whoever asked for it

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def id(self) -> str:
        """Of all that decides a key; the notes do not."""
        return hashlib.sha256(json.dumps(self._deciding(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps({**self._deciding(), "notes": list(self.notes)}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> MappingSpec:
        read = json.loads(text)
        axes = tuple(Axis.from_json(one) for one in read["axes"])
        return MappingSpec(
            read["name"],
            read["schema"],
            read["bits"],
            axes,
            read["parameters"],
            tuple(read["notes"]),
        )

    def _deciding(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "schema": self.schema,
            "bits": self.bits,
            "axes": [axis.to_json() for axis in self.axes],
            "parameters": dict(self.parameters),
        }


def check_bits(bits: int) -> None:
    if not 1 <= bits <= KEY_BITS_MAX:
        raise UsageError(f"m must be 1 to {KEY_BITS_MAX} bits, not {bits}")


def need_axes(spec: MappingSpec) -> None:
    if not spec.axes:
        raise UsageError(
            f"{spec.name} needs an attribute to place subscriptions by",
            hint="give attributes that subscriptions constrain",
        )
