"""Pairs as Parquet pages of our own: what pyarrow writes of the same pairs, to every reader."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crossroads import __version__
from crossroads.matching.index import Matches
from crossroads.model.schema import Schema
from crossroads.pipeline.notify import (
    MatchedEvents,
    Notify,
    Part,
    Receivers,
    notification_table,
)
from crossroads.pipeline.pairpages import Names, PairFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema.from_toml('name = "t"\nid = "id"\n[attributes]\nid = "string"')
Batches = Sequence[Sequence[Sequence[int]]]  # per event of a batch the ordinals that it matches


def matched(batches: Batches) -> list[MatchedEvents]:
    """Ids tell batch and event, and are slices of a longer column, as they are in a run."""
    found = []
    for number, lists in enumerate(batches):
        ids = pa.array(["before", *(f"e{number}.{at}" for at in range(len(lists))), "after"])[1:-1]
        offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        ordinals = np.array([one for some in lists for one in some], np.int32)
        table = pa.table({"id": ids})
        rows = np.arange(len(lists), dtype=np.int64)
        found.append(MatchedEvents(table, ids, rows, Matches(offsets, ordinals)))
    return found


def plain(notify: Notify, receivers: Receivers, batches: list[MatchedEvents]) -> pa.Table:
    """The plain version: a table of dictionary arrays, written and read by pyarrow."""
    told = [
        MatchedEvents(one.table, one.ids, one.ordinals, receivers.told(one.matches, notify.per))
        for one in batches
    ]
    tables = [notification_table(notify, receivers, one) for one in told]
    names = [pa.field(name, pa.string()) for name in notify.columns]
    empty = pa.schema(names).empty_table()
    stream = io.BytesIO()
    pq.write_table(pa.concat_tables([empty, *(t.cast(empty.schema) for t in tables)]), stream)
    return pq.read_table(stream)


def pages(
    receivers: Receivers, notify: Notify, batches: list[MatchedEvents], **limits: int
) -> io.BytesIO:
    stream = io.BytesIO()
    file = PairFile(stream, notify.columns, **limits)
    for one in batches:
        told = receivers.told(one.matches, notify.per)
        file.write(one.ids, told, receivers.columns(notify.per))
    file.close()
    return stream


def check_layout(stream: io.BytesIO, rows: int, rows_per_group: int) -> None:
    """What the footer says, of itself and of where the pages are."""
    about = pq.ParquetFile(stream).metadata
    assert about.created_by == f"crossroads version {__version__}"
    assert about.num_rows == rows
    groups = [about.row_group(at) for at in range(about.num_row_groups)]
    assert sum(group.num_rows for group in groups) == rows
    assert all(0 < group.num_rows <= rows_per_group for group in groups)
    position = 4  # after the magic bytes; then page after page without a gap, to the footer
    for group in groups:
        chunks = [group.column(at) for at in range(group.num_columns)]
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        for chunk in chunks:
            assert chunk.num_values == group.num_rows
            assert chunk.dictionary_page_offset == position < chunk.data_page_offset
            position += chunk.total_compressed_size
    assert position + about.serialized_size + 8 == len(stream.getvalue())


@st.composite
def cases(draw: st.DrawFn) -> tuple[Receivers, Batches]:
    size = draw(st.sampled_from([1, 2, 3, 9, 40]))
    marks = draw(st.lists(st.text(max_size=3), min_size=size, max_size=size))
    ids = [f"{at}{mark}" for at, mark in enumerate(marks)]
    subscribers = st.sampled_from(draw(st.lists(st.text(), min_size=1, max_size=5)))
    whose = draw(st.lists(subscribers, min_size=size, max_size=size))
    kind = draw(st.sampled_from([pa.string(), pa.large_string()]))
    ordinals = st.integers(0, size - 1)
    # No list has an ordinal twice, and the usual event matches nothing or everything.
    lists = st.lists(ordinals, unique=True, max_size=size) | st.sampled_from(
        [[], list(range(size))]
    )
    batches = draw(st.lists(st.lists(lists, max_size=12), max_size=4))
    return Receivers(pa.array(ids, kind), pa.array(whose, kind)), batches


ONE = Receivers(pa.array(["s0"]), pa.array(["ann"]))


@given(
    cases(),
    st.sampled_from(["subscription", "subscriber"]),
    st.sampled_from([1, 7, 8, 50, 4 << 20]),
    st.sampled_from([1, 3, 8, 64, 1 << 17]),
    st.sampled_from([1, 40, 256 << 20]),
    st.sampled_from([1, 10, 1 << 18]),
)
@example((ONE, []), "subscription", 8, 8, 1 << 20, 1)
@example((ONE, [[[]], [[0]] * 9]), "subscription", 8, 8, 1 << 20, 1)
@example((ONE, [[[0]], [[0]] * 12, [[], [0]]]), "subscription", 100, 8, 1 << 20, 10)
def test_pages_hold_what_pyarrow_writes(
    case: tuple[Receivers, Batches],
    per: Any,
    rows_per_group: int,
    rows_per_page: int,
    dictionary_bytes_max: int,
    pairs_held_max: int,
) -> None:
    receivers, batches = case
    notify = Notify(SCHEMA, per=per)
    events = matched(batches)
    stream = pages(
        receivers,
        notify,
        events,
        rows_per_group=rows_per_group,
        rows_per_page=rows_per_page,
        dictionary_bytes_max=dictionary_bytes_max,
        pairs_held_max=pairs_held_max,
    )
    expected = plain(notify, receivers, events)
    found = pq.read_table(stream)
    found.validate(full=True)
    assert found.schema == expected.schema
    assert found.equals(expected)
    check_layout(stream, expected.num_rows, rows_per_group)


def dense(events: int, size: int) -> tuple[Receivers, list[MatchedEvents]]:
    """Half of the events match many, a few nothing, one everything; the others one each, so that
    their ids are packed."""
    dice = np.random.default_rng(7)
    counts = np.ones(events, np.int64)
    counts[: events // 2] = dice.integers(0, 60, events // 2)
    counts[events // 4] = size
    offsets = np.concatenate([[0], np.cumsum(counts)])
    ordinals = dice.integers(0, size, offsets[-1])
    everything = offsets[events // 4]
    ordinals[everything : everything + size] = np.arange(size)
    ids = pa.array([f"event {at}" for at in range(events)])
    receivers = Receivers(
        pa.array([f"s{at:05d}" for at in range(size)]),
        pa.array([f"u{at % 977}" for at in range(size)]),
    )
    matches = Matches(offsets, ordinals.astype(np.int32))
    rows = np.arange(events, dtype=np.int64)
    return receivers, [MatchedEvents(pa.table({"id": ids}), ids, rows, matches)]


@pytest.mark.parametrize("per", ["subscription", "subscriber"])
def test_several_pages_and_wide_codes(per: Any) -> None:
    receivers, events = dense(3_000, 70_000)
    notify = Notify(SCHEMA, per=per)
    stream = pages(receivers, notify, events, rows_per_page=1_000)
    expected = plain(notify, receivers, events)
    assert len(receivers.ids) > 1 << 16  # codes wider than two bytes
    assert pq.read_table(stream).equals(expected)
    check_layout(stream, expected.num_rows, 4 << 20)


@pytest.mark.parametrize("per", ["subscription", "subscriber"])
def test_a_part_is_written_in_pages(per: Any, tmp_path: Path) -> None:
    receivers, events = dense(50, 300)
    notify = Notify(SCHEMA, per=per)
    with Part(tmp_path, 0, notify, receivers) as part:
        for one in events * 2:
            part.write(one)
    (path,) = (tmp_path / "notifications").iterdir()
    assert pq.ParquetFile(path).metadata.created_by.startswith("crossroads")
    expected = plain(notify, receivers, events * 2)
    assert part.rows == part.told == expected.num_rows
    assert pq.read_table(path).equals(expected)


def test_a_dictionary_is_bounded_by_the_rows_that_use_it() -> None:
    names = Names(pa.array(["a" * 6, "b" * 96, "c"]))
    assert names.rows_within(115, rows=9) == 9  # all of them take 103 bytes and 4 for each
    assert names.rows_within(114, rows=9) == 1
    assert names.rows_within(10, rows=9) == 1  # a single text that is longer must go somewhere
    assert Names(pa.array([], pa.string())).rows_within(1, rows=9) == 9


def test_the_id_of_an_event_is_a_run_or_packed_whichever_is_shorter() -> None:
    def code_bytes(lists: list[list[int]]) -> int:
        events = matched([lists])
        names = sum(4 + len(each) for each in events[0].ids.to_pylist())
        stream = pages(ONE, Notify(SCHEMA), events)
        column = pq.ParquetFile(stream).metadata.row_group(0).column(0)
        return int(column.total_uncompressed_size) - names

    heads = 80  # bytes of two page headers and of the levels
    assert code_bytes([[0] * 4096]) < heads
    assert code_bytes([[0] * 60] * 40) < 40 * 2 + heads
    assert code_bytes([[0]] * 4096) < 4096 * 12 // 8 + heads


def test_few_rows_store_few_names() -> None:
    receivers = Receivers(
        pa.array([f"s{at}" for at in range(10_000)]), pa.array(["someone"] * 10_000)
    )
    stream = pages(receivers, Notify(SCHEMA), matched([[[9_999, 3], [3]]]))
    assert len(stream.getvalue()) < 1_000
    (names,) = pq.read_table(stream, read_dictionary=["subscription_id"])["subscription_id"].chunks
    assert names.dictionary.to_pylist() == ["s3", "s9999"]


# -- other readers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A part with several row groups and pages, one of a single name, one without rows."""
    notify = Notify(SCHEMA)
    where = tmp_path_factory.mktemp("parts")
    receivers, events = dense(400, 900)
    limits = {"rows_per_group": 5_000, "rows_per_page": 150}
    several = pages(receivers, notify, events, **limits)
    single = matched([[[0], [], [0]]])
    for number, stream in enumerate([several, pages(ONE, notify, single), pages(ONE, notify, [])]):
        (where / f"part-{number}.parquet").write_bytes(stream.getvalue())
    expected = [plain(notify, receivers, events), plain(notify, ONE, single)]
    return where, pa.concat_tables(expected)


def rows(table: pa.Table) -> list[tuple[str, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_duckdb_reads_it(folder: tuple[Path, pa.Table]) -> None:
    duckdb = pytest.importorskip("duckdb")
    where, expected = folder
    found = duckdb.sql(f"SELECT * FROM '{where}/*.parquet'")
    assert (found.columns, sorted(found.fetchall())) == (expected.column_names, rows(expected))
    one = duckdb.sql(f"SELECT * FROM '{where}/*.parquet' WHERE subscription_id = 's00007'")
    assert sorted(one.fetchall()) == [row for row in rows(expected) if row[1] == "s00007"]


def test_polars_reads_it(folder: tuple[Path, pa.Table]) -> None:
    polars = pytest.importorskip("polars")
    where, expected = folder
    found = polars.read_parquet(where / "*.parquet")
    assert (found.columns, sorted(found.rows())) == (expected.column_names, rows(expected))


@pytest.mark.spark
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_it(
    folder: tuple[Path, pa.Table], spark: SparkSession, vectorized: str
) -> None:
    where, expected = folder
    setting = "spark.sql.parquet.enableVectorizedReader"
    before = spark.conf.get(setting)
    spark.conf.set(setting, vectorized)
    try:
        frame = spark.read.parquet(str(where))
        assert frame.columns == expected.column_names
        assert sorted(map(tuple, frame.collect())) == rows(expected)
        one = frame.where("subscription_id = 's00007'")  # pushed down to the dictionaries
        assert sorted(map(tuple, one.collect())) == [r for r in rows(expected) if r[1] == "s00007"]
        assert frame.where("subscriber = 'nobody'").count() == 0
        (empty,) = where.glob("part-2.parquet")
        assert spark.read.parquet(str(empty)).schema == frame.schema
    finally:
        spark.conf.set(setting, before)
