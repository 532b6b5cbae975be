"""Scenario files: those we have, and what is said about wrong ones.

To accept what happens now: CROSSROADS_UPDATE_SCENARIOS=1 pytest tests/runtime/test_scenario.py,
then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crossroads.errors import ScenarioError
from crossroads.runtime.sim.scenario import check_scenario

FILES = sorted((Path(__file__).resolve().parent.parent / "scenarios").glob("*.txt"))
UPDATE = os.environ.get("CROSSROADS_UPDATE_SCENARIOS") == "1"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check_scenario(path, update=UPDATE)


def test_there_are_scenarios() -> None:
    assert FILES


NETWORK = "network chord bits=5 nodes=1,8,14,20\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lookup n8 26\n----\n", "s.txt:1: 'lookup' before there is a network; expected network"),
        ("network ring\n----\n", "s.txt:1: no such network: ring; expected one of cbps, chord"),
        ("network chord bits\n----\n", "s.txt:1: 'bits' is no option; expected name=value"),
        ("network chord bits=x\n----\n", "s.txt:1: bits=x is no number above zero"),
        ("network chord size=3\n----\n", "s.txt:1: no option 'size' (known: bits, cache,"),
        ("network chord bits=2 nodes=1,9\n----\n", "s.txt:1: 'n9' has no place on a ring of 2"),
        (NETWORK + "\n# hm\nfly n8\n----\n", "s.txt:4: unknown command 'fly'; expected one of"),
        (NETWORK + "lookup n8\n----\n", "s.txt:2: too little said to 'lookup'; expected lookup"),
        (NETWORK + "lookup n8 99\n----\n", "s.txt:2: '99' is no key of 5 bits"),
        (NETWORK + "lookup n9 2\n----\n", "s.txt:2: there is no node n9"),
        (NETWORK + "wait long\n----\n", "s.txt:2: 'long' is no number; expected wait MILLISEC"),
        (NETWORK + "join n3 through n1\n----\n", "s.txt:2: cannot join like this; expected join"),
        (NETWORK + "restart n8\n----\n", "s.txt:2: n8 is up (crash it first)"),
        (NETWORK + 'lookup n8 "26\n----\n', "s.txt:2: 'lookup n8 \"26': no closing quotation"),
        (NETWORK + "network chord\n----\n", "s.txt:2: a second network; expected one per file"),
        (NETWORK + "lookup n8 13\n", "s.txt:2: commands without an expectation; expected ----"),
        (NETWORK + "----\n----\n", "s.txt:3: a second ----; expected an empty line"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_expectation(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "s.txt"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        check_scenario(path)
    assert str(caught.value).startswith(said)


LOOKUP = NETWORK + "show Arrival\nlookup n8 13\nquiet\n----\n"


def expectation(tmp_path: Path) -> str:
    """What really happens, as `update` writes it."""
    path = tmp_path / "real.txt"
    path.write_text(LOOKUP)
    check_scenario(path, update=True)
    check_scenario(path)
    return path.read_text().split("----\n")[1].strip()


def test_update_writes_what_happened_and_keeps_the_rest(tmp_path: Path) -> None:
    line = expectation(tmp_path)
    assert line.startswith("50 n14 delivers Arrival payload=Lookup() origin=n8 hops=1")
    assert (tmp_path / "real.txt").read_text() == f"{LOOKUP}{line}\n"


def test_another_trace_is_an_error_at_its_line(tmp_path: Path) -> None:
    line = expectation(tmp_path)
    path = tmp_path / "s.txt"
    for expected, said in (
        ("51 n14 delivers", f"s.txt:6: found '{line}'; expected '51 n14 delivers'"),
        (f"{line}\nmore", "s.txt:7: nothing more happened; expected 'more'"),
        ("", f"s.txt:6: found '{line}'; expected nothing more"),
    ):
        path.write_text(f"{LOOKUP}{expected}\n")
        with pytest.raises(ScenarioError) as caught:
            check_scenario(path)
        assert str(caught.value) == said
