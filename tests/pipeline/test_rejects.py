"""Rejects read back as they were written, whatever the rejected text looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossroads.pipeline.output import FORMATS, write_rejects
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.rejects import first_reject, read_rejects

TEXTS = ("123", "2001-01-01", "", "true", 'a,"b"\nc', "line\u2028separator\x0b", "é\r\n", "NULL")


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("texts", [TEXTS, ("7", "8")], ids=["all kinds", "numbers only"])
def test_rejects_read_back_equal(ending: str, texts: tuple[str, ...], tmp_path: Path) -> None:
    rejects = [Reject("in.csv", line, text, "bad") for line, text in enumerate(texts, 2)]
    write_rejects(tmp_path, rejects[:1], ending, 0)
    write_rejects(tmp_path, rejects[1:], ending, 1)
    assert list(read_rejects(tmp_path)) == rejects
    assert first_reject(tmp_path) == rejects[0]


def test_no_rejects(tmp_path: Path) -> None:
    assert first_reject(tmp_path / "rejected_events") is None
