"""What mappings share whose keys are one code over all axes: an event has one key, its code with
zeros at its end to fill the key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.errors import UsageError
from crossroads.mapping.axes import Axis
from crossroads.mapping.contract import KeyTable, Mapping
from crossroads.mapping.keyranges import one_key_each
from crossroads.mapping.spec import MappingSpec, need_axes
from crossroads.model.schema import Schema


class CodedMapping(Mapping):
    one_key = True

    def __init__(self, spec: MappingSpec, schema: Schema) -> None:
        super().__init__(spec, schema)
        need_axes(spec)
        self.code_bits = self.code_bits_of(spec.axes)
        if self.code_bits > spec.bits:
            raise UsageError(
                f"m = {spec.bits} bits are too few for {self._what_takes_more()}",
                hint=f"it takes {self.code_bits}, or fewer bits per attribute",
            )
        self.shift = spec.bits - self.code_bits

    @staticmethod
    @abstractmethod
    def code_bits_of(axes: Sequence[Axis]) -> int: ...

    def _what_takes_more(self) -> str:
        return f"the {self.code_bits} bits of {len(self.spec.axes)} attributes"

    @classmethod
    def bits_needed(cls, axes: Sequence[Axis], parameters: Dict[str, Any]) -> int:
        return max(1, cls.code_bits_of(axes))

    @property
    def stride(self) -> int:
        return 1 << self.shift

    def keys_of_codes(self, codes: npt.NDArray[np.int64]) -> KeyTable:
        """One for each event."""
        keys = (codes << self.shift).view(np.uint64)
        return KeyTable(one_key_each(keys), keys)
