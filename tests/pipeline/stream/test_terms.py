"""What a stream asks of rows: not too large, not too late, not seen before; and it goes on."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossroads.errors import SourceError
from crossroads.model.schema import Schema
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.terms import REPEATED, Late, Terms

SCHEMA = Schema.from_mapping(
    {
        "id": "id",
        "attributes": {"id": "int", "text": "string", "at": "timestamp", "day": "date"},
    }
)
FORMATS = ("csv", "jsonl", "parquet")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROWS = [
    {"id": 1, "text": "a", "at": NOON, "day": date(2024, 5, 1)},
    {"id": 2, "text": "b" * 500, "at": NOON.replace(hour=11), "day": date(2024, 4, 30)},
    {"id": 3, "text": None, "at": None, "day": None},
    {"id": 4, "text": "é" * 60, "at": NOON.replace(hour=10), "day": date(2024, 4, 29)},
]


def written(folder: Path, ending: str) -> Path:
    path = folder / f"events.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA.arrow), path)
        return path
    texts = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in ROWS
    ]
    if ending == "csv":
        lines = ["id,text,at,day", *(",".join(row.values()) for row in texts)]
    else:
        lines = [
            json.dumps({n: v for n, v in row.items() if v}, ensure_ascii=False) for row in texts
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path: Path, terms: Terms, batch_rows: int = 1_000) -> tuple[list[str], dict[int, str]]:
    """Ids of the events, and by line why the others are none."""
    ids: list[str] = []
    rejects: list[Reject] = []
    for split in plan_splits(list_files(path), SCHEMA):
        for batch in read_split(replace(split, terms=terms), SCHEMA, batch_rows):
            ids += batch.ids.to_pylist()
            rejects += batch.rejects
    assert len({reject.line for reject in rejects}) == len(rejects)
    return ids, {reject.line: reject.reason for reject in rejects}


def line(row: int, ending: str) -> int:
    return row + 2 if ending == "csv" else row + 1


@pytest.mark.parametrize("ending", FORMATS)
def test_a_record_that_is_too_large_is_a_reject(ending: str, tmp_path: Path) -> None:
    ids, rejects = read(written(tmp_path, ending), Terms(record_bytes_max=300))
    assert ids == ["1", "3", "4"]
    (reason,) = rejects.values()
    assert rejects.keys() == {line(1, ending)}
    assert reason.startswith("oversize: 5") and "more than the 300" in reason


@pytest.mark.parametrize("ending", FORMATS)
def test_the_limit_counts_bytes_and_not_letters(ending: str, tmp_path: Path) -> None:
    """Sixty letters of two bytes each."""
    ids, _ = read(written(tmp_path, ending), Terms(record_bytes_max=119))
    assert ids == ["1", "3"]


@pytest.mark.parametrize("ending", FORMATS)
def test_events_before_the_limit_are_late(ending: str, tmp_path: Path) -> None:
    """At the limit itself they are not; nor are those that do not say when they were."""
    late = Late("at", NOON.replace(hour=11))
    ids, rejects = read(written(tmp_path, ending), Terms(time="at", late=late))
    assert ids == ["1", "2", "3"]
    assert rejects == {line(3, ending): late.reason}
    assert late.reason.startswith("late: at is before 2024-05-01")


@pytest.mark.parametrize("ending", FORMATS)
def test_days_can_be_late_too(ending: str, tmp_path: Path) -> None:
    late = Late("day", date(2024, 4, 30))
    ids, rejects = read(written(tmp_path, ending), Terms(time="day", late=late))
    assert ids == ["1", "2", "3"] and list(rejects) == [line(3, ending)]


@pytest.mark.parametrize("ending", FORMATS)
def test_rows_that_were_seen_before_are_rejects(ending: str, tmp_path: Path) -> None:
    ids, rejects = read(written(tmp_path, ending), Terms(repeated=(0, 2)))
    assert ids == ["2", "4"]
    assert rejects == {line(0, ending): REPEATED, line(2, ending): REPEATED}


@pytest.mark.parametrize("ending", FORMATS)
def test_a_row_has_one_reason(ending: str, tmp_path: Path) -> None:
    terms = Terms(record_bytes_max=119, late=Late("at", NOON), time="at", repeated=(1, 3))
    ids, rejects = read(written(tmp_path, ending), terms)
    assert ids == ["1", "3"] and len(rejects) == 2


# -- a file that breaks in the middle ------------------------------------------------------------


def damaged(folder: Path) -> Path:
    """Three row groups; a page of the second is not what its checksum says."""
    path = folder / "events.parquet"
    schema = SCHEMA.arrow
    with pq.ParquetWriter(
        path, schema, write_page_checksum=True, compression="none", use_dictionary=False
    ) as writer:
        for group in range(3):
            rows = [{"id": 100 * group + at, "text": f"text {group} {at}"} for at in range(50)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    data = path.read_bytes()
    at = data.index(b"text 1 25")
    path.write_bytes(data[:at] + b"TEXT" + data[at + 4 :])
    return path


def test_a_damaged_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    """By whole batches of rows; the reject says where it ended."""
    ids, rejects = read(damaged(tmp_path), Terms(forgiving=True), batch_rows=50)
    assert ids == [str(at) for at in range(50)]
    (reason,) = rejects.values()
    assert list(rejects) == [51] and reason.startswith("not readable from here on")


def test_a_batch_job_stops_at_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot"):
        read(damaged(tmp_path), Terms())


def test_a_gzip_that_ends_early_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    lines = "".join(f'{{"id": {at}}}\n' for at in range(20_000))
    whole = gzip.compress(lines.encode())
    path.write_bytes(whole[: len(whole) // 2])
    ids, rejects = read(path, Terms(forgiving=True))
    assert ids == [str(at) for at in range(len(ids))] and 0 < len(ids) < 20_000
    assert list(rejects) == [len(ids) + 1]
