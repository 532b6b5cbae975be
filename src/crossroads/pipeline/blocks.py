"""Whole Arrow tables as rows of Spark's: a shuffle then moves a few large blocks, not every row.

A block says which partition it goes to (`place`) and what it belongs to (`kind`, `number`), and
holds a table as bytes. Spark moves and sorts thousands of blocks where it would otherwise have to
convert, move and sort as many million rows; what is in them stays columns all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (Spark's own habit)

PLACE, KIND, NUMBER, TURN, DATA = "place", "kind", "number", "turn", "data"

BLOCK = T.StructType(
    [
        *(T.StructField(name, T.IntegerType()) for name in (PLACE, KIND, NUMBER)),
        T.StructField(TURN, T.LongType()),
        T.StructField(DATA, T.BinaryType()),
    ]
)
_ARROW = pa.schema(
    [
        *((name, pa.int32()) for name in (PLACE, KIND, NUMBER)),
        (TURN, pa.int64()),
        (DATA, pa.binary()),
    ]
)

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Block:
    place: int
    kind: int
    number: int
    turn: int  # its place among the blocks of that kind and number
    data: pa.Buffer

    @property
    def table(self) -> pa.Table:
        """Without copying: the table keeps the bytes alive."""
        return pa.ipc.open_stream(self.data).read_all()


def packed(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write(table)
    return sink.getvalue()


def batch_of(blocks: Sequence[Block]) -> pa.RecordBatch:
    columns = [[getattr(one, name) for one in blocks] for name in (PLACE, KIND, NUMBER, TURN)]
    columns.append([one.data.to_pybytes() for one in blocks])
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)],
        schema=_ARROW,
    )


def blocks_of(batches: Batches) -> Iterator[Block]:
    for batch in batches:
        numbers = zip(*(batch.column(n).to_pylist() for n in _ARROW.names[:-1]), strict=True)
        for (place, kind, number, turn), data in zip(numbers, batch.column(DATA), strict=True):
            yield Block(place, kind, number, turn, data.as_buffer())


def grouped(batches: Batches) -> Iterator[tuple[int, int, Iterator[Block]]]:
    """(kind, number, its blocks in turn) of a partition that `gathered` made."""
    for (kind, number), some in groupby(blocks_of(batches), lambda one: (one.kind, one.number)):
        yield kind, number, some


def made(frame: DataFrame, make: Callable[[Batches], Iterator[pa.RecordBatch]]) -> DataFrame:
    """A frame of blocks: those that `make` gives for each partition."""
    return frame.mapInArrow(make, BLOCK)


def gathered(blocks: DataFrame, partitions: int) -> DataFrame:
    """Every block at its place, those of one number side by side, kind by kind, in turn.

    The number of partitions is our own, so adaptive execution leaves them as they are; and the
    number is in the block, so nobody has to believe that.
    """
    placed = blocks.repartitionById(partitions, PLACE)
    return placed.sortWithinPartitions(NUMBER, KIND, TURN)
