"""An output folder is whole at every moment, whoever is killed when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from crossroads.errors import OutputError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline import output
from crossroads.pipeline.output import (
    OutputFolder,
    refuse_overlap,
    replacing,
    write_part,
    write_rejects,
    write_summary,
)
from crossroads.pipeline.raw import Reject

SOURCES = str(Path(output.__file__).parents[2])


def run(path: Path, version: int, then: Callable[[], object] = lambda: None) -> None:
    with OutputFolder(path) as folder:
        stage(folder, version)
        then()
        folder.commit()


def stage(folder: OutputFolder, version: int) -> None:
    (folder.staging / "notifications").mkdir()
    (folder.staging / "notifications" / "part-00000.jsonl").write_text(f"{version}\n")
    write_summary(folder.staging, {"version": version})


def version_of(path: Path) -> int:
    """Of a folder that is whole: both files are there and of one run."""
    part = int((path / "notifications" / "part-00000.jsonl").read_text())
    assert json.loads((path / "summary.json").read_text())["version"] == part
    return part


def beside(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir() if each != path)


def test_commit_makes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out"
    run(path, 1)
    assert version_of(path) == 1
    stale = path / "notifications" / "part-00001.jsonl"
    stale.write_text("of the old output")
    run(path, 2)
    assert version_of(path) == 2
    assert not stale.exists()
    assert beside(path) == [".out.lock"]


def test_without_an_atomic_exchange_the_answer_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "exchange", lambda one, other: False)
    run(tmp_path / "out", 1)
    run(tmp_path / "out", 2)
    assert version_of(tmp_path / "out") == 2
    assert beside(tmp_path / "out") == [".out.lock"]


def test_failure_leaves_the_old_output(tmp_path: Path) -> None:
    run(tmp_path / "out", 1)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "out", 2, then=lambda: 1 / 0)
    assert version_of(tmp_path / "out") == 1
    assert beside(tmp_path / "out") == [".out.lock"]


def test_leaving_without_commit_leaves_the_old_output(tmp_path: Path) -> None:
    with OutputFolder(tmp_path / "out") as folder:
        stage(folder, 1)
    assert not (tmp_path / "out").exists()


def test_in_use(tmp_path: Path) -> None:
    with (
        OutputFolder(tmp_path / "out"),
        pytest.raises(OutputError, match="is in use by another run"),
        OutputFolder(tmp_path / "out"),
    ):
        pass
    run(tmp_path / "out", 1)


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    run(path, 1)  # an empty folder is nobody's
    (path / "summary.json").write_text('{"made_by": "someone else"}')
    with pytest.raises(OutputError, match="not empty and not an output of crossroads"):
        run(path, 2)
    assert (path / "notifications" / "part-00000.jsonl").read_text() == "1\n"
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(OutputError, match="is a file"):
        run(file, 1)
    assert file.read_text() == "mine"


def test_ours_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out"
    run(path, 1)
    (path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds 'thesis\.txt', which crossroads has not written"):
        run(path, 2)
    assert (path / "thesis.txt").read_text() == "mine"
    assert version_of(path) == 1


def test_an_output_that_overlaps_with_the_input(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    file = events / "a.csv"
    file.write_text("n\n1\n")
    (tmp_path / "link").symlink_to(events)
    schema = Schema.from_toml('id = ["n"]\nname = "s"\n[attributes]\nn = "int"\n')
    for folder in (events, tmp_path, tmp_path / "link", events / ".." / "events", Path("/")):
        with pytest.raises(UsageError, match="lies in the output folder"):
            refuse_overlap(folder, [schema, file])
    for folder in (events / "out", tmp_path / "link" / "deep" / "out"):
        with pytest.raises(UsageError, match=r"lies in the input .* and would be read"):
            refuse_overlap(folder, [events])
    # beside each other, or beside a single file that is read: nothing is in the way of the other
    refuse_overlap(tmp_path / "events2", [schema, events, file])
    refuse_overlap(events / "out", [file])


def test_the_root_cannot_be_the_output() -> None:
    with pytest.raises(UsageError, match="/ cannot be the output"):
        OutputFolder("/")


def test_not_ours_is_noticed_at_commit_too(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with OutputFolder(path) as folder:
        stage(folder, 1)
        path.mkdir()
        (path / "mine.txt").write_text("put there in the meantime")
        with pytest.raises(OutputError, match="it is left alone"):
            folder.commit()
    assert (path / "mine.txt").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        run(tmp_path / "file" / "out", 1)


def test_names_with_wildcards_touch_only_their_own_leftovers(tmp_path: Path) -> None:
    other = tmp_path / ".outx.staging-1"
    other.mkdir()
    run(tmp_path / "out*", 1)
    assert other.exists()


# -- killed ------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from crossroads.pipeline import output

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dies_at_call(function, number):
    def wrapped(*arguments):
        nonlocal number
        number -= 1
        return die() if number < 0 else function(*arguments)
    return wrapped

path = Path(sys.argv[1])
with output.OutputFolder(path) as folder:
    (folder.staging / "notifications").mkdir()
    (folder.staging / "notifications" / "part-00000.jsonl").write_text("2\\n")
    output.write_summary(folder.staging, {"version": 2})
    {crash}
    folder.commit()
"""

# where the process dies -> what the folder holds right then, and after the next run looked at it
CRASHES = {
    "before the commit": ("die()", 1, 1),
    "while syncing": ("output._sync = dies_at_call(output._sync, 2)", 1, 1),
    "before the exchange": ("output.exchange = die", 1, 1),
    "after the exchange": ("output.shutil.rmtree = die", 2, 2),
    "between the two renames": (
        "output.exchange = lambda *_: False; Path.rename = dies_at_call(Path.rename, 1)",
        None,
        1,
    ),
    "after the two renames": (
        "output.exchange = lambda *_: False; output.shutil.rmtree = die",
        2,
        2,
    ),
}


@pytest.mark.parametrize("where", CRASHES)
def test_killed(tmp_path: Path, where: str) -> None:
    crash, at_once, later = CRASHES[where]
    path = tmp_path / "out"
    run(path, 1)
    program = textwrap.dedent(KILLED).replace("{crash}", crash)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert (version_of(path) if path.exists() else None) == at_once
    assert len(beside(path)) > 1  # it did leave something
    with OutputFolder(path):
        assert version_of(path) == later
    assert beside(path) == [".out.lock"]
    run(path, 3)
    assert version_of(path) == 3


# -- parts -------------------------------------------------------------------------------------


def test_a_part_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "part"
    target.write_text("old")

    def fail() -> None:
        with replacing(target) as file:
            file.write(b"half")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [each.name for each in tmp_path.iterdir()] == ["part"]
    assert target.read_text() == "old"


@pytest.mark.parametrize("format_", output.FORMATS)
def test_rejects_in_every_format(tmp_path: Path, format_: str) -> None:
    rejects = [
        Reject("a.csv", 3, 'x,"y"\nz', "x: 'a' is not a number"),
        Reject("b", 9, "", "no"),
    ]
    folder = tmp_path / "rejected_events"
    write_rejects(folder, rejects[:1], format_, number=7)
    path = write_rejects(folder, rejects, format_, number=7)  # a retried task replaces its part
    assert [each.name for each in folder.iterdir()] == [f"part-00007.{format_}"]
    expected = [
        {"file": each.file, "line": each.line, "raw": each.raw, "reason": each.reason}
        for each in rejects
    ]
    match format_:
        case "parquet":
            found = pq.read_table(path).to_pylist()
        case "jsonl":
            found = [json.loads(line) for line in path.read_text().splitlines()]
        case _:
            options = pacsv.ParseOptions(newlines_in_values=True)
            found = pacsv.read_csv(path, parse_options=options).to_pylist()
    assert found == expected


def test_csv_keeps_null_and_empty_text_apart(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(["", None, 'q"'])})
    assert write_part(tmp_path, 0, table, "csv").read_text() == '"a"\n""\n\n"q"""\n'
