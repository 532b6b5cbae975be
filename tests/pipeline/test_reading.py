"""Every row of the input is an event or a reject with its line, however the file is cut."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import SourceError
from crossroads.model.csvrows import BROKEN, find_rows
from crossroads.model.schema import Schema
from crossroads.pipeline.reading import EventBatch, Reject, read_rows, read_split, rejects_of_rows
from crossroads.pipeline.source import fingerprint, list_files, plan_splits, warnings_of

SCHEMA = Schema.from_toml(
    """
    name = "orders"
    id = ["n"]
    [attributes]
    n = { type = "int" }
    note = { type = "string" }
    price = { type = "double" }
    "order.total" = { type = "decimal(10,2)" }
    """
)


def read(path: Path, schema: Schema = SCHEMA, target: int = 1 << 20) -> EventBatch:
    """Everything of a path as one batch."""
    splits = plan_splits(list_files(path), schema, target)
    assert [split.number for split in splits] == list(range(len(splits)))
    batches = [
        batch for split in pickle.loads(pickle.dumps(splits)) for batch in read_split(split, schema)
    ]
    tables = [batch.table for batch in batches] or [schema.arrow.empty_table()]
    return EventBatch(
        pa.concat_tables(tables),
        [text for batch in batches for text in batch.ids.to_pylist()],
        [row for batch in batches for row in batch.rows.tolist()],
        [line for batch in batches for line in batch.lines.tolist()],
        [reject for batch in batches for reject in batch.rejects],
    )


def places(rejects: list[Reject]) -> list[tuple[int, str]]:
    return [(reject.line, reject.reason) for reject in rejects]


# -- CSV ---------------------------------------------------------------------------------------


def test_csv_with_everything_that_can_go_wrong(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(
        b"\xef\xbb\xbfn,Note,price\r\n"
        b"1,plain,1.5\r\n"
        b"\r\n"
        b'2,"two\nlines, one ""field""",2\r\n'
        b"3,too few\n"
        b"4,too,many,fields\n"
        b"x,bad number,1\n"
        b"6,\xff\xfe,1\n"
        b'7,"",\n'
        b"8,,\n"
        b",no id,1\n"
        b'9,"never closed,1\n'
        b"10,last,1e1"
    )
    batch = read(file)
    assert batch.table.select(["n", "note", "price"]).to_pylist() == [
        {"n": 1, "note": "plain", "price": 1.5},
        {"n": 2, "note": 'two\nlines, one "field"', "price": 2.0},
        {"n": 7, "note": "", "price": None},
        {"n": 8, "note": None, "price": None},
        {"n": 10, "note": "last", "price": 10.0},
    ]
    assert batch.ids == ["1", "2", "7", "8", "10"]
    assert batch.lines == [2, 4, 10, 11, 14]
    assert batch.rows == [0, 1, 6, 7, 10]
    assert places(batch.rejects) == [
        (6, "2 fields where the header has 3"),
        (7, "4 fields where the header has 3"),
        (8, "n: 'x' is not a whole number (int)"),
        (9, "not valid UTF-8"),
        (12, "id attribute 'n' is missing"),
        (13, "a quote is opened in this line and never closed"),
    ]
    assert batch.rejects[2].raw == "x,bad number,1"
    assert batch.rejects[0].file == str(file)


field = st.text(alphabet='ab,"\n\r ü', max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(field, field), max_size=30),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 200),
    st.booleans(),
)
def test_csv_cut_anywhere_gives_what_python_reads(
    tmp_path_factory: pytest.TempPathFactory,
    notes: list[tuple[str, str]],
    end: str,
    target: int,
    quote_all: bool,
) -> None:
    text = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerow(["n", "note", "other"])
    starts = []
    if not quote_all:  # Python's writer leaves a lone CR unquoted, which no reader can undo
        notes = [(one.replace("\r", ""), other.replace("\r", "")) for one, other in notes]
    for number, pair in enumerate(notes):
        # a line end is CR LF, LF or CR, inside quotes too
        starts.append(len(text.getvalue().replace("\r\n", "\n").replace("\r", "\n").split("\n")))
        writer.writerow([number, *pair])
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    file.write_bytes(text.getvalue().encode())
    batch = read(file, target=target)
    assert not batch.rejects
    assert batch.ids == [str(number) for number in range(len(notes))]
    expected = [note if note or quote_all else None for note, _ in notes]
    assert batch.table.column("note").to_pylist() == expected
    assert batch.lines == starts


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='a,"\n\r', max_size=60).map(str.encode), st.integers(1, 12))
def test_rows_are_the_same_in_whatever_pieces_they_arrive(data: bytes, piece: int) -> None:
    whole = find_rows(data, line=1, final=True, row_bytes_max=8)
    found: list[tuple[int, int, int, int]] = []
    kept, line, base = b"", 1, 0
    for start in range(0, len(data) + piece, piece):
        kept += data[start : start + piece]
        rows = find_rows(kept, line=line, final=start >= len(data), row_bytes_max=8)
        for each in zip(rows.starts, rows.ends, rows.lines, rows.fields, strict=True):
            found.append((each[0] + base, each[1] + base, each[2], each[3]))
        kept, line, base = kept[rows.consumed :], rows.next_line, base + rows.consumed
    assert found == list(zip(whole.starts, whole.ends, whole.lines, whole.fields, strict=True))
    assert not kept
    assert whole.next_line >= 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"1", b"x", b",", b",", b'"', b"\n", b"\n", b"\r", b"\xff", b" ", b"\0"]),
        max_size=60,
    ).map(b"".join),
    st.integers(1, 40),
)
def test_of_any_bytes_each_row_is_an_event_or_a_reject(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, target: int
) -> None:
    file = tmp_path_factory.mktemp("bytes") / "a.csv"
    file.write_bytes(b"n,note\n" + data)
    rows = find_rows(data, line=2, final=True)
    whole, cut = read(file), read(file, target=target)
    assert sorted([*whole.lines, *(reject.line for reject in whole.rejects)]) == rows.lines.tolist()
    assert (cut.lines, cut.rejects) == (whole.lines, whole.rejects)
    assert cut.table.equals(whole.table)


def test_one_forgotten_quote_breaks_one_line_only() -> None:
    data = b'1,"a\n' + b"2,b\n" * 50
    rows = find_rows(data, line=1, final=True, row_bytes_max=64)
    assert rows.fields.tolist() == [BROKEN] + [2] * 50
    assert rows.lines.tolist() == list(range(1, 52))


def test_csv_header_only_is_no_events_and_empty_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,note\n")
    (tmp_path / "b.csv").write_text("")
    batch = read(tmp_path)
    assert batch.table.num_rows == 0
    assert batch.rejects == []
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(SourceError, match="is empty"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("note,price", "no column for the id attribute 'n'"),
        ("a,b", "no column is an attribute of schema 'orders'.*it has: a, b"),
        ("n;note;price", "separated by something else than commas"),
        ("n,note,NOTE", "both mean the attribute 'note'"),
        ("n,n,note", "both mean the attribute 'n'"),
    ],
)
def test_headers_that_cannot_work(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(header + "\n")
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path)
    assert "a.csv" in str(caught.value)


def test_unknown_columns_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,nots,zzz\n" + "1,a,b\n" * 100)
    splits = plan_splits(list_files(tmp_path), SCHEMA, 100)
    assert len(splits) > 3
    ignored, absent = warnings_of(splits)
    assert ignored.endswith("ignored: nots (did you mean 'note'?), zzz")
    assert absent.endswith("a.csv: no column for: note, price, order.total: NULL in every event")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_values_in_folder_names_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "Note=x" / "deep" / name
    file.parent.mkdir(parents=True)
    match file.suffix:
        case ".csv":
            file.write_text("n\n1\n")
        case ".jsonl":
            file.write_text('{"n": 1}\n')
        case _:
            pq.write_table(pa.table({"n": [1]}), file)
    with pytest.raises(SourceError, match=r"'note' is in the folder name 'Note=x'.*write the col"):
        read(tmp_path)


def test_folder_names_that_hide_no_value(tmp_path: Path) -> None:
    for folder, text in {"other=x": "n\n1\n", "note=x": "n,note\n2,y\n"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text(text)
    assert read(tmp_path).table.column("note").to_pylist() == ["y", None]


# -- JSON lines --------------------------------------------------------------------------------


def test_json_with_everything_that_can_go_wrong(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"n": 1, "note": "", "price": 1, "order": {"total": 0.10, "x": [1]}}\r\n'
        b'{"N": "2", "order.total": 5}\n'
        b"   \n"
        b'{"n": 3, "note": 7}\n'
        b'{"n": 4, "order": 5, "other": {}}\n'
        b'{"n": 5\n'
        b"[6]\n"
        b'{"n": 7, "note": "\xff"}\n'
        b'{"n": 8, "N": 8}\n'
        b'{"n": 9, "price": [1]}\n'
        b'{"n": 10, "order": {"Total": 1234567890.123}}\n'
        b'{"n": 11, "price": ""}\n'
        b"null\n"
        b'{"n": 12, "note": null}'
    )
    batch = read(file)
    assert batch.ids == ["1", "2", "4", "12"]
    assert [str(each) for each in batch.table.column("order.total").to_pylist()] == [
        *("0.10", "5.00", "None", "None")
    ]
    assert batch.table.column("note").to_pylist() == ["", None, None, None]
    assert batch.lines == [1, 2, 5, 14]
    assert places(batch.rejects) == [
        (4, "note: 7 is not a string"),
        (6, "not valid JSON: Input data was truncated"),
        (7, "not a JSON object: Expected `object`, got `array`"),
        (8, "not valid UTF-8"),
        (9, "two fields that differ only in case: 'n'"),
        (10, "price: [1] is not a number (double)"),
        (11, "order.total: 1234567890.123 does not fit decimal(10,2)"),
        (12, "price: '' is not a number (double)"),
        (13, "not a JSON object: Expected `object`, got `null`"),
    ]
    assert batch.rejects[1].raw == '{"n": 5'


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=30), st.integers(1, 200))
def test_json_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, notes: list[str], target: int
) -> None:
    file = tmp_path_factory.mktemp("json") / "a.ndjson"
    lines = (json.dumps({"n": n, "note": note}) + "\n" for n, note in enumerate(notes))
    file.write_text("".join(lines) or "\n")
    batch = read(file, target=target)
    assert batch.table.column("note").to_pylist() == notes
    assert batch.lines == list(range(1, len(notes) + 1))


def test_json_keeps_the_sign_of_zero_beside_decimals(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"n": 1, "price": -0.0, "order": {"total": -0.0}}\n{"n": 2, "price": 0.1}\n')
    batch = read(file)
    assert list(map(repr, batch.table["price"].to_pylist())) == ["-0.0", "0.1"]
    assert batch.rejects == []


def test_a_json_array_is_not_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[\n{"n": 1}\n]')
    with pytest.raises(SourceError, match="one JSON array, not JSON lines"):
        read(tmp_path)


# -- gzip --------------------------------------------------------------------------------------


def test_gzip_is_read_whole_also_in_several_members(tmp_path: Path) -> None:
    parts = [gzip.compress(f"{n},note\n".encode()) for n in range(50)]
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"n,note\n") + b"".join(parts) + b"\0" * 9)
    assert read(tmp_path).ids == [str(n) for n in range(50)]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_truncated_gzip_gives_all_that_is_whole(tmp_path: Path, name: str) -> None:
    rows = [f"{n},{n * 7919 % 1000003}" for n in range(20_000)]
    if "json" in name:
        rows = [json.dumps({"n": n, "note": row}) for n, row in enumerate(rows)]
        text = "\n".join(rows)
    else:
        text = "\n".join(["n,note", *rows])
    packed = gzip.compress(text.encode())
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    batch = read(tmp_path)
    assert 5_000 < len(batch.ids) < 15_000
    assert batch.ids == [str(n) for n in range(len(batch.ids))]
    (reject,) = batch.rejects
    assert reject.reason == f"truncated gzip after line {batch.lines[-1]}"
    assert reject.line == batch.lines[-1] + 1
    assert rows[len(batch.ids)].startswith(reject.raw)


def test_gzip_that_is_cut_within_its_header_or_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"n,note\n1,a\n")[:12])
    (tmp_path / "b.csv.gz").write_bytes(b"n,note\n1,a\n")
    batch = read(tmp_path)
    assert not batch.ids
    assert [reject.reason.split(":")[0] for reject in batch.rejects] == [
        "truncated gzip after line 0",
        "damaged gzip",
    ]


# -- Parquet -----------------------------------------------------------------------------------


def test_parquet_by_row_groups(tmp_path: Path) -> None:
    table = pa.table(
        {
            "N": pa.array([str(n) if n != 33 else "x" for n in range(100)]),
            "note": pa.array(["a"] * 100).dictionary_encode(),
            "order": pa.array([{"total": n} if n % 2 else None for n in range(100)]),
            "other": pa.array([1] * 100),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    splits = plan_splits(list_files(tmp_path), SCHEMA, 1)
    assert [(split.start, split.end, split.first_line) for split in splits] == [
        (n, n + 1, 10 * n + 1) for n in range(10)
    ]
    batch = read(tmp_path, target=1)
    assert len(batch.ids) == 99
    assert batch.table.column("order.total").to_pylist()[:3] == [None, 1, None]
    (reject,) = batch.rejects
    assert (reject.line, reject.reason) == (34, "n: 'x' is not a whole number (int)")
    assert json.loads(reject.raw) == {"N": "x", "note": "a", "order": {"total": 33}}
    ignored, absent = warnings_of(splits)
    assert ignored.endswith("ignored: other")
    assert absent.endswith("no column for: price: NULL in every event")


def test_parquet_with_a_column_twice(tmp_path: Path) -> None:
    twice = pa.table([[1], ["a"], ["b"]], names=["n", "note", "note"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="both mean the attribute 'note'"):
        read(tmp_path)


def test_parquet_pages_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    table = pa.table({"n": [1, 2], "note": ["first note", "other note"]})
    pq.write_table(
        table,
        file,
        compression="none",
        use_dictionary=False,
        write_statistics=False,  # so that the text is in the page only
        write_page_checksum=True,
    )
    data = file.read_bytes()
    at = data.index(b"first note")
    file.write_bytes(data[:at] + b"F" + data[at + 1 :])
    with pytest.raises(SourceError, match=r"cannot .*a\.parquet"):
        read(file)


def test_parquet_text_that_is_not_utf8(tmp_path: Path) -> None:
    broken = pa.array([b"fine", b"\xff", None], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"n": [1, 2, 3], "note": broken}), tmp_path / "a.parquet")
    batch = read(tmp_path)
    assert batch.ids == ["1", "3"]
    assert places(batch.rejects) == [(2, "not valid UTF-8")]


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read as Parquet"):
        read(tmp_path)


# -- files -------------------------------------------------------------------------------------


def test_which_files_are_data(tmp_path: Path) -> None:
    for name in ("b.CSV", "a.jsonl.gz", ".hidden.csv", "_SUCCESS", "day=1/c.parquet", "_tmp/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [(Path(f.path).name, f.format, f.compressed) for f in list_files(tmp_path)]
    assert found == [
        ("a.jsonl.gz", "jsonl", True),
        ("b.CSV", "csv", False),
        ("c.parquet", "parquet", False),
    ]
    before = fingerprint(list_files(tmp_path))
    assert before == fingerprint(list_files(tmp_path))
    (tmp_path / "b.CSV").write_text("y")
    assert before != fingerprint(list_files(tmp_path))


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    for folder in (root, elsewhere):
        folder.mkdir()
        (folder / f"{folder.name}.csv").write_text("n\n1\n")
    (root / "linked").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(root)
    assert [file.path for file in list_files(root)] == [
        str(root / "in.csv"),
        str(root / "linked" / "elsewhere.csv"),
    ]
    (root / "gone.csv").symlink_to(tmp_path / "nothing")
    with pytest.raises(SourceError, match=r"cannot read .*gone\.csv: No such file"):
        list_files(root)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        list_files(tmp_path / "nothing")
    with pytest.raises(SourceError, match="a folder without data files"):
        list_files(tmp_path)
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(SourceError, match=r"a\.xlsx: unknown format \.xlsx"):
        list_files(tmp_path)
    with pytest.raises(SourceError, match=r"cannot read .*: File name too long"):
        list_files(tmp_path / ("x" * 300))


def test_mixed_formats_in_one_folder_and_small_batches(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,note\n" + "".join(f"{n},a\n" for n in range(10)))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(10, 20)))
    pq.write_table(pa.table({"n": range(20, 30)}), tmp_path / "c.parquet")
    splits = plan_splits(list_files(tmp_path), SCHEMA)
    batches = [batch for split in splits for batch in read_split(split, SCHEMA, batch_rows=4)]
    assert {batch.table.num_rows for batch in batches} == {4, 2}
    ids = [text for batch in batches for text in batch.ids.to_pylist()]
    assert ids == [str(n) for n in range(30)]


def test_rows_can_be_rejected_afterwards(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,note\n1,a\n\n2,b\nbroken\n1,c\n")
    (split,) = plan_splits(list_files(tmp_path), SCHEMA)
    rejects = rejects_of_rows(split, SCHEMA, [3], "event id '1' is repeated")
    file = str(tmp_path / "a.csv")
    assert rejects == [Reject(file, 6, "1,c", "event id '1' is repeated")]


def test_rows_are_read_the_second_time_as_the_first(tmp_path: Path) -> None:
    """1e999 is no double; with a decimal in the schema it is a number like others."""
    line = '{"n": 1, "order": {"total": 2}, "junk": 1e999}'
    (tmp_path / "a.jsonl").write_text(f"{line}\n{line}\n")
    (split,) = plan_splits(list_files(tmp_path), SCHEMA)
    assert read(tmp_path).ids == ["1", "1"]
    (reject,) = rejects_of_rows(split, SCHEMA, [1], "event id '1' is repeated")
    assert (reject.line, reject.raw) == (2, line)


def test_long_rows_are_cut_in_rejects(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,note\nx," + "a" * 50_000 + "\n")
    (reject,) = read(tmp_path).rejects
    assert len(reject.raw) == 10_000
    assert reject.raw.endswith("…")


# -- subscriptions -----------------------------------------------------------------------------

COLUMNS = ("id", "subscriber", "filter")


def test_rows_of_text_from_every_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('Filter,id,x\n"a = 1,\n2",s1,0\nb = 2,s2\n"",s3,0\n')
    (tmp_path / "b.jsonl").write_text(
        '{"id": 7, "subscriber": "me", "filter": "TRUE"}\n{"id": [1], "filter": "x"}\n'
        '{"id": 1.0, "filter": true}\n'
    )
    pq.write_table(pa.table({"id": [8, 9], "filter": ["c", None]}), tmp_path / "c.parquet")
    rows = read_rows(tmp_path, COLUMNS, required=("id", "filter"))
    assert rows.table.column_names == [*COLUMNS, "_file", "_line"]
    found = [
        (Path(row["_file"]).name, row["_line"], row["id"], row["subscriber"], row["filter"])
        for row in rows.table.to_pylist()
    ]
    assert found == [
        ("a.csv", 2, "s1", None, "a = 1,\n2"),
        ("a.csv", 5, "s3", None, ""),
        ("b.jsonl", 1, "7", "me", "TRUE"),
        ("b.jsonl", 3, "1.0", None, "true"),
        ("c.parquet", 1, "8", None, "c"),
        ("c.parquet", 2, "9", None, None),
    ]
    assert places(rows.rejects) == [
        (4, "2 fields where the header has 3"),
        (2, "id: '[1]' is not text"),
    ]


def test_numbers_as_text_keep_their_own_digits(tmp_path: Path) -> None:
    ids = ["1", "2.5", "3.25", "1.0"]
    lines = [f'{{"id": {number}, "filter": "TRUE"}}\n' for number in ids]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    assert read_rows(tmp_path, ("id", "filter")).table["id"].to_pylist() == ids


def test_rows_of_text_refuse_a_column_twice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,subscriber,filter,Filter\n1,a,x,y\n")
    with pytest.raises(SourceError, match=r"a\.csv: there are two columns 'filter'"):
        read_rows(tmp_path, COLUMNS)
    (tmp_path / "a.csv").write_text("id,subscriber,filter,note,note\n1,a,x,y,z\n")
    assert read_rows(tmp_path, COLUMNS).table["filter"].to_pylist() == ["x"]  # not ours to mind
    (tmp_path / "a.csv").unlink()
    twice = pa.table([["1"], ["a"], ["x"], ["y"]], names=["id", "subscriber", "filter", "filter"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: there are two columns 'filter'"):
        read_rows(tmp_path, COLUMNS)


def test_rows_of_text_need_their_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,rule\n1,a\n")
    with pytest.raises(SourceError, match=r"a\.csv: there is no column 'filter'.*it has: id, rule"):
        read_rows(tmp_path, ("id", "filter"))
    (tmp_path / "a.csv").unlink()
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(SourceError, match=r"a\.jsonl: no line has a field 'filter'"):
        read_rows(tmp_path, ("id", "filter"))
