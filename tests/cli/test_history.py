"""`match --since`, `backfill` and `diff` on the terminal: what they print, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crossroads.cli.main import run

SCHEMA = """
id = ["n"]
[attributes]
n = "int"
day = "date"
x = "int"
"""
EVENTS = "n,day,x\n1,2001-12-31,5\n2,2002-01-01,7\n3,2002-01-15,9\n4,2002-02-01,9\n5,2002-01-20,1\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "old.csv").write_text("id,subscriber,filter\na,ann,x > 6\nb,bob,x = 5\nc,cy,x<2\n")
    (tmp_path / "new.csv").write_text(
        "id,subscriber,filter\na,ann,x > 8\nb,bea,x = 5\nc,cy,x < 2\n"
    )
    return tmp_path


def crossroads(command: str, files: Path, *words: object) -> int:
    common = ("--schema", files / "schema.toml", "--events", files / "events.csv")
    with pytest.raises(SystemExit) as leaving:
        run([str(word) for word in (command, *words, *common, "--output", files / "out")])
    return int(leaving.value.code or 0)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_match_in_a_window(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--subscriptions", files / "old.csv", "--since", "2002-01-01", "--until", "2002-02-01")
    assert crossroads("match", files, *words) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "events 3 (2 outside the window)" in lines
    assert "notifications 3" in lines


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_backfill_of_one_filter(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--filter", "x >= 7", "--id", "mine", "--since", "2002-01-01")
    assert crossroads("backfill", files, *words) == 0
    said = capsys.readouterr().out
    first, *_ = said.splitlines()
    assert first == "3 notifications, of 3 of 4 events, day from 2002-01-01 to 2002-02-01"
    assert "x = 7 >= 7" in " ".join(said.split())
    found = pq.read_table(files / "out" / "notifications").to_pylist()
    assert {(row["event_id"], row["subscription_id"], str(row["day"])) for row in found} == {
        ("2", "mine", "2002-01-01"),
        ("3", "mine", "2002-01-15"),
        ("4", "mine", "2002-02-01"),
    }


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_backfill_of_a_table_as_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "new.csv").write_text("id,subscriber,filter\na,ann,x > 6\nz,zoe,x > 99\n")
    assert crossroads("backfill", files, "--subscriptions", files / "new.csv", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["all"] == {"count": 3, "first": "2002-01-01", "last": "2002-02-01"}
    assert report["received"] == [
        {"id": "a", "subscriber": "ann", "count": 3, "first": "2002-01-01", "last": "2002-02-01"}
    ]
    assert report["nothing"] == 1
    assert report["summary"]["counts"]["notifications"] == 3
    assert len(report["samples"]) == 3


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_backfill_that_finds_nothing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crossroads("backfill", files, "--filter", "x > 99") == 0
    said = capsys.readouterr().out
    assert said.startswith("0 notifications, of 0 of 5 events\n")
    assert "1 would have received nothing" in said


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_diff(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crossroads("diff", files, files / "old.csv", files / "new.csv") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "1 notifications appear, 2 vanish"
    assert "b subscriber changed bob → bea 1 1" in lines
    assert "a filter changed ann 0 1" in lines
    assert "reworded 1" in lines
    gone = pq.read_table(files / "out" / "vanished").to_pylist()
    assert {tuple(row.values()) for row in gone} == {("2", "a", "ann"), ("1", "b", "bob")}
    new = pq.read_table(files / "out" / "appeared").to_pylist()
    assert {tuple(row.values()) for row in new} == {("1", "b", "bea")}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_diff_of_which_nothing_is_known(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every event is rejected: "nothing changes" would be no answer."""
    (files / "events.csv").write_text("n,day,x\n1,nonsense,1\n")
    (files / "new.csv").write_text("id,subscriber,filter\na,ann,x >\nb,bob,x > 1\n")
    assert crossroads("diff", files, files / "old.csv", files / "new.csv") == 1
    said = capsys.readouterr()
    assert "all 1 events were rejected" in said.err
    assert "rejected_subscriptions_new/ has the reasons" in said.err
    assert "a rejected now" in " ".join(pq_rows(files / "out" / "subscriptions"))
    assert (files / "out" / "rejected_events").is_dir()


def pq_rows(folder: Path) -> list[str]:
    return [f"{row['id']} {row['kind']}" for row in pq.read_table(folder).to_pylist()]


def test_a_diff_without_a_difference_as_json(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crossroads("diff", files, files / "old.csv", files / "old.csv", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["counts"]["appeared"] == summary["counts"]["vanished"] == 0
    assert summary["counts"]["subscriptions"]["unchanged"] == 3


@pytest.mark.parametrize(
    ("command", "words", "code", "message"),
    [
        ("backfill", ("--filter", "x >", "--id", "a"), 1, "error: "),
        ("backfill", (), 2, "--subscriptions, or one with --filter"),
        ("backfill", ("--filter", "x > 1", "--subscriptions", "s.csv"), 2, "or one with --filter"),
        ("backfill", ("--filter", "x > 1", "--id", " "), 2, "--id is empty"),
        ("backfill", ("--subscriptions", "nowhere.csv"), 1, "nowhere.csv does not exist"),
        ("backfill", ("--filter", "x > 1", "--since", "soon"), 2, "'soon' is not a date"),
        ("match", ("--subscriptions", "s.csv", "--until", "2002-02-30"), 2, "is not a date"),
        ("diff", ("nowhere.csv", "nowhere.csv"), 1, "nowhere.csv does not exist"),
        ("diff", ("nowhere.csv",), 2, "NEW"),
    ],
)
def test_what_is_wrong_is_one_line(
    files: Path,
    command: str,
    words: tuple[str, ...],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert crossroads(command, files, *words) == code
    said = capsys.readouterr().err
    assert message in said
    assert not (files / "out").exists()


@pytest.mark.parametrize("command", ["backfill", "diff"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run([command, "--help"])
    assert f"crossroads {command}" in capsys.readouterr().out.split("Examples:")[1]
