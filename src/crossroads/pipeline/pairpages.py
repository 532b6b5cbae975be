"""Pairs of an event and who is told, straight from the match to the pages of a Parquet file.

Nothing is expanded: an event's id is one run of its code, as long as its list of matches; the other
columns are names of ordinals, packed a page at a time. What a table of dictionary arrays would hold
(`notify.notification_table`, the plain version of this) is never made. See docs/decisions/0012.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.index import Matches
from crossroads.pipeline.hybrid import (
    LENGTH_BYTES,
    gather,
    gather_distinct,
    packed_bytes,
    renumber,
    texts_bytes,
    width_of,
    write_texts,
)
from crossroads.pipeline.parquetpages import (
    Column,
    Page,
    TextColumnFile,
    dictionary_page,
    packed_page,
    runs_page,
)

ROWS_PER_GROUP = 4 << 20  # large enough for the dictionaries to pay
ROWS_PER_PAGE = 1 << 17  # half a MB of codes at most: in the cache from packing to compressing
DICTIONARY_BYTES_MAX = 256 << 20  # readers hold a dictionary whole
PAIRS_HELD_MAX = 1 << 18  # fewer share a row group: one costs half a millisecond at least


class Names:
    """Texts by ordinal, none of them NULL, and the pages that hold them."""

    def __init__(self, texts: pa.Array) -> None:
        assert texts.null_count == 0, "a dictionary in Parquet has no NULL"
        wide = texts.cast(pa.large_string())
        _, offsets, data = wide.buffers()
        end = wide.offset + len(wide) + 1
        self._data = np.frombuffer(data or b"", np.uint8)
        self._offsets: Int64Array = np.zeros(1, np.int64)
        if len(wide):
            self._offsets = np.frombuffer(offsets, np.int64)[wide.offset : end]
        self._spare: list[Int32Array] = []

    def __len__(self) -> int:
        return self._offsets.size - 1

    @cached_property
    def page(self) -> Page:
        """With all of them; kept, because row groups of all parts have the same."""
        return self.page_of(np.arange(len(self), dtype=np.int32))

    def page_of(self, chosen: Int32Array) -> Page:
        room = np.empty(texts_bytes(self._offsets, chosen), np.uint8)
        write_texts(self._offsets, self._data, chosen, room)
        return dictionary_page(chosen.size, room)

    def renumbered(self, codes: Int32Array) -> tuple[Int32Array, Int32Array]:
        """The ordinals among `codes`, ascending, and for each code its place among them.

        It takes as long as there are codes, however many names there are: the table over all of
        them is tidied up after use and kept. Whoever finds it taken makes another.
        """
        try:
            place = self._spare.pop()
        except IndexError:
            place = np.full(len(self), -1, np.int32)
        used: Int32Array = gather_distinct(codes, place)
        used.sort()
        places: Int32Array = renumber(codes, used, place)
        self._spare.append(place)
        return used, places

    def rows_within(self, dictionary_bytes: int, rows: int) -> int:
        """`rows`, or as many as never need a dictionary larger than that, whatever they name."""
        everything = int(self._offsets[-1] - self._offsets[0]) + LENGTH_BYTES * len(self)
        if everything <= dictionary_bytes:
            return rows
        longest = int(np.diff(self._offsets).max()) + LENGTH_BYTES
        return max(1, min(rows, dictionary_bytes // longest))


@dataclass(frozen=True)
class Coded:
    """A column of a row group: its dictionary, and for each row a code, or a place in `table`
    that has it. The table is only looked into page by page, while the page is in the cache."""

    dictionary: Page
    names: int
    codes: Int32Array
    table: Int32Array | None = None

    def page(self, first: int, last: int) -> Int32Array:
        codes = self.codes[first:last]
        return codes if self.table is None else gather(self.table, codes)


class ByName:
    """A column that says of ordinal o: names[o]."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def coded(self, ordinals: Int32Array) -> Coded:
        """Every group stores its dictionary, so few rows take only what they use of a large one."""
        if ordinals.size >= len(self.names):
            return Coded(self.names.page, len(self.names), ordinals)
        used, codes = self.names.renumbered(ordinals)
        return Coded(self.names.page_of(used), used.size, codes)


class ByOwner:
    """A column that says of ordinal o: names[o], where many have the same name.

    Which have is found out for all of them only when there are more rows than ordinals: telling a
    million names apart takes longer than writing a few rows.
    """

    def __init__(self, names: Names, texts: pa.Array) -> None:
        self.names = names
        self._texts = texts

    @cached_property
    def owner_of(self) -> Int32Array:
        codes = self._encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(codes, np.int32)

    @property
    def owners(self) -> pa.Array:
        return self._encoded.dictionary

    @cached_property
    def owner_names(self) -> Names:
        return Names(self.owners)

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return self._texts.dictionary_encode()

    def coded(self, ordinals: Int32Array) -> Coded:
        if ordinals.size >= len(self.names):
            names = self.owner_names
            return Coded(names.page, len(names), ordinals, self.owner_of)
        used, places = self.names.renumbered(ordinals)
        some = ByOwner(self.names, self._texts.take(pa.array(used)))
        names = some.owner_names
        return Coded(names.page, len(names), places, some.owner_of)


Naming = ByName | ByOwner


class _Told(NamedTuple):
    """A few pairs, on their own: nothing keeps the batch alive that they were found in."""

    ids: pa.Array  # of the events that somebody is told of
    counts: Int64Array  # how many are, of each
    ordinals: Int32Array

    @classmethod
    def of(cls, ids: pa.Array, told: Matches) -> _Told:
        counts = np.diff(told.offsets)
        some = np.flatnonzero(counts)
        # Many batches together may have more text than 32-bit offsets reach.
        texts = ids.take(pa.array(some)).cast(pa.large_string())
        return cls(texts, counts[some], told.ordinals.copy())


def _same(one: Sequence[Naming], other: Sequence[Naming]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class PairFile:
    """The pairs of one part; the first column is the event's id. One writer."""

    def __init__(
        self,
        stream: BinaryIO,
        columns: Sequence[str],
        *,
        rows_per_group: int = ROWS_PER_GROUP,
        rows_per_page: int = ROWS_PER_PAGE,
        dictionary_bytes_max: int = DICTIONARY_BYTES_MAX,
        pairs_held_max: int = PAIRS_HELD_MAX,
    ) -> None:
        self._file = TextColumnFile(stream, columns)
        self._rows_per_group = rows_per_group
        self._rows_per_page = rows_per_page
        self._dictionary_bytes_max = dictionary_bytes_max
        self._pairs_held_max = pairs_held_max
        self._held: list[_Told] = []
        self._held_receivers: Sequence[Naming] = ()
        self.rows = 0

    def write(self, ids: pa.Array, told: Matches, receivers: Sequence[Naming]) -> None:
        """`told` says by event, in the order of `ids`, the ordinals of who is told: `receivers`."""
        rows = told.ordinals.size
        self.rows += rows
        if rows >= self._pairs_held_max or not _same(receivers, self._held_receivers):
            self._write_held()
        if rows >= self._pairs_held_max:
            self._write_told(Names(ids), told, receivers)
        elif rows:
            self._held_receivers = receivers
            self._held.append(_Told.of(ids, told))
            if sum(one.ordinals.size for one in self._held) >= self._pairs_held_max:
                self._write_held()

    def close(self) -> None:
        self._write_held()
        self._file.close()

    def _write_held(self) -> None:
        if not self._held:
            return
        ids, counts, ordinals = zip(*self._held, strict=True)
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        told = Matches(offsets, np.concatenate(ordinals))
        self._held = []
        self._write_told(Names(pa.concat_arrays(ids)), told, self._held_receivers)

    def _write_told(self, events: Names, told: Matches, receivers: Sequence[Naming]) -> None:
        names = [events, *(column.names for column in receivers)]
        rows = self._rows_per_group
        for one in names:
            rows = one.rows_within(self._dictionary_bytes_max, rows)
        for first in range(0, told.ordinals.size, rows):
            last = min(first + rows, told.ordinals.size)
            self._write_group(events, told, receivers, first, last)

    def _write_group(
        self,
        events: Names,
        told: Matches,
        receivers: Sequence[Naming],
        first: int,
        last: int,
    ) -> None:
        bounds = np.clip(told.offsets, first, last)
        counts = bounds[1:] - bounds[:-1]
        some = np.flatnonzero(counts).astype(np.int32)
        columns: list[Column] = [(events.page_of(some), self._event_pages(counts[some]))]
        ordinals = told.ordinals[first:last]
        columns += [self._receiver_column(column.coded(ordinals)) for column in receivers]
        self._file.write_group(last - first, columns)

    def _event_pages(self, counts: Int64Array) -> Iterator[Page]:
        """Event i of the group's dictionary is told counts[i] times, one after the other."""
        width = width_of(counts.size)
        run_bytes = 1 + (width + 7) // 8
        ends = np.cumsum(counts)
        for first, last in self._page_rows(int(ends[-1])):
            begin = int(ends.searchsorted(first, "right"))
            end = int(ends.searchsorted(last, "left")) + 1
            runs = counts[begin:end].copy()
            runs[0] = ends[begin] - first  # a run may begin on the page before
            runs[-1] -= ends[end - 1] - last  # and go on after this one
            if runs.size * run_bytes <= packed_bytes(last - first, width):
                yield runs_page(runs, begin, width)
            else:  # most events have one match or two
                codes = np.repeat(np.arange(begin, end, dtype=np.int32), runs)
                yield packed_page(codes, width)

    def _receiver_column(self, column: Coded) -> Column:
        rows = self._page_rows(column.codes.size)
        return column.dictionary, _packed((column.page(*here) for here in rows), column.names)

    def _page_rows(self, rows: int) -> Iterator[tuple[int, int]]:
        for first in range(0, rows, self._rows_per_page):
            yield first, min(first + self._rows_per_page, rows)


def _packed(pages: Iterable[Int32Array], names: int) -> Iterator[Page]:
    width = width_of(names)
    for codes in pages:
        if names == 1:
            yield runs_page(np.array([codes.size], np.int64), 0, width)
        else:
            yield packed_page(codes, width)
