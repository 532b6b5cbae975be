"""Notifications: each subscriber once, and the very bytes of CSV and JSON lines."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.matching.index import Matches
from crossroads.model.schema import Schema
from crossroads.pipeline.notify import (
    MatchedEvents,
    Notify,
    Part,
    Receivers,
    event_ordinals,
    once_per_event,
)

SCHEMA = Schema.from_toml("""
name = "t"
id = "id"
[attributes]
id = "string"
text = "string"
x = "double"
m = "decimal(5,2)"
day = "date"
at = "timestamp"
flag = "boolean"
""")
ROWS: list[dict[str, Any]] = [
    {"id": "e,1", "text": 'say "hi"\nthere', "x": math.nan, "m": Decimal("1.50"), "flag": True},
    {"id": "é", "text": "", "x": -0.0, "day": date(2001, 2, 3), "flag": False},
    {"id": "none", "text": None, "at": datetime(2001, 2, 3, 4, 5, 6, 7, tzinfo=UTC)},
]
RECEIVERS = Receivers(pa.array(["s0", 's"1', "s2"]), pa.array(["ann", "b,ob", "ann"]))
# by event: the subscriptions that it matches
MATCHES = Matches(np.array([0, 2, 3, 3], np.int64), np.array([0, 2, 1], np.int32))


def batch() -> MatchedEvents:
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA.arrow)
    ordinals = event_ordinals(3, np.arange(3, dtype=np.int64))
    return MatchedEvents(table, table["id"].combine_chunks(), ordinals, MATCHES)


def written(folder: Path, notify: Notify, batches: int = 1) -> Path:
    with Part(folder, 7, notify, RECEIVERS) as part:
        for _ in range(batches):
            part.write(batch())
    (path,) = (folder / "notifications").iterdir()
    assert path.name == f"part-00007.{notify.format}"
    return path


INCLUDE = ("text", "x", "m", "day", "at", "flag")


def test_the_bytes_of_csv(tmp_path: Path) -> None:
    text = written(tmp_path, Notify(SCHEMA, format="csv", include=INCLUDE)).read_text()
    assert text == (
        "event_id,subscription_id,subscriber,text,x,m,day,at,flag\n"
        '"e,1",s0,ann,"say ""hi""\nthere",nan,1.50,,,true\n'
        '"e,1",s2,ann,"say ""hi""\nthere",nan,1.50,,,true\n'
        'é,"s""1","b,ob","",-0.0,,2001-02-03,,false\n'  # "" is a text, nothing is NULL
    )


def test_csv_reads_back_with_null_apart_from_the_empty_text(tmp_path: Path) -> None:
    path = written(tmp_path, Notify(SCHEMA, format="csv", include=("text",)))
    options = pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    parsing = pacsv.ParseOptions(newlines_in_values=True)
    table = pacsv.read_csv(path, parse_options=parsing, convert_options=options)
    assert table["text"].to_pylist() == [ROWS[0]["text"]] * 2 + [""]


def test_the_bytes_of_json_lines(tmp_path: Path) -> None:
    path = written(tmp_path, Notify(SCHEMA, format="jsonl", include=INCLUDE))
    lines = path.read_text().splitlines()
    assert lines[2] == (
        '{"event_id":"é","subscription_id":"s\\"1","subscriber":"b,ob","text":"","x":-0.0,'
        '"m":null,"day":"2001-02-03","at":null,"flag":false}'
    )
    first = json.loads(lines[0])
    assert (first["text"], first["x"], first["m"]) == (ROWS[0]["text"], "nan", "1.50")


@pytest.mark.parametrize("shape", ["pairs", "lists", "compact"])
@pytest.mark.parametrize("per", ["subscription", "subscriber"])
def test_every_format_has_the_same_columns_in_the_same_order(
    shape: Any, per: Any, tmp_path: Path
) -> None:
    include = ("day", "text")
    headers = []
    for ending in ("parquet", "csv", "jsonl"):
        notify = Notify(SCHEMA, shape, per, ending, include)  # type: ignore[arg-type]
        (tmp_path / ending).mkdir()
        path = written(tmp_path / ending, notify)
        if ending == "parquet":
            headers.append(pq.read_table(path).column_names)
        elif ending == "csv":
            headers.append(path.read_text().splitlines()[0].split(","))
        else:
            headers.append(list(json.loads(path.read_text().splitlines()[0])))
        included = () if shape == "compact" else include
        assert headers[-1] == [*notify.columns, *included]
    assert headers[0] == headers[1] == headers[2]


def test_lists_and_subscribers(tmp_path: Path) -> None:
    notify = Notify(SCHEMA, "lists", "subscriber", "jsonl")
    lines = written(tmp_path, notify).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"event_id": "e,1", "subscribers": ["ann"]},
        {"event_id": "é", "subscribers": ["b,ob"]},
    ]


def test_several_batches_make_one_part(tmp_path: Path) -> None:
    path = written(tmp_path, Notify(SCHEMA, include=("text", "x")), batches=3)
    table = pq.read_table(path)
    assert table.num_rows == 9
    assert table["text"].to_pylist() == ([ROWS[0]["text"]] * 2 + [""]) * 3


def test_compact_has_a_lookup_of_the_events(tmp_path: Path) -> None:
    written(tmp_path, Notify(SCHEMA, "compact", include=("text",)))
    lookup = pq.read_table(tmp_path / "events").to_pylist()
    assert [row["event"] for row in lookup] == [(3 << 32) + row for row in range(3)]
    assert [row["text"] for row in lookup] == [row["text"] for row in ROWS]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_part_without_rows_has_its_columns(ending: Any, tmp_path: Path) -> None:
    notify = Notify(SCHEMA, format=ending, include=("x",))
    with Part(tmp_path, 0, notify, RECEIVERS):
        pass
    (path,) = (tmp_path / "notifications").iterdir()
    if ending == "parquet":
        assert pq.read_table(path).column_names == [*notify.columns, "x"]
    else:
        header = "event_id,subscription_id,subscriber,x\n" if ending == "csv" else ""
        assert path.read_text() == header


def test_a_failed_part_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with Part(tmp_path, 0, Notify(SCHEMA, "compact"), RECEIVERS) as part:
            part.write(batch())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@given(st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=8))
def test_each_receiver_once_per_event(lists: list[list[int]]) -> None:
    """The kernel against dict.fromkeys, which keeps the first of equals."""
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    who = np.array([one for some in lists for one in some], np.int32)
    kept_offsets, kept = once_per_event(offsets, who, 5)
    found = [kept[kept_offsets[e] : kept_offsets[e + 1]].tolist() for e in range(len(lists))]
    assert found == [list(dict.fromkeys(some)) for some in lists]
