"""A batch of events as the index reads it: codes, and text columns by their distinct values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.coders import NULL_CODE, BytesCoder, Coder
from crossroads.model.atoms import Dimension
from crossroads.model.columnkeys import backwards, binary_buffers, byte_keys, int_keys
from crossroads.model.schema import Schema
from crossroads.model.types import Type, Value


@dataclass(frozen=True)
class TextColumn:
    """Distinct values of a text attribute, and which of them each event has (-1: NULL)."""

    values: pa.Array  # large_binary
    index: Int32Array

    @cached_property
    def buffers(self) -> tuple[npt.NDArray[np.uint8], Int64Array]:
        return binary_buffers(self.values)


class Batch:
    """Wraps a table of valid events (columns as in `Schema.arrow`); conversions are made once."""

    def __init__(self, schema: Schema, table: pa.Table | pa.RecordBatch) -> None:
        self.schema = schema
        self.table = table
        self.size = table.num_rows
        self._columns: dict[str, pa.Array] = {}
        self._texts: dict[str, TextColumn] = {}
        self._events: dict[int, Mapping[str, Value]] = {}
        self._keys: dict[str, Int64Array] = {}
        self._valid: dict[str, npt.NDArray[np.bool_]] = {}

    def column(self, name: str) -> pa.Array:
        if name not in self._columns:
            column = self.table.column(name)
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
            wanted = self.schema.attribute(name).type.arrow
            self._columns[name] = column if column.type == wanted else column.cast(wanted)
        return self._columns[name]

    def valid(self, name: str) -> npt.NDArray[np.bool_]:
        if name not in self._valid:
            self._valid[name] = np.asarray(self.column(name).is_valid())
        return self._valid[name]

    def keys(self, name: str) -> Int64Array:
        """64-bit keys of an attribute whose type has them; anything where it is NULL."""
        if name not in self._keys:
            self._keys[name] = int_keys(self.schema.attribute(name).type, self.column(name))
        return self._keys[name]

    def text(self, name: str) -> TextColumn:
        if name not in self._texts:
            encoded = self.column(name).dictionary_encode()
            index = encoded.indices.fill_null(NULL_CODE).to_numpy(zero_copy_only=False)
            values = encoded.dictionary.cast(pa.large_string()).cast(pa.large_binary())
            self._texts[name] = TextColumn(values, index)
        return self._texts[name]

    def codes(self, dimension: Dimension, type_: Type, coder: Coder) -> Int32Array:
        if isinstance(coder, BytesCoder):
            if not type_.is_text:
                column = self.column(dimension.attribute)
                return self._masked(dimension, coder.encode_bytes(byte_keys(type_, column)))
            text = self.text(dimension.attribute)
            values = backwards(text.values) if dimension.backwards else text.values
            # One code more than there are values: NULL is index -1, the last one.
            of_values = np.append(coder.encode_bytes(values), np.int32(NULL_CODE))
            return of_values[text.index]
        return self._masked(dimension, coder.encode(self.keys(dimension.attribute)))

    def _masked(self, dimension: Dimension, codes: Int32Array) -> Int32Array:
        if self.column(dimension.attribute).null_count:
            codes[~self.valid(dimension.attribute)] = NULL_CODE
        return codes

    def event(self, row: int) -> Mapping[str, Value]:
        """One event as plain values, for the definition, which may ask for it many times."""
        if row not in self._events:
            self._events[row] = self.table.slice(row, 1).to_pylist()[0]
        return self._events[row]


def batch_of_event(schema: Schema, event: Mapping[str, Value]) -> Batch:
    columns = [pa.array([event.get(a.name)], a.type.arrow) for a in schema.attributes]
    return Batch(schema, pa.Table.from_arrays(columns, schema=schema.arrow))
