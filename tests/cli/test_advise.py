"""`crossroads advise`: the table, the sentence, the flags, the page, JSON, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import crossroads
from crossroads.cli import main
from crossroads.mapping.fit import MAPPINGS

NAMES = ("schema.toml", "subscriptions.parquet", "events.parquet")


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main.run([*map(str, arguments)])
    shown = capsys.readouterr()
    return int(left.value.code or 0), shown.out, shown.err


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """A folder to be in, with a workload made by our own command."""
    monkeypatch.chdir(tmp_path)
    sizes = "--events", "2000", "--subscriptions", "1500", "--seed", "0"
    code, _, _ = run(capsys, "generate", "stocks", "--output", "w", *sizes)
    assert code == 0
    return tmp_path


def arguments(folder: str = "w", names: tuple[str, str, str] = NAMES) -> tuple[str, ...]:
    flags = ("--schema", "--subscriptions", "--events")
    return tuple(
        part for flag, name in zip(flags, names, strict=True) for part in (flag, f"{folder}/{name}")
    )


def test_people_get_a_table_a_sentence_flags_and_a_page(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "advise", *arguments(), "--cores", "2", "--memory", "8")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("subscriptions: 1,500 (")
    assert lines[1].startswith("events: 2,000 (")
    assert lines[2] == "sampled: 1,500 subscriptions and 2,000 events"
    table = {line.split()[0]: line for line in lines[5:20]}
    wanted = {"direct", "indexed", "naive"}
    wanted |= {f"{plan}/{name}" for plan in ("sql", "keyed") for name in MAPPINGS}
    assert set(table) == wanted
    assert next(iter(table)) == "direct"
    assert "Use direct: about " in out
    assert "  crossroads match … --plan direct" in lines
    assert "--plan keyed --mapping " in out
    assert "Expensive subscriptions, of 1,500 sampled:" in out
    assert lines[-1] == "The page with charts: advice.html"
    page = (here / "advice.html").read_text()
    assert len(list(ElementTree.fromstring(page).iter("svg"))) == 4
    assert "http://" not in page
    assert "https://" not in page
    assert str(here) not in page
    assert "w/events.parquet" in page
    assert f"crossroads {crossroads.__version__}" in page
    assert not list(here.glob(".advice*"))


def test_programs_get_json_and_no_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise", *arguments(), "--cores", "3", "--memory", "0.5", "--json")
    assert code == 0
    report: dict[str, Any] = json.loads(out)
    assert set(report) == {
        "version", "made", "inputs", "page", "schema", "schema_hash", "situation",
        "sampled_subscriptions", "sampled_events", "refused_subscriptions", "refused_events",
        "estimates", "profiles", "recommendation", "flags", "growth", "expenses",
    }  # fmt: skip
    assert report["situation"]["cores"] == 3
    assert report["situation"]["memory"] == 1 << 29
    assert report["situation"]["events"] == {
        "count": 2_000,
        "bytes": (here / "w/events.parquet").stat().st_size,
        "exact": True,
    }
    assert report["flags"] == "--plan direct"
    assert report["page"] is None
    assert set(report["estimates"][0]) == {
        "plan", "mapping", "cells", "counts", "bytes_shuffled", "index_bytes", "seconds", "refused",
        "work",
    }  # fmt: skip
    assert not (here / "advice.html").exists()


def test_json_with_a_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise", *arguments(), "--json", "--output", "a.html")
    assert code == 0
    assert json.loads(out)["page"] == "a.html"
    assert (here / "a.html").read_text().startswith("<!DOCTYPE html>")


def test_for_a_cluster_and_for_a_small_host(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "advise", *arguments(), "--cluster", "--memory", "1")
    assert "  crossroads match … --plan indexed" in out.splitlines()
    assert "  direct: not every worker sees the paths" in out.splitlines()
    _, out, _ = run(capsys, "advise", *arguments(), "--memory", "0.0001", "--output", "b.html")
    assert "  crossroads match … --plan keyed --mapping " in out
    assert "Out of the question:" in out
    assert "direct: an index of " in out
    assert "refused" in (here / "b.html").read_text()


def test_an_earlier_page_is_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "advice.html").write_text("an older one")
    run(capsys, "advise", *arguments(), "--memory", "1")
    assert (here / "advice.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--memory", "0"), 2, "error: --memory must be a number above 0, not 0"),
        (("--memory", "nan"), 2, "error: --memory must be a number above 0, not nan"),
        (("--memory", "inf"), 2, "error: --memory must be a number above 0, not inf"),
        (("--output", "no/such/folder/a.html"), 1, "error: cannot write no/such/folder/a.html: "),
        (("--output", "w"), 1, "error: cannot write w: "),
    ],
)
def test_flags_that_cannot_work(
    here: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str], code: int, said: str
) -> None:
    left, _, err = run(capsys, "advise", *arguments(), *flags)
    assert left == code
    assert err.startswith(said)
    assert err.count("\n") == 1
    assert not list(here.rglob("*.half"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("schema.toml", None, "schema file w/none does not exist"),
        ("subscriptions.parquet", None, "w/none does not exist"),
        ("events.parquet", None, "w/none does not exist"),
        ("subscriptions.parquet", "", "nothing to read"),
        ("subscriptions.parquet", "id,subscriber,filter\n", "has no usable subscription"),
        ("subscriptions.parquet", "id,subscriber,filter\na,b,nope = 1\n", "no attribute 'nope'"),
        ("events.parquet", "", "nothing to read"),
        ("events.parquet", "date,symbol\n", "has no usable event (it has no rows)"),
        ("events.parquet", "date,symbol\nsoon,x\n", "has no usable event (the first: line 2"),
    ],
)
def test_wrong_input_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None, said: str
) -> None:
    other = "none" if content is None else "other.csv"
    if content is not None:
        (here / "w" / other).write_text(content)
    schema, subscriptions, events = (other if each == name else each for each in NAMES)
    code, out, err = run(capsys, "advise", *arguments(names=(schema, subscriptions, events)))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert not (here / "advice.html").exists()
