"""`crossroads explain`: the tree, the reason, and what it says when something cannot be found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crossroads.cli import main

SCHEMA = """
name = "shop"
id = "id"
[attributes]
id = { type = "bigint" }
status = { type = "string", values = ["active", "sold"] }
price = { type = "double" }
weight = { type = "decimal(30,20)" }
"order.total" = { type = "int" }
listed = { type = "date", format = "%d.%m.%Y" }
"""

FILTER = "price >= 10 AND NOT status = 'sold'"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "shop.toml"
    file.write_text(SCHEMA)
    return file


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "e.csv"
    file.write_text("id,status,price\n1,sold,30\n2,active,30\nx,active,1\n40,active,\n")
    return file


@pytest.fixture
def subscriptions(tmp_path: Path) -> Path:
    file = tmp_path / "s.csv"
    file.write_text(
        f"id,subscriber,filter\ns1,u1,{FILTER}\ns2,u2,prise > 1\ns3,u1,TRUE\ns3,u1,FALSE\n"
        ",u4,price > 1\n"
    )
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main.run(["explain", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(left.value.code or 0), shown.out, shown.err


def test_an_event_that_does_not_match(
    schema: Path, events: Path, subscriptions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--schema", schema, "--subscriptions", subscriptions, "--id", "s1")
    code, out, err = run(capsys, *arguments, "--events", events, "--event-id", "1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"subscription s1 of u1: {FILTER}"
    assert lines[1] == f"event 1 ({events} line 2)"
    assert any(line.strip().startswith("✓ price >= 10") for line in lines)
    assert any("✗ not" in line and "← decided" in line for line in lines)
    assert lines[-1] == "does not match: status = 'sold'"


def test_an_event_that_matches(
    schema: Path, events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--schema", schema, "--filter", FILTER, "--events", events)
    code, out, _ = run(capsys, *arguments, "--row", "2")
    assert code == 0
    assert out.splitlines()[-1].startswith("matches: price = 30.0 >= 10 and ")
    # the first row is taken if none is named
    assert "status = 'sold'" in run(capsys, *arguments)[1].splitlines()[-1]


def test_null_is_unknown(schema: Path, events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--schema", schema, "--filter", "price > 1", "--events", events)
    code, out, _ = run(capsys, *arguments, "--event-id", "40")
    assert code == 0
    assert "? price > 1" in out
    assert out.endswith("does not match: price is NULL\n")


def test_json_in_and_out(schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"Price": 12, "order": {"total": 3}, "weight": 1.25, "listed": "31.12.2020"}
    arguments = ("--schema", schema, "--filter", "order.total = 3 OR price > 100")
    code, out, err = run(capsys, *arguments, "--event", json.dumps(event), "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["matches"] is True
    assert report["event"]["weight"] == "1.25000000000000000000"
    assert report["event"]["listed"] == "2020-12-31"
    assert report["event"]["id"] is None
    assert report["explanation"]["of"] == "or"
    assert report["explanation"]["parts"][0]["decided"] is True
    assert report["subscription"] is None


def test_digits_of_a_decimal_survive(schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--schema", schema, "--filter", "weight = 0.12345678901234567890")
    _, out, _ = run(capsys, *arguments, "--event", '{"weight": 0.12345678901234567890}')
    assert out.splitlines()[-1].startswith("matches: ")


def test_numbers_that_json_does_not_know(
    schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = tmp_path / "nan.csv"
    events.write_text("id,price\n1,NaN\n")
    arguments = ("--schema", schema, "--filter", "price > 1", "--events", events, "--json")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert json.loads(out, parse_constant=pytest.fail)["event"]["price"] == "nan"


def test_a_field_that_means_nothing_is_pointed_out(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--schema", schema, "--filter", "price > 1", "--event", '{"prise": 3}')
    code, _, err = run(capsys, *arguments)
    assert code == 0
    assert err == "warning: --event: 'prise' is ignored (did you mean 'price'?)\n"


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{", "--event is not valid JSON"),
        ("[1]", "--event is not a JSON object"),
        ('{"price": "abc"}', "price: 'abc' is not a number (double)"),
        ('{"status": "actve"}', "status: 'actve' is not one of active, sold"),
    ],
)
def test_an_event_that_is_none(
    schema: Path, capsys: pytest.CaptureFixture[str], event: str, message: str
) -> None:
    code, out, err = run(capsys, "--schema", schema, "--filter", "price > 1", "--event", event)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--event-id", "4"), "has no event '4' (did you mean '40'?"),
        (("--event-id", "x"), "1 rows were rejected, it may be one of them"),
        (("--row", "3"), "row 3 of "),
        (("--row", "3"), "(line 4) is rejected: id: 'x' is not a whole number (bigint)"),
        (("--row", "9"), "has no row 9 (it has 4)"),
    ],
)
def test_an_event_that_is_not_there(
    schema: Path,
    events: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    base = ("--schema", schema, "--filter", "price > 1", "--events", events)
    code, out, err = run(capsys, *base, *arguments)
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("s11", "has no subscription 's11' (did you mean 's1'?)"),
        ("s2", "no attribute 'prise' at position 1 (did you mean 'price'?)"),
        ("s2", "error: subscription s2 ("),
        ("s3", "(lines 4, 5): all are rejected"),
        ("", "has no subscription ''"),
    ],
)
def test_a_subscription_that_cannot_be_used(
    schema: Path, subscriptions: Path, capsys: pytest.CaptureFixture[str], wanted: str, message: str
) -> None:
    base = ("--schema", schema, "--event", '{"price": 1}')
    code, out, err = run(capsys, *base, "--subscriptions", subscriptions, "--id", wanted)
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "neither is given: --filter and --subscriptions"),
        (("--filter", "TRUE"), "neither is given: --event and --events"),
        (("--filter", "TRUE", "--subscriptions", "s"), "both are given: --filter and"),
        (("--filter", "TRUE", "--event", "{}", "--id", "1"), "--id needs --subscriptions"),
        (("--subscriptions", "s", "--event", "{}"), "--subscriptions needs --id"),
        (("--filter", "TRUE", "--event", "{}", "--row", "1"), "--row needs --events"),
        (("--filter", "TRUE", "--events", "e", "--row", "1", "--event-id", "1"), "both name"),
    ],
)
def test_flags_that_do_not_go_together(
    schema: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(capsys, "--schema", schema, *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_bad_filter_missing_files_and_bad_schema(
    schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = ("--event", "{}")
    code, _, err = run(capsys, "--schema", schema, "--filter", "price >", *event)
    assert code == 1
    assert err.startswith("error: ") and "at position" in err
    missing = tmp_path / "no"
    code, _, err = run(capsys, "--schema", schema, "--filter", "TRUE", "--events", missing)
    assert (code, err) == (1, f"error: {missing} does not exist\n")
    code, _, err = run(capsys, "--schema", missing, "--filter", "TRUE", *event)
    assert (code, f"schema file {missing} does not exist" in err) == (1, True)
    schema.write_text("id = 'a'")
    code, _, err = run(capsys, "--schema", schema, "--filter", "TRUE", *event)
    assert (code, err) == (
        1,
        f"error: schema file {schema}: the schema has no [attributes] table\n",
    )
    assert "Examples:" in run(capsys, "--help")[1]
