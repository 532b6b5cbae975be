"""`crossroads lab`: the list, a run for people and for programs, the page, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from crossroads.cli import main
from crossroads.lab.experiments import EXPERIMENTS


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main.run([*map(str, arguments)])
    shown = capsys.readouterr()
    return int(left.value.code or 0), shown.out, shown.err


def test_the_list_names_every_experiment_and_its_claim(capsys):
    code, out, err = run(capsys, "lab", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("C")] == [*EXPERIMENTS]
    assert "Fig. 5" in out and "2.5" in out


@pytest.mark.spark
def test_a_run_says_what_holds_and_the_page_shows_it(spark, tmp_path, capsys):
    folder = tmp_path / "results"
    code, out, err = run(capsys, "lab", "run", "C5", "c11", "--output", folder)
    assert (code, err) == (0, "")
    assert "C5 average hops between two random nodes at n = 500" in out
    assert "  published  about 2.5\n  measured   2.5" in out
    assert "  verdict    holds\n  rule       holds within 10%" in out
    assert "claims hold; what does not is a finding." in out
    code, out, _ = run(capsys, "lab", "report", "--output", folder)
    assert (code, out) == (0, f"written to {folder / 'report.html'}\n")
    elsewhere = tmp_path / "page.html"
    assert run(capsys, "lab", "report", "--output", folder, "--to", elsewhere)[0] == 0
    page = elsewhere.read_text()
    assert page == (folder / "report.html").read_text()
    assert len(list(ElementTree.fromstring(page).iter("svg"))) == 4


@pytest.mark.spark
def test_programs_get_a_list_of_verdicts_and_nothing_else(spark, tmp_path, capsys):
    code, out, _ = run(
        capsys, "lab", "run", "C9", "--seeds", "1", "--json", "--output", tmp_path / "r"
    )
    verdicts = json.loads(out)
    assert code == 0  # also though some do not hold
    assert {one["holds"] for one in verdicts} == {True, False}
    assert all(set(one) == {"claim", "published", "measured", "holds", "note"} for one in verdicts)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "C12"), 2, "there is no experiment 'C12'; did you mean C11? (there are C5, C6"),
        (("run", "hops"), 2, "there is no experiment 'hops' (there are C5, C6"),
        (("run", "C5", "--seeds", "-3"), 2, "--seeds must be 1 to 1,000, not -3"),
        (("run", "C5", "--master", "mars"), 2, "--master mars is not a Spark master"),
        (("report",), 1, "lab-results holds no results of the lab"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, capsys, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    left, out, err = run(capsys, "lab", *arguments)
    assert (left, out) == (code, "")
    assert err.startswith("error: ") and said in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())
