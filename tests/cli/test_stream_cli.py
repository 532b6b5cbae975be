"""`crossroads stream` on the terminal: help, and refusals in one line before Spark is started.

Every command here names a Spark master that does not answer: had Spark been tried, that would be
the error.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from crossroads.cli.main import run
from crossroads.model.schema import Schema
from crossroads.pipeline.stream.card import Checkpoint
from crossroads.pipeline.stream.foldersink import FolderSink
from crossroads.pipeline.stream.journal import Journal, Record

SCHEMA = 'id = "id"\n[attributes]\nid = "int"\ncity = "string"\ntime = "timestamp"\n'
NO_MASTER = "spark://127.0.0.1:1"
HOLD = """
import sys
from pathlib import Path
from crossroads.pipeline.stream.card import Checkpoint
with Checkpoint(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def crossroads(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        run([str(word) for word in words])
    return int(leaving.value.code or 0)


class Place:
    """A folder with everything a stream needs, and what it said last."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        (folder / "schema.toml").write_text(SCHEMA)
        (folder / "subs.csv").write_text("id,subscriber,filter\ns1,ann,city = 'Lima'\n")
        (folder / "in").mkdir()
        self.flags: dict[str, object] = {
            "--schema": folder / "schema.toml",
            "--subscriptions": folder / "subs.csv",
            "--events": folder / "in",
            "--output": folder / "out",
            "--checkpoint": folder / "ck",
            "--master": NO_MASTER,
        }

    def refused(self, *more: object, **other: object) -> tuple[int, str]:
        flags = self.flags | {f"--{name}": value for name, value in other.items()}
        words = [word for pair in flags.items() for word in pair]
        code = crossroads("stream", *words, *more)
        said = self.capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1, said
        return code, said.err


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    # Other tests of this process may have started Spark, and whoever has a session keeps it: the
    # stream would run on it, for ever.
    monkeypatch.setattr("crossroads.pipeline.session.existing_session", lambda: None)
    return Place(tmp_path, capsys)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert crossroads("stream", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "crossroads stream --schema s.toml --subscriptions subs/" in text
    assert "Exit codes" in text and "docs/streaming.md" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--trigger", "soon"), "--trigger 'soon' is no duration"),
        (("--trigger", "0"), "--trigger must be between 1ms and 1d"),
        (("--trigger", "0.1ms"), "--trigger must be between 1ms and 1d"),
        (("--trigger", "unlimited"), "--trigger must be between 1ms and 1d"),
        (("--max-record-bytes", "0"), "--max-record-bytes must be at least 1"),
        (("--alone-bytes", "-1"), "--alone-bytes must be at least 0"),
        (("--digest-size", "5"), "--digest-size goes with --digest-delay"),
        (("--digest-delay", "5s", "--digest-size", "0"), "--digest-size must be 1 to 10,000"),
        (("--event-time", "time"), "--event-time and --max-delay go together"),
        (("--event-time", "city", "--max-delay", "5m"), "not a date or timestamp"),
        (("--event-time", "time", "--max-delay", "unlimited"), "no event is late"),
        (("--include", "nope"), "--include"),
        (("--packages", "spark-sql-kafka"), "'spark-sql-kafka' are no coordinates"),
        (("--jars", "nowhere"), "--jars nowhere: there are no .jar files"),
        (("--master", "locl[2]"), "is not a Spark master"),
        (("--events", "kafka://broker/orders"), "'broker' is not HOST:PORT"),
        (("--output", "kafka://broker:9092"), "names no topic"),
        (("--output", "ftp://somewhere/out"), "is no place for notifications"),
    ],
)
def test_flags_that_cannot_work(place: Place, more: tuple[str, ...], said: str) -> None:
    code, line = place.refused(*more)
    assert code == 2 and said in line
    assert not (place.folder / "ck" / "stream.json").exists()


def test_what_is_read_must_be_there(place: Place) -> None:
    code, line = place.refused(subscriptions=place.folder / "nowhere.csv")
    assert code == 1 and "nowhere.csv do not exist" in line
    code, line = place.refused(events=place.folder / "nowhere")
    assert code == 1 and "nowhere does not exist" in line
    code, line = place.refused(events=place.folder / "subs.csv")
    assert code == 2 and "is a file" in line and "crossroads match" in line
    code, line = place.refused(schema=place.folder / "nowhere.toml")
    assert code == 1 and "cannot read the schema" in line
    assert not (place.folder / "ck").exists()


@pytest.mark.parametrize("flag", ["output", "checkpoint", "rejects", "archive"])
def test_what_is_written_is_not_read(place: Place, flag: str) -> None:
    code, line = place.refused(**{flag: place.folder / "in" / "deeper"})
    assert code == 2 and f"--{flag}" in line and "lies in the other" in line


def test_a_checkpoint_that_cannot_be_written(place: Place) -> None:
    blocked = place.folder / "file"
    blocked.write_text("")
    code, line = place.refused(checkpoint=blocked / "ck")
    assert code == 1 and "as a checkpoint: Not a directory" in line


def test_a_checkpoint_in_use_by_another_process(place: Place) -> None:
    holder = [sys.executable, "-c", HOLD, str(place.folder / "ck")]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        code, line = place.refused()
        process.communicate()  # closes its input: it leaves
    assert code == 1 and "another stream is running on the checkpoint" in line
    assert "no Spark master answers" in place.refused()[1]


def test_a_checkpoint_of_another_schema_says_what_changed(place: Place) -> None:
    assert "no Spark master answers" in place.refused()[1]
    (place.folder / "schema.toml").write_text(SCHEMA.replace('city = "string"', 'city = "int"'))
    code, line = place.refused()
    assert code == 1 and "checkpoint of another schema" in line and "city" in line


def test_a_checkpoint_belongs_to_one_source_and_one_sink(place: Place) -> None:
    assert "no Spark master answers" in place.refused()[1]
    # A slip of the first start is forgiven while no batch was begun.
    assert "no Spark master answers" in place.refused(output=place.folder / "out2")[1]
    record = Record(
        batch=0, started_ms=1, subscription_version=1, plan="direct", split_bytes=1, cores=1
    )
    Journal(place.folder / "ck" / "batches").begin(record)
    code, line = place.refused(output=place.folder / "out3")
    assert code == 1 and f"writes to folder {place.folder / 'out2'}" in line
    (place.folder / "other").mkdir()
    code, line = place.refused(events=place.folder / "other", output=place.folder / "out2")
    assert code == 1 and f"reads folder {place.folder / 'in'}" in line


def test_a_damaged_checkpoint(place: Place) -> None:
    (place.folder / "ck").mkdir()
    (place.folder / "ck" / "stream.json").write_text("{")
    code, line = place.refused()
    assert code == 1 and "stream.json cannot be read" in line


def test_the_output_of_another_stream(place: Place) -> None:
    FolderSink(place.folder / "out", stream="another").open()
    code, line = place.refused()
    assert code == 1 and "has the output of another stream" in line


def test_a_port_in_use(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, line = place.refused("--metrics", port)
    assert code == 1 and f"--metrics {port}: Address already in use" in line


def test_a_log_that_cannot_be_written(place: Place) -> None:
    code, line = place.refused("--log", place.folder)
    assert code == 1 and "Is a directory" in line


def test_the_log_has_the_error_too(place: Place) -> None:
    log = place.folder / "log.jsonl"
    place.refused("--log", log)
    assert '"event":"error","kind":"EnvironmentProblem"' in log.read_text().splitlines()[-1]


def test_a_card_is_kept(tmp_path: Path) -> None:
    schema = Schema.from_toml(SCHEMA)
    with Checkpoint(tmp_path / "ck") as checkpoint:
        first = checkpoint.card(schema, "folder a", "folder b")
        assert checkpoint.card(schema, "folder a", "folder c").stream == first.stream
