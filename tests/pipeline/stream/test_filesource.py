"""Files as they come: odd names, odd places, odd content. Each is read or rejected; none stops."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crossroads.errors import SourceError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.stream.filesource import FileSource, splits_of
from crossroads.pipeline.stream.job import run_stream
from crossroads.pipeline.stream.request import StreamRequest
from crossroads.pipeline.stream.sources import Cutting

SCHEMA = Schema.from_mapping({"id": "id", "attributes": {"id": "string", "x": "int"}})
CUTTING = Cutting(split_bytes=1 << 20, cores=2)


def write(path: Path, *ids: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": one, "x": 1}) + "\n" for one in ids))
    return path


# -- files to splits, without Spark --------------------------------------------------------------


def test_what_cannot_be_read_is_a_reject_and_the_rest_is_split(tmp_path: Path) -> None:
    good = [write(tmp_path / "a.jsonl", "1"), write(tmp_path / "z.jsonl", "2")]
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    bad = {
        tmp_path / "gone.csv": "was removed before it was read",
        tmp_path / "note.txt": "unknown format .txt",
        tmp_path / "no_suffix": "unknown format",
        tmp_path / "array.json": "one JSON array",
        tmp_path / "fake.parquet": "cannot be read as Parquet",
        tmp_path / "head.csv": "id",
        tmp_path / "folder.csv": "cannot read",
    }
    (tmp_path / "note.txt").write_text("x")
    (tmp_path / "no_suffix").write_text("x")
    (tmp_path / "array.json").write_text('[{"id": "3"}]')
    (tmp_path / "fake.parquet").write_text("PAR0")
    (tmp_path / "head.csv").write_text("name,x\nann,1\n")
    (tmp_path / "folder.csv").mkdir()
    paths = sorted(map(str, [*good, *bad, empty]))
    splits, rejects, files = splits_of(paths, SCHEMA, CUTTING)
    assert [split.path for split in splits] == list(map(str, good))
    assert [split.number for split in splits] == [0, 1]
    assert [file.path for file in files] == list(map(str, good))
    said = {Path(one.file): one.reason for one in rejects}
    assert said.keys() == bad.keys()
    for path, reason in bad.items():
        assert reason in said[path], said[path]


def test_a_large_file_is_cut_and_splits_are_numbered_through(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"{n}.jsonl", *map(str, range(500)))) for n in range(2)]
    splits, _, _ = splits_of(paths, SCHEMA, Cutting(split_bytes=2_000, cores=2))
    assert len(splits) > 8 and [split.number for split in splits] == list(range(len(splits)))


def test_a_stream_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("")
    with pytest.raises(UsageError, match="crossroads match"):
        FileSource(tmp_path / "file.csv", SCHEMA).check()
    with pytest.raises(SourceError, match="does not exist"):
        FileSource(tmp_path / "missing", SCHEMA).check()


# -- through Spark -------------------------------------------------------------------------------

ODD_NAMES = (
    "plain",
    "with space",
    "per%cent",
    "a%20b",
    "a b",
    "plus+and&",
    "ünï→çødé",
    "hash#tag",
    "question?",
    "semi;colon,comma",
    "[square] {curly} *star*",
    "quote'quote",
)


def stream(folder: Path, **more: object) -> StreamRequest:
    subscriptions = folder / "subscriptions.csv"
    if not subscriptions.exists():
        subscriptions.write_text("id,subscriber,filter\nall,ann,TRUE\n")
    return StreamRequest(
        schema=SCHEMA,
        subscriptions=subscriptions,
        events=str(folder / "in"),
        output=str(folder / "out"),
        checkpoint=folder / "state",
        available_now=True,
        **more,  # type: ignore[arg-type]
    )


def told(folder: Path) -> list[str]:
    parts = (folder / "out" / "notifications").glob("*/part-*.parquet")
    return sorted(name for part in parts for name in pq.read_table(part)["event_id"].to_pylist())


def rejected(folder: Path) -> list[tuple[str, int, str]]:
    parts = (folder / "out" / "rejected_events").glob("*/part-*.parquet")
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    return sorted((row["file"], row["line"], row["reason"]) for row in rows)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_odd_names_in_nested_folders(tmp_path: Path) -> None:
    expected = []
    for depth, name in enumerate(ODD_NAMES):
        inside = Path(*ODD_NAMES[: depth % 4]) / f"{name}.jsonl"
        write(tmp_path / "in" / inside, name)
        expected.append(name)
    write(tmp_path / "in" / ".hidden.jsonl", "hidden")
    write(tmp_path / "in" / "_being_written" / "x.jsonl", "unfinished")
    (tmp_path / "in" / "readme.txt").write_text("not data")
    (tmp_path / "in" / "empty.jsonl").write_text("")
    write(tmp_path / "in" / "last.jsonl", "last").open("a").write("{broken\n")
    summary = run_stream(stream(tmp_path))
    assert told(tmp_path) == sorted([*expected, "last"])
    assert [(Path(file).name, line) for file, line, _ in rejected(tmp_path)] == [
        ("last.jsonl", 2),
        ("readme.txt", 0),
    ]
    assert (summary["events"], summary["rejected"]) == (len(expected) + 1, 2)
    # All names are remembered: nothing comes again.
    assert run_stream(stream(tmp_path))["batches"] == 0


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_file_that_is_gone_when_its_batch_comes_again(tmp_path: Path) -> None:
    """Spark planned it, the driver was killed, somebody tidied up: told, and not the end."""
    for number in range(3):
        write(tmp_path / "in" / f"{number}.jsonl", str(number))
    run_stream(stream(tmp_path))
    forget_batch(tmp_path / "state", 0)
    for part in (tmp_path / "out" / "notifications" / "batch=000000000").iterdir():
        part.unlink()
    (tmp_path / "out" / "notifications" / "batch=000000000").rmdir()
    (tmp_path / "in" / "1.jsonl").unlink()
    write(tmp_path / "in" / "3.jsonl", "3")
    run_stream(stream(tmp_path))
    assert told(tmp_path) == ["0", "2", "3"]
    assert [(Path(file).name, reason) for file, _, reason in rejected(tmp_path)] == [
        ("1.jsonl", "the file was removed before it was read")
    ]


def forget_batch(state: Path, batch: int) -> None:
    """As if the driver had been killed in the middle of it."""
    for name in (str(batch), f".{batch}.crc"):
        (state / "spark" / "commits" / name).unlink()
    (state / "batches" / f"{batch:09d}.done.json").unlink()
