"""`crossroads try`: how many, which, and which predicate keeps the others out."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from crossroads.cli import main
from crossroads.cli.try_ import _share

SCHEMA = """
name = "shop"
id = "id"
[attributes]
id = { type = "bigint" }
title = { type = "string" }
price = { type = "double" }
cost = { type = "double" }
"""

EVENTS = """id,title,price,cost,colour
1,red shoe,12.5,8,red
2,blue shoe,30,40,blue
3,[bold]hat[/bold],30,,red
x,hat,1,1,red
5,hat,abc,1,red
,hat,1,1,red
7,red hat,,3,red
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "shop.toml"
    file.write_text(SCHEMA)
    return file


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "e.csv"
    file.write_text(EVENTS)
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main.run(["try", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(left.value.code or 0), shown.out, shown.err


def cells(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_how_many_and_which(schema: Path, events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "price >= 10 AND NOT title LIKE '%hat%' AND price > cost"
    code, out, err = run(capsys, text, "--schema", schema, "--events", events)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "1 of 4 events match (25.0%)"
    assert lines[1] == "3 events were rejected, for example"
    assert f"  {events}:5: id: 'x' is not a whole number (bigint)" in lines
    assert f"  {events}:6: price: 'abc' is not a number (double)" in lines
    assert f"  {events}:7: id attribute 'id' is missing" in lines
    rows = cells(out)
    assert ["price", ">=", "10", "3", "75.0%", "1"] in rows
    assert ["NOT", "(title", "LIKE", "'%hat%')", "2", "50.0%", "1"] in rows
    assert ["price", ">", "cost", "1", "25.0%", "2"] in rows
    assert rows[-2:] == [["event", "title", "price", "cost"], ["1", "red", "shoe", "12.5", "8.0"]]
    assert "columns not in the schema, ignored: colour" in err


def test_limit_and_text_that_looks_like_markup(
    schema: Path, events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("price = 30 AND title IS NOT NULL", "--schema", schema, "--events", events)
    _, out, _ = run(capsys, *arguments)
    assert "[bold]hat[/bold]" in out
    _, out, _ = run(capsys, *arguments, "--limit", "1")
    assert out.endswith("… and 1 more\n")
    _, out, _ = run(capsys, *arguments, "--limit", "0")
    assert out.splitlines()[0] == "2 of 4 events match (50.0%)"
    assert "blue shoe" not in out


def test_no_match_is_an_answer(
    schema: Path, events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("price = 30 AND cost = 8", "--schema", schema, "--events", events)
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert out.startswith("0 of 4 events match (0.00%)\n")
    assert ["cost", "=", "8", "1", "25.0%", "2"] in cells(out)


def test_json(schema: Path, events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "price >= 10 OR title IS NULL"
    code, out, _ = run(capsys, text, "--schema", schema, "--events", events, "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["events"], report["matched"], report["rejected"]) == (4, 3, 3)
    assert report["share"] == 0.75
    assert [one["id"] for one in report["examples"]] == ["1", "2", "3"]
    assert report["examples"][0]["values"] == {"title": "red shoe", "price": 12.5}
    assert [(one["alone"], one["without"]) for one in report["predicates"]] == [
        (3, None),
        (0, None),
    ]
    assert [one["line"] for one in report["rejects"]] == [5, 6, 7]


def test_a_folder_of_several_formats(
    schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.csv").write_text("id,price\n1,5\n2,6\n")
    (folder / "b.jsonl").write_text('{"id": 3, "price": 7}\n{"id": 4}\n')
    packed = gzip.compress(b"id,price\n" + b"".join(b"%d,9\n" % n for n in range(10, 20_000)))
    (folder / "c.csv.gz").write_bytes(packed[:-2000])
    code, out, _ = run(capsys, "price > 5", "--schema", schema, "--events", folder, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["matched"] == report["events"] - 2
    assert report["rejected"] == 1
    assert "truncated gzip" in report["rejects"][0]["reason"]


def test_text_is_searched(schema: Path, events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "contains(title, 'shoe') AND NOT contains(title, 'red') AND title RLIKE 'e s'"
    code, out, _ = run(capsys, text, "--schema", schema, "--events", events, "--json")
    assert code == 0
    report = json.loads(out)
    assert [one["id"] for one in report["examples"]] == ["2"]
    assert [one["alone"] for one in report["predicates"]] == [2, 2, 1]


def test_filters_that_look_at_nothing(
    schema: Path, events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "TRUE", "--schema", schema, "--events", events)
    assert code == 0
    assert out.startswith("4 of 4 events match (100.00%)\n")
    assert cells(out)[-1] == ["7"]


# -- input that cannot be used -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "missing.csv does not exist"),
        ("empty.csv", "", "is empty"),
        ("other.csv", "a,b\n1,2\n", "no column is an attribute of schema 'shop'"),
        ("noid.csv", "ident,price\n1,2\n", "there is no column for the id attribute 'id'"),
        (
            "nulls.csv",
            "id,price,title,cost\n,2,,\n,3,,\n",
            "no usable event (2 were rejected, the first because",
        ),
        ("e.txt", "x", "unknown format .txt"),
        ("e.json", "[{}]", "is one JSON array, not JSON lines"),
    ],
)
def test_unusable_events(
    schema: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str | None,
    message: str,
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    code, _, err = run(capsys, "price > 1", "--schema", schema, "--events", file)
    assert code == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_file_with_a_header_only_has_no_events(
    schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "e.csv"
    file.write_text("id,price\n")
    code, out, _ = run(capsys, "price > 1", "--schema", schema, "--events", file)
    assert (code, out) == (0, "0 of 0 events match\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prise > 1", "no attribute 'prise' at position 1 (did you mean 'price'?)"),
        ("price > 'a'", "cannot compare"),
        ("price >", "at position"),
        ("", "the filter is empty"),
    ],
)
def test_a_bad_filter(
    schema: Path, events: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    code, out, err = run(capsys, text, "--schema", schema, "--events", events)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err


def test_bad_schema_and_usage(
    schema: Path, events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema.write_text(SCHEMA.replace('"double"', '"dubble"'))
    code, _, err = run(capsys, "price > 1", "--schema", schema, "--events", events)
    assert code == 1
    assert f"schema file {schema}: unknown type 'dubble'" in err
    code, _, err = run(capsys, "price > 1", "--schema", tmp_path, "--events", events)
    assert code == 1
    assert f"cannot read schema file {tmp_path}" in err
    assert run(capsys, "--schema", schema, "--events", events)[0] == 2
    assert "Examples:" in run(capsys, "--help")[1]


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 10, " (0.00%)"),
        (1, 1_000_000, " (under 0.01%)"),
        (999_999, 1_000_000, " (over 99.99%)"),
        (10, 10, " (100.00%)"),
        (5, 10, " (50.0%)"),
        (0, 0, ""),
    ],
)
def test_few_never_look_like_none(part: int, whole: int, said: str) -> None:
    assert _share(part, whole) == said


def test_no_spark_is_needed(schema: Path, events: Path) -> None:
    program = (
        "import sys\n"
        "from crossroads.cli.main import run\n"
        "try:\n"
        f"    run(['try', 'price > 1', '--schema', {str(schema)!r}, '--events', {str(events)!r}])\n"
        "except SystemExit as left:\n"
        "    print(left.code, sorted({'pyspark', 'py4j'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
