"""Every bug that can be planted is found, and the table in the documents says by which case.

If a change of the protocols moves the cases: `make test-planted` writes the table anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from crossroads.testing.subjects import Subject, subjects

TABLE = Path(__file__).resolve().parents[2] / "docs" / "planted-bugs.md"
PATIENCE = 25  # cases after the one that the table names: small changes may move it


def rows() -> dict[tuple[str, str], int]:
    """(subject, bug) → cases needed."""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[3].isdigit():
            found[cells[0], cells[1]] = int(cells[3])
    return found


PLANTED = [one.with_bug(bug) for one in subjects(overlay=None, scheme=None) for bug in one.bugs]


def test_the_table_has_every_bug() -> None:
    assert rows().keys() == {(f"{one.kind} {one.name}", one.bug) for one in PLANTED}
    assert len(PLANTED) >= 10


@pytest.mark.parametrize("planted", sorted(PLANTED, key=str), ids=str)
def test_a_planted_bug_is_found(planted: Subject) -> None:
    first = rows()[f"{planted.kind} {planted.name}", planted.bug] - 1
    assert any(planted.run(seed).failed for seed in range(first, first + PATIENCE))
