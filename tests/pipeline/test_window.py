"""A window of time: what lies in it, how it is asked for, and that skipping changes nothing."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.lab.workloads import stocks
from crossroads.model.schema import Schema
from crossroads.pipeline import job, raw
from crossroads.pipeline.job import MatchRequest, run_match
from crossroads.pipeline.jobsummary import nothing_usable
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.window import Window, window_of

DAYS = Schema.from_toml('id = ["n"]\n[attributes]\nn = "int"\nday = "date"\nx = "double"\n')
TIMES = Schema.from_toml('id = ["n"]\n[attributes]\nn = "int"\nat = "timestamp"\nx = "double"\n')
TWO = Schema.from_toml('id = ["n"]\n[attributes]\nn = "int"\nday = "date"\nat = "timestamp"\n')
NONE = Schema.from_toml('id = ["n"]\n[attributes]\nn = "int"\n')
FIRST = date(2002, 1, 1)


def read(path: Path, schema: Schema, window: Window | None) -> tuple[list[int], int, list[int]]:
    """The events in the window, how many are outside, and the lines of the rejects."""
    events: list[int] = []
    outside, rejects = 0, []
    for split in plan_splits(list_files(path), schema, 200):
        for batch in read_split(replace(split, window=window), schema):
            events += batch.table["n"].to_pylist()
            outside += batch.outside
            rejects += [reject.line for reject in batch.rejects]
    return events, outside, rejects


# -- how it is asked for -------------------------------------------------------------------------


def test_a_day_and_a_time() -> None:
    assert window_of(DAYS, "2002-01-02", None, None) == Window("day", date(2002, 1, 2), None)
    window = window_of(TIMES, "2002-01-02", "2002-01-02 12:30+01:00", None)
    assert window is not None
    assert window.since == datetime(2002, 1, 2, tzinfo=UTC)
    assert window.until == datetime(2002, 1, 2, 11, 30, tzinfo=UTC)
    assert window_of(TWO, "2002-01-02", None, "AT") == Window(
        "at", datetime(2002, 1, 2, tzinfo=UTC), None
    )
    assert window_of(DAYS, None, None, None) is None


@pytest.mark.parametrize(
    ("schema", "asked", "message"),
    [
        (DAYS, ("2002-13-01", None, None), "--since: '2002-13-01' is not a date"),
        (DAYS, ("2002-01-02 10:00", None, None), "day is a date, without a time of day"),
        (TIMES, (None, "soon", None), "--until: 'soon' is not a timestamp"),
        (DAYS, ("2002-01-02", "2002-01-02", None), "is not before --until"),
        (DAYS, ("2002-01-03", "2002-01-02", None), "is not before --until"),
        (NONE, ("2002-01-02", None, None), "no date or timestamp"),
        (TWO, ("2002-01-02", None, None), "say which with --time: day, at"),
        (TWO, ("2002-01-02", None, "n"), "--time n: it is int"),
        (TWO, ("2002-01-02", None, "when"), "--time: .*when"),
        (TWO, (None, None, "at"), "give one of them"),
    ],
)
def test_what_cannot_be_asked(
    schema: Schema, asked: tuple[str | None, str | None, str | None], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        window_of(schema, *asked)


# -- what lies in it -----------------------------------------------------------------------------


def test_since_belongs_to_it_and_until_does_not(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("n,day,x\n1,2001-12-31,1\n2,2002-01-01,1\n3,2002-01-31,1\n4,2002-02-01,1\n")
    window = window_of(DAYS, "2002-01-01", "2002-02-01", None)
    assert read(file, DAYS, window) == ([2, 3], 2, [])


def test_the_time_decides_before_anything_else(tmp_path: Path) -> None:
    """What is outside is not asked for its other values; what has no time is outside, unless it
    is bad by itself."""
    file = tmp_path / "events.csv"
    rows = ["1,2001-01-01,wrong", "2,2002-01-01,wrong", "3,,1", "4,,wrong", "5,never,1", "6"]
    file.write_text("n,day,x\n" + "".join(row + "\n" for row in rows))
    window = window_of(DAYS, "2002-01-01", None, None)
    assert read(file, DAYS, window) == ([], 2, [3, 5, 6, 7])


moments = st.one_of(
    st.none(), st.integers(0, 40).map(lambda days: FIRST + timedelta(days)), st.just("never")
)


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(moments, st.sampled_from([1.0, None])), max_size=40),
    since=st.integers(0, 40),
    length=st.integers(1, 40),
    group=st.integers(1, 9),
)
def test_skipped_row_groups_change_nothing(
    rows: list[tuple[Any, float | None]], since: int, length: int, group: int
) -> None:
    """Parquet with dates (and statistics), with text (and none that help), and CSV agree."""
    window = Window("day", FIRST + timedelta(since), FIRST + timedelta(since + length))
    dated = [(None if day == "never" else day, x) for day, x in rows]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = list(range(len(rows)))
        for file, days, kind in (
            ("dates.parquet", [day for day, _ in dated], pa.date32()),
            ("texts.parquet", [None if d is None else str(d) for d, _ in dated], pa.string()),
        ):
            table = pa.table(
                {
                    "n": pa.array(numbers, pa.int32()),
                    "day": pa.array(days, kind),
                    "x": pa.array([x for _, x in rows], pa.float64()),
                }
            )
            pq.write_table(table, folder / file, row_group_size=group)
        expected = [
            n for n, (day, _) in enumerate(dated) if day and window.since <= day < window.until
        ]
        for file in ("dates.parquet", "texts.parquet"):
            found = read(folder / file, DAYS, window)
            assert found == (expected, len(rows) - len(expected), []), file


def test_row_groups_outside_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [FIRST + timedelta(number) for number in range(30)]
    table = pa.table(
        {
            "n": pa.array(range(30), pa.int32()),
            "at": pa.array([datetime(d.year, d.month, d.day) for d in days], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=10)
    blocks: list[int] = []
    plainly = raw._parquet_block

    def counting(*given: Any) -> raw.RawBlock:
        block = plainly(*given)
        blocks.append(block.count)
        return block

    monkeypatch.setattr(raw, "_parquet_block", counting)
    window = window_of(TIMES, "2002-01-12", "2002-01-15 00:00:00", None)
    assert read(tmp_path, TIMES, window) == ([11, 12, 13], 27, [])
    assert sum(blocks) == 10


# -- the job -------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("plan", ["direct", "indexed", "naive", "sql", "keyed"])
def test_every_plan_keeps_to_the_window(
    plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SPLIT_BYTES_MIN", 1)
    workload = stocks(6, 200, 40)
    schema, events = Schema.from_toml(workload.schema_toml), workload.events()
    # A copy of an event in the window, before it: outside, so that nothing is repeated.
    late = next(row for row in events.to_pylist() if row["date"] >= date(2001, 1, 1))
    early = {**late, "date": date(1999, 1, 1)}
    table = pa.concat_tables([pa.Table.from_pylist([early, late], events.schema), events])
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=50)
    pq.write_table(workload.subscriptions(), tmp_path / "subscriptions.parquet")
    request = MatchRequest(
        schema=schema,
        subscriptions=tmp_path / "subscriptions.parquet",
        events=tmp_path / "events.parquet",
        output=tmp_path / "out",
        plan=plan,
        since="2000-06-01",
        until="2002-01-01",
    )
    windowed = run_match(request)
    inside = events.filter(
        (pa.compute.field("date") >= date(2000, 6, 1))
        & (pa.compute.field("date") < date(2002, 1, 1))
    )
    (tmp_path / "inside").mkdir()
    pq.write_table(inside, tmp_path / "inside" / "events.parquet")
    whole = run_match(
        replace(
            request,
            events=tmp_path / "inside",
            output=tmp_path / "all",
            plan="direct",
            since=None,
            until=None,
        )
    )
    assert pairs(tmp_path / "out") == pairs(tmp_path / "all")
    counts = windowed["counts"]
    assert counts["events"] == whole["counts"]["events"] == inside.num_rows
    assert counts["events_outside"] == table.num_rows - inside.num_rows - counts["events_repeated"]
    assert counts["notifications"] == whole["counts"]["notifications"] > 0
    assert windowed["window"] == {"time": "date", "since": "2000-06-01", "until": "2002-01-01"}


def pairs(output: Path) -> Counter[tuple[object, ...]]:
    rows = pq.read_table(output / "notifications").to_pylist()
    return Counter((row["event_id"], row["subscription_id"], row["subscriber"]) for row in rows)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_window_without_any_event_is_said(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"n": 1}\n{"n": 2, "day": "2001-01-01"}\n')
    (tmp_path / "subscriptions.csv").write_text("id,subscriber,filter\na,ann,n > 0\n")
    summary = run_match(
        MatchRequest(
            schema=Schema.from_mapping({"id": "n", "attributes": {"n": "int", "day": "date"}}),
            subscriptions=tmp_path / "subscriptions.csv",
            events=tmp_path / "events.jsonl",
            output=tmp_path / "out",
            since="2002-01-01",
        )
    )
    assert summary["counts"]["events_outside"] == 2
    said = "no event is inside the window: 2 are outside, or have no day"
    assert said in summary["warnings"]
    assert nothing_usable(summary) is None
