"""Subscriptions from files: what is usable, what is rejected and why, and their content hash."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossroads.errors import SourceError
from crossroads.model.schema import Schema
from crossroads.pipeline.subscriptions import SubscriptionSet, load_subscriptions

SCHEMA = Schema.from_toml('name = "t"\nid = "id"\n[attributes]\nid = "string"\nx = "int"\n')
ROWS = [("a", "ann", "x > 1"), ("b", "bob", "id = 'k' OR x IS NULL"), ("é,1", 'q"uo', "x = 1\n")]


def write(folder: Path, rows: list[tuple[object, ...]], ending: str) -> Path:
    path = folder / f"subscriptions.{ending}"
    named = [dict(zip(("id", "subscriber", "filter"), row, strict=True)) for row in rows]
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(named), path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in named))
    else:
        cells = (
            ",".join(
                "" if cell is None else '"' + str(cell).replace('"', '""') + '"' for cell in row
            )
            for row in rows
        )
        path.write_text("id,subscriber,filter\n" + "".join(line + "\n" for line in cells))
    return path


def reasons(found: SubscriptionSet) -> dict[int, str]:
    return {reject.line: reject.reason for reject in found.rejects}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_every_format_gives_the_same_set(ending: str, tmp_path: Path) -> None:
    found = load_subscriptions(write(tmp_path, list(ROWS), ending), SCHEMA)
    assert found.ids.to_pylist() == [row[0] for row in ROWS]
    assert found.subscribers.to_pylist() == [row[1] for row in ROWS]
    assert (found.usable, found.rejects) == (3, [])
    other = load_subscriptions(write(tmp_path, list(ROWS), "jsonl"), SCHEMA)
    assert found.content_hash == other.content_hash


def test_the_content_hash_is_of_the_values_and_their_order(tmp_path: Path) -> None:
    def content_hash(rows: list[tuple[object, ...]]) -> str:
        return load_subscriptions(write(tmp_path, rows, "jsonl"), SCHEMA).content_hash

    assert content_hash([("ab", "c", "TRUE")]) != content_hash([("a", "bc", "TRUE")])
    assert content_hash(list(ROWS)) != content_hash(list(reversed(ROWS)))
    assert content_hash(list(ROWS)) == content_hash(list(ROWS))


def test_all_rows_of_a_repeated_id_are_rejected_wherever_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("id,subscriber,filter\na,u,TRUE\nb,u,TRUE\na,u,bad bad\n")
    (folder / "2.csv").write_text("id,subscriber,filter\na,v,TRUE\nc,v,TRUE\n")
    found = load_subscriptions(folder, SCHEMA)
    assert found.ids.to_pylist() == ["b", "c"]
    places = [(Path(one.file).name, one.line, one.raw) for one in found.rejects]
    assert places == [
        ("1.csv", 2, "a,u,TRUE"),
        ("1.csv", 4, "a,u,bad bad"),
        ("2.csv", 2, "a,v,TRUE"),
    ]
    assert {one.reason for one in found.rejects} == {"subscription id 'a' occurs 3 times"}


def test_missing_parts_and_bad_filters(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [
        (None, "u", "TRUE"),
        ("  ", "u", "TRUE"),
        ("b", None, "TRUE"),
        ("c", "u", None),
        ("d", "u", "y = 1"),
        ("e", "u", "x = 'text'"),
        ("f", "u", "x = 1"),
    ]
    found = load_subscriptions(write(tmp_path, rows, "jsonl"), SCHEMA)
    said = reasons(found)
    assert said[1] == said[2] == "the id is missing"
    assert said[3] == "the subscriber is missing"
    assert said[4].startswith("subscription c: ")
    assert said[5].startswith("subscription d: ") and "'y'" in said[5]
    assert said[6].startswith("subscription e: ")
    assert found.usable == 1
    assert found.usable + len(found.rejects) == len(rows)


def test_numbers_are_ids_too(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"ID": [1, 2], "Subscriber": [7, 7], "filter": ["x=1"] * 2}), path)
    assert load_subscriptions(path, SCHEMA).ids.to_pylist() == ["1", "2"]


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("id,who,filter\na,b,TRUE\n")
    with pytest.raises(SourceError, match="no column 'subscriber'"):
        load_subscriptions(path, SCHEMA)


def test_a_header_alone_is_an_empty_set(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("id,subscriber,filter\n")
    found = load_subscriptions(path, SCHEMA)
    assert (found.usable, found.rejects, len(found.ids)) == (0, [], 0)
