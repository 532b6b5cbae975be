"""`crossroads match` on the terminal: the summary, JSON for programs, help that shows the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from crossroads.cli.main import run
from crossroads.cli.match import _Drawing
from crossroads.lab.workloads import stocks, write_workload

SEED, EVENTS, SUBSCRIPTIONS = 2, 300, 40


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("w")
    write_workload(stocks(SEED, EVENTS, SUBSCRIPTIONS), folder, format="csv")
    return folder


def crossroads(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        run([str(word) for word in words])
    return int(leaving.value.code or 0)


def match(workload: Path, output: Path, *more: str) -> int:
    return crossroads(
        "match",
        *("--schema", workload / "schema.toml"),
        *("--subscriptions", workload / "subscriptions.csv"),
        *("--events", workload / "events.csv"),
        *("--output", output),
        *more,
    )


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_summary_for_people(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert match(workload, tmp_path / "out") == 0
    said = capsys.readouterr()
    counts = json.loads((tmp_path / "out" / "summary.json").read_text())["counts"]
    lines = [line.split() for line in said.out.splitlines()]
    assert ["events", "300"] in lines
    assert ["subscriptions", "40"] in lines
    assert ["notifications", f"{counts['notifications']:,}"] in lines
    assert ["rejected", "0"] in lines
    assert said.out.replace("\n", "").endswith(f"written to {tmp_path / 'out'}")
    assert said.err == ""  # nobody is watching: nothing is drawn


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_summary_for_programs(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--json", "--include", " symbol, close ", "--per", "subscriber", "--format", "jsonl")
    assert match(workload, tmp_path / "out", *more) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["per"] == "subscriber" and summary["format"] == "jsonl"
    part = next((tmp_path / "out" / "notifications").iterdir())
    first = json.loads(part.read_text().splitlines()[0])
    assert list(first) == ["event_id", "subscriber", "symbol", "close"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_plan_by_keys_says_which(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--plan", "keyed", "--index-store", str(tmp_path / "store"))
    assert match(workload, tmp_path / "out", *asked, "--mapping", "hilbert", "--cells", "3") == 0
    assert "keyed (hilbert, 3 cells, index built)" in capsys.readouterr().out
    assert match(workload, tmp_path / "out", *asked, "--json") == 0
    assert json.loads(capsys.readouterr().out)["index"] == "reused"
    assert match(workload, tmp_path / "out", *asked, "--mapping", "zones") == 2
    said = capsys.readouterr().err
    assert "was made with --mapping hilbert, not --mapping zones" in said
    assert len(said.splitlines()) == 1


def test_a_mapping_that_does_not_exist(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert match(workload, tmp_path / "out", "--plan", "keyed", "--mapping", "hilbrt") == 2
    assert "did you mean hilbert?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert crossroads("match", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "crossroads generate stocks --output w" in text
    assert "crossroads match --schema w/schema.toml" in text
    assert "Exit codes" in text


def test_progress_is_one_line() -> None:
    console = Console(width=80, force_terminal=True, record=True)
    with Progress(console=console, auto_refresh=False) as progress:
        drawing = _Drawing(progress)
        drawing.stage("subscriptions")
        drawing.stage("match")
        drawing.progress(1, 1)  # one piece has no progress to show
        assert progress.tasks[0].total is None
        drawing.progress(1, 4)
        (task,) = progress.tasks
        assert (task.description, task.completed, task.total) == ("matching", 1, 4)
        assert task.fields["count"] == "1/4"
