"""`crossroads check`: every problem with its line, the summary, and the exit codes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# Imported here, because one test becomes a user who may not read this project.
import crossroads.pipeline.dryrun
import crossroads.pipeline.lookup  # noqa: F401
from crossroads.cli import main
from crossroads.cli.check import problem_lines
from crossroads.cli.console import CARET_WINDOW, LateStatus, caret
from crossroads.pipeline.review import Problem

NOBODY = 65_534  # the user without rights, on Linux and most others

SCHEMA = """
name = "shop"
id = "id"
[attributes]
id = { type = "bigint" }
title = { type = "string" }
status = { type = "string", values = ["active", "sold", "withdrawn"] }
price = { type = "double", min = 0, max = 500 }
cost = { type = "double" }
"""

ROWS = """id,subscriber,filter
a1,u1,price >= 10
a2,u1,price >= 10 ADN cost > 1
a3,u2,prise < 3
a4,u2
,u3,price > 1
a6,,price > 1
a7,u3,
a8,u4,price > 3
a8,u5,price > 4
"""

ODD = """id,subscriber,filter
b1,u1,price > 5 AND price < 4
b2,u1,price IS NULL OR price IS NOT NULL
b3,u1,price > cost
b4,u1,status = 'actve'
b5,u1,price > 5000
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main.run(["check", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(left.value.code or 0), shown.out, shown.err


def write(folder: Path, rows: str, name: str = "s.csv") -> tuple[str | Path, ...]:
    schema, file = folder / "s.toml", folder / name
    schema.write_text(SCHEMA)
    file.write_text(rows)
    return "--schema", schema, "--subscriptions", file


def counts(out: str) -> dict[str, str]:
    """The summary table."""
    pairs = (line.rsplit(maxsplit=1) for line in out.rstrip().splitlines() if line.strip())
    return {pair[0].strip(): pair[1] for pair in pairs if len(pair) == 2}


def test_everything_wrong_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *write(tmp_path, ROWS))
    file = tmp_path / "s.csv"
    assert code == 0
    assert err == ""
    assert out.splitlines()[:14] == [
        f"{file}:3: error: subscription a2: filter refused: unexpected 'ADN' at position 13; "
        "expected AND, OR, or the end of the filter",
        "    price >= 10 ADN cost > 1",
        "                ^",
        f"{file}:4: error: subscription a3: filter refused: no attribute 'prise' at position 1 "
        "(did you mean 'price'?)",
        "    prise < 3",
        "    ^",
        f"{file}:5: error: broken row: 2 fields where the header has 3",
        f"{file}:6: error: missing id: id is empty",
        f"{file}:7: error: subscription a6: missing subscriber: subscriber is empty",
        f"{file}:8: error: subscription a7: missing filter: filter is empty",
        f"{file}:9: error: subscription a8: duplicate id: the same id stands in line 10; "
        "all of them are rejected",
        f"{file}:10: error: subscription a8: duplicate id: the same id stands in line 9; "
        "all of them are rejected",
        "",
        out.splitlines()[13],
    ]
    summary = counts(out)
    assert (summary["subscriptions"], summary["good"], summary["rejected"]) == ("9", "1", "8")
    assert (summary["duplicate id"], summary["filter refused"]) == ("2", "2")


def test_odd_filters_are_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *write(tmp_path, ODD), "--strict")
    assert code == 0  # warnings reject nothing
    for line, said in enumerate(
        (
            "warning: subscription b1: can never match: ",
            "warning: subscription b2: matches every event: ",
            "warning: subscription b3: slow: tried on every event: price > cost: ",
            "status is never 'actve'; did you mean 'active'?",
            "price is expected from 0.0 up to 500.0, not 5000.0",
        ),
        start=2,
    ):
        (found,) = (text for text in out.splitlines() if f"s.csv:{line}: " in text)
        assert said in found
    assert counts(out)["warnings"] == "5"


def test_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *write(tmp_path, ROWS), "--strict")
    assert code == 3
    assert counts(out)["rejected"] == "8"
    assert err.startswith("error: 8 of 9 subscriptions are rejected (")


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *write(tmp_path, ROWS), "--json")
    report: dict[str, Any] = json.loads(out)
    assert code == 0
    assert (report["subscriptions"], report["good"], report["rejected"]) == (9, 1, 8)
    assert report["reasons"]["duplicate id"] == 2
    assert len(report["problems"]) == 8
    first = report["problems"][0]
    assert (first["line"], first["id"], first["position"]) == (3, "a2", 12)


def test_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "id,subscriber,filter\n" + "".join(f"{n},u,nope > {n}\n" for n in range(30))
    arguments = write(tmp_path, rows + "x,u,TRUE\n")
    _, out, _ = run(capsys, *arguments)
    assert out.count("filter refused: ") == 10
    assert "… and 20 more (show them with --limit, or all with --json)" in out
    _, out, _ = run(capsys, *arguments, "--limit", "2", "--json")
    assert len(json.loads(out)["problems"]) == 2 + 1  # and a warning about TRUE
    assert json.loads(out)["reasons"] == {"filter refused": 30}


def test_events_show_how_filters_fare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "id,subscriber,filter\nall,u,price >= 0\nsome,u,price = 7\nnone,u,price > 400\n"
    arguments = write(tmp_path, rows)
    events = tmp_path / "e.csv"
    events.write_text("id,price,colour\n" + "".join(f"{n},{n % 100},red\n" for n in range(200)))
    code, out, err = run(capsys, *arguments, "--events", events)
    assert code == 0
    summary = counts(out)
    assert (summary["events tried"], summary["notifications"]) == ("200", "202")
    assert summary["subscriptions without any"] == "1"
    assert "all: matches most events of the sample: it matches 200 of 200 events" in out
    assert "Busiest subscriptions of these events: all (200), some (2)" in out
    assert "columns not in the schema, ignored: colour" in err


def test_folders_and_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "subscriptions"
    folder.mkdir()
    (tmp_path / "s.toml").write_text(SCHEMA)
    table = pa.table({"id": [1, 2], "subscriber": ["u", None], "filter": ["TRUE", "price > 1"]})
    pq.write_table(table, folder / "a.parquet")
    (folder / "b.jsonl").write_text(
        '{"id": 1, "subscriber": "u", "filter": "price > 2"}\n{broken\n'
        '{"id": null, "subscriber": "u", "filter": "price > 3"}\n'
    )
    code, out, err = run(capsys, "--schema", tmp_path / "s.toml", "--subscriptions", folder)
    assert code == 1
    assert f"{folder}/a.parquet:2: error: subscription 2: missing subscriber" in out
    assert f"the same id stands in {folder}/b.jsonl line 1" in out
    assert f"{folder}/b.jsonl:2: error: broken row: not valid JSON" in out
    assert f"{folder}/b.jsonl:3: error: missing id" in out
    assert err == f"error: {folder} has no usable subscription (5 were rejected)\n"


# -- input that cannot be used ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "missing.csv does not exist"),
        ("empty.csv", "", "is empty"),
        ("header.csv", "id,subscriber,filter\n", "has no usable subscription (it has no rows)"),
        ("column.csv", "id,who,filter\n1,u,TRUE\n", "there is no column 'subscriber' (it has: "),
        ("field.jsonl", '{"id": 1, "filter": "TRUE"}\n', "no line has a field 'subscriber'"),
        ("notes.txt", "hello", "unknown format .txt"),
        ("a.parquet", "not parquet", "cannot be read as Parquet"),
    ],
)
def test_unusable_subscriptions(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str | None,
    message: str,
) -> None:
    arguments = write(tmp_path, content or "", name)
    if content is None:
        (tmp_path / name).unlink()
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_folder_without_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "folder").mkdir()
    arguments = ("--schema", tmp_path / "s.toml", "--subscriptions", tmp_path / "folder")
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "is a folder without data files" in err


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder beside a schema that we may not enter; root, whom nothing stops, steps down."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    (base / "s.toml").write_text(SCHEMA)
    folder = base / "locked"
    folder.mkdir()
    (folder / "a.csv").write_text(ROWS)
    folder.chmod(0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(before)
    folder.chmod(0o755)
    shutil.rmtree(base)


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--subscriptions", "LOCKED"],
        ["explain", "--subscriptions", "LOCKED", "--id", "1", "--event", "{}"],
        ["explain", "--filter", "price > 1", "--events", "LOCKED"],
        ["try", "price > 1", "--events", "LOCKED"],
    ],
    ids=" ".join,
)
def test_an_unreadable_folder(
    locked: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(locked) if word == "LOCKED" else word for word in words]
    with pytest.raises(SystemExit) as left:
        main.run([*named, "--schema", str(locked.parent / "s.toml")])
    shown = capsys.readouterr()
    assert (left.value.code, shown.out) == (1, "")
    assert shown.err.startswith(f"error: cannot read {locked}: Permission denied (check that ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist (make one with: crossroads schema infer EVENTS)"),
        ("id = [", "not valid TOML"),
        ('id = "a"\n[attributes]\na = "strng"\n', "unknown type 'strng' (known types: "),
        ('id = "b"\n[attributes]\na = "string"\n', "no attribute 'b'"),
    ],
)
def test_unusable_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    arguments = write(tmp_path, ROWS)
    schema = tmp_path / "s.toml"
    schema.write_text(content) if content is not None else schema.unlink()
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: schema file {schema}")
    assert message in err


def test_events_that_cannot_be_read_are_found_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *write(tmp_path, ROWS), "--events", tmp_path / "no.csv")
    assert (code, out) == (1, "")
    assert "no.csv does not exist" in err


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--schema", tmp_path)
    assert code == 2
    assert "--subscriptions" in err
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Examples:" in out


# -- the pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 37, 38, 39, 150, 199, 200])
def test_the_caret_stands_under_its_character(position: int) -> None:
    text = "".join(chr(0x4E00 + n) for n in range(200))
    line, mark = caret(text, position)
    assert len(line) <= CARET_WINDOW + 2
    assert mark.strip() == "^"
    if position < len(text):
        assert line[mark.index("^")] == text[position]
    assert caret("a\tb\nc", 3) == ("a b c", "   ^")


def test_a_message_is_one_line() -> None:
    problem = Problem(rejected=True, kind="broken row", file="f", line=3, message="a\nb")
    assert problem_lines(problem) == ["f:3: error: broken row: a b"]


def test_status_shows_only_when_the_work_is_long() -> None:
    with LateStatus("working", after_seconds=1000) as status:
        status.say("still working")
        assert not status.shown
    with LateStatus("working", after_seconds=0) as status:
        status._timer.join()
        status.say("still working")
        assert status.shown
