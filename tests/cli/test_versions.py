"""`crossroads versions`: the history of a stream's subscriptions, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crossroads.cli.main import run
from crossroads.model.schema import Schema
from crossroads.pipeline.stream.subscriptionlog import SubscriptionLog

SCHEMA = Schema.from_mapping({"id": "n", "attributes": {"n": "bigint", "price": "double"}})
NOW = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def crossroads(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        run(["versions", *map(str, words)])
    return int(leaving.value.code or 0)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    source = tmp_path / "changes"
    source.mkdir()
    (source / "a.csv").write_text("id,subscriber,filter\nx,ann,price > 4\ny,bo,TRUE\n")
    (source / "b.csv").write_text("op,id\nremove,nobody\n")
    (source / "c.csv").write_text("op,id\npause,x\nremove,y\nremove,nobody\n")
    log = SubscriptionLog.open(source, SCHEMA, tmp_path / "state" / "subscriptions")
    log.poll(NOW)
    return tmp_path / "state"


def test_the_history_is_a_table(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crossroads("--checkpoint", checkpoint) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "version time (UTC) file added replaced removed paused resumed expired rejected living",
        "1 2023-11-14 22:13:20 a.csv 2 2",
        "– 2023-11-14 22:13:20 b.csv 1 2",
        "2 2023-11-14 22:13:20 c.csv 1 1 1 0",
    ]
    assert crossroads("--checkpoint", checkpoint, "--last", 1) == 0
    said = capsys.readouterr().out
    assert "a.csv" not in said and "2 earlier ones: --last 3 shows all" in said


def test_the_history_as_json(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crossroads("--checkpoint", checkpoint, "--json", "--last", 1) == 0
    first, second, third = json.loads(capsys.readouterr().out)["versions"]
    assert (first["version"], first["added"], first["file"]) == (1, 2, "a.csv")
    assert (second["version"], second["changed"], second["rejected"]) == (1, False, 1)
    assert (third["version"], third["paused"], third["living"]) == (2, 1, 0)
    assert len(first["content_hash"]) == 64 and first["time"] == "2023-11-14 22:13:20"


def test_a_stream_that_is_writing_is_no_obstacle(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (checkpoint / "subscriptions" / "journal.jsonl").open("a") as journal:
        journal.write('{"number": 4, "ver')
    assert crossroads("--checkpoint", checkpoint, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["versions"]) == 3


def test_what_is_no_checkpoint_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crossroads("--checkpoint", tmp_path) == 1
    assert "is not the checkpoint of a stream (give the folder" in capsys.readouterr().err
    assert crossroads("--checkpoint", tmp_path / "nothing") == 1
    assert "nothing does not exist" in capsys.readouterr().err


def test_a_stream_that_has_only_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SubscriptionLog.open(tmp_path / "none.csv", SCHEMA, tmp_path / "subscriptions")
    assert crossroads("--checkpoint", tmp_path) == 0
    assert capsys.readouterr().out == "no subscriptions were taken up yet\n"
