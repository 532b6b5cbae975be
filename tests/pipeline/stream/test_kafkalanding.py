"""What is landed of Kafka records, without a broker: every offset is an event or a reject."""

from __future__ import annotations

import json
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.model.schema import Schema
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.source import Split
from crossroads.pipeline.stream.kafkacloudevents import Unusable, one_line, structured
from crossroads.pipeline.stream.kafkalanding import BLANK, GAP_LINES_MAX, TOMBSTONE, LandingFile

SCHEMA = Schema.from_toml("""
name = "quotes"
id = ["id"]
[attributes]
id = "string"
"data.price" = "double"
""")
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("time_ms", pa.int64()),
        ("bytes", pa.int32()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
    ]
)
LIMIT = 200
CLOUD = [{"key": "ce_specversion", "value": b"1.0"}, {"key": "ce_id", "value": b"c"}]

# value, headers, and what becomes of it: the event's id, or a part of the reason
KINDS = [
    (b'{"id":"a","data":{"price":1.5}}', None, "a"),
    (b'{"id":\n"b",\n"data":{"price":2}}', None, "b"),
    (b'{"price":3}', CLOUD, "c"),
    (None, CLOUD, "c"),
    (None, None, TOMBSTONE),
    (b"", None, BLANK),
    (b" \n", None, BLANK),
    (b'{"id":"a', None, "not valid JSON"),
    (b'{"id":"a\nb"}', None, "not valid JSON"),
    (b"[1]", None, "not a JSON object"),
    (b'\xff{"id":"a"}', None, "not valid"),
    (b'{"data":{}}', None, "id"),
    (b'{"id":"' + b"x" * LIMIT + b'"}', None, "oversize"),
    (b'1,"id":"d"', CLOUD, "not valid JSON"),
]


def record(offset: int, kind: int, partition: int = 0) -> dict[str, object]:
    value, headers, _ = KINDS[kind]
    size = None if value is None else len(value)
    return {
        "topic": "quotes",
        "partition": partition,
        "offset": offset,
        "time_ms": 1_000 + offset,
        "bytes": size,
        "value": value[:50] if value is not None and len(value) > LIMIT else value,
        "headers": headers,
    }


def landed(batches: list[list[dict[str, object]]], path: Path, split_bytes: int = 1 << 20):
    file = BytesIO()
    landing = LandingFile(file, path.name, LIMIT, split_bytes)
    for batch in batches:
        landing.add(pa.RecordBatch.from_pylist(batch, schema=RECORDS))
    report = landing.finish().to_pylist()
    path.write_bytes(file.getvalue())
    return report


def read_back(report: list[dict[str, object]], path: Path) -> dict[tuple[str, int], str]:
    """By partition and offset: the id of the event, or the reason."""
    found: dict[tuple[str, int], str] = {}
    for row in report:
        name = f"kafka:{row['topic']}/{row['partition']}"
        if row["reason"] is not None:
            assert (name, row["first"]) not in found
            found[name, row["first"]] = row["reason"]
            continue
        split = Split(
            number=0,
            path=name,
            place=str(path),
            format="jsonl",
            compressed=False,
            start=row["start"],
            end=row["stop"],
            first_line=row["first"],
        )
        for batch in read_split(split, SCHEMA):
            told = [*zip(batch.lines.tolist(), batch.ids.to_pylist(), strict=True)]
            told += [(reject.line, reject.reason) for reject in batch.rejects]
            assert {reject.file for reject in batch.rejects} <= {name}
            for line, what in told:
                assert (name, line) not in found
                found[name, line] = what
    return found


steps = st.sampled_from([1, 1, 1, 2, 3, GAP_LINES_MAX + 1, GAP_LINES_MAX + 2])


@given(
    partitions=st.lists(
        st.lists(st.tuples(steps, st.integers(0, len(KINDS) - 1)), min_size=1, max_size=12),
        max_size=3,
    ),
    batch_rows=st.integers(1, 7),
    split_bytes=st.sampled_from([1, 60, 1 << 20]),
)
def test_every_offset_is_an_event_or_a_reject(
    partitions, batch_rows, split_bytes, tmp_path_factory
) -> None:
    rows, expected = [], {}
    for partition, records in enumerate(partitions):
        offsets = accumulate((step for step, _ in records), initial=5)
        for offset, (_, kind) in zip(offsets, records, strict=False):
            rows.append(record(offset, kind, partition))
            expected[f"kafka:quotes/{partition}", offset] = KINDS[kind][2]
    batches = [rows[at : at + batch_rows] for at in range(0, len(rows), batch_rows)]
    path = tmp_path_factory.mktemp("landing") / "part-00000.jsonl"
    report = landed(batches, path, split_bytes)
    found = read_back(report, path)
    assert found.keys() == expected.keys()
    for place, what in expected.items():
        assert found[place] == what or (len(what) > 1 and what in found[place]), place
    splits = [row for row in report if row["file"]]
    assert all(row["records"] > 0 and row["oldest_ms"] >= 1_000 for row in splits)


def test_many_missing_offsets_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.jsonl"
    report = landed([[record(0, 0), record(10_000_000, 0)]], path)
    assert [row["first"] for row in report] == [0, 10_000_000]
    assert path.stat().st_size < 1_000


def test_the_text_of_a_reject_is_bounded(tmp_path: Path) -> None:
    (row,) = landed([[record(7, 12)]], tmp_path / "part")
    assert row["first"] == 7 and len(row["raw"]) == 50
    assert row["reason"].startswith("oversize: 209 bytes")


def test_binary_and_structured_mode_are_the_same_object() -> None:
    headers = [
        {"key": "ce_specversion", "value": b"1.0"},
        {"key": "ce_id", "value": "é".encode()},
        {"key": "ce_source", "value": b'/a "b"'},
        {"key": "ce_data", "value": b"not an attribute"},
        {"key": "content-type", "value": b"application/json; charset=utf-8"},
        {"key": "trace", "value": b"x"},
    ]
    line = structured(headers, b'{"price":\n0.10}')
    assert b"0.10" in line and b"\n" not in line
    assert json.loads(line) == {
        "specversion": "1.0",
        "id": "é",
        "source": '/a "b"',
        "datacontenttype": "application/json; charset=utf-8",
        "data": {"price": 0.1},
    }


@pytest.mark.parametrize(
    ("kind", "value", "member", "expected"),
    [
        (b"text/plain", b"two\nlines", "data", "two\nlines"),
        (b"application/octet-stream", b"\xff\x00", "data_base64", "/wA="),
        (b"application/vnd.x+json", b"[1]", "data", [1]),
    ],
)
def test_data_that_is_not_json(kind, value, member, expected) -> None:
    line = structured([*CLOUD, {"key": "content-type", "value": kind}], value)
    assert json.loads(line)[member] == expected


def test_what_cannot_be_one_line() -> None:
    assert one_line(b'{"a":\n1}') == b'{"a": 1}'
    with pytest.raises(Unusable, match="not valid JSON"):
        one_line(b'{"a":"\n"}')
    with pytest.raises(Unusable, match="nested too deeply"):
        one_line(b"\n" + b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(Unusable, match="UTF-8"):
        structured([{"key": "ce_id", "value": b"\xff"}], None)
