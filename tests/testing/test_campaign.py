"""The campaign runner: what it prints, and its exit codes."""

from __future__ import annotations

import pytest

from crossroads.testing.campaign import main


def test_a_campaign_says_what_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--overlay", "chord", "--seeds", "3", "--from", "7", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "overlay chord: 3 cases from seed 7, " in said
    assert "0 out of contract, 0 break the law" in said


def test_one_case_prints_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for _ in range(2):
        assert main(["--overlay", "chord", "--seeds", "1", "--from", "7"]) == 0
        lines.append([line for line in capsys.readouterr().out.splitlines() if "seed 7:" in line])
    assert lines[0] == lines[1] and len(lines[0]) == 1


def test_a_planted_bug_is_found_or_the_campaign_fails(capsys: pytest.CaptureFixture[str]) -> None:
    planted = ["--overlay", "chord", "--jobs", "1", "--planted", "multicast-twice"]
    assert main([*planted, "--seeds", "5"]) == 0
    assert "overlay chord with multicast-twice: found by seed 0: multicast payload" in (
        capsys.readouterr().out
    )


def test_processes_of_their_own_find_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for jobs in ("1", "2"):
        main(["--overlay", "chord", "--seeds", "16", "--jobs", jobs])
        said.append(capsys.readouterr().out.strip().splitlines()[-1])
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--overlay", "ring"], "no overlay is called 'ring' (known: chord"),
        (["--scheme", "none"], "no scheme is called 'none' (known: "),
        (["--overlay", "chord", "--planted", "gremlin"], "has no bug 'gremlin' (known: adopt-"),
        (["--overlay", "chord", "--seeds", "0"], "at least one case"),
    ],
)
def test_impossible_requests(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in " ".join(capsys.readouterr().out.split())
