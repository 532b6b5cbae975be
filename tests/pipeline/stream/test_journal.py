"""Records and outcomes of batches; the card of a checkpoint; the folder that batches go to."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossroads.errors import CheckpointError, OutputError
from crossroads.model.schema import Schema
from crossroads.pipeline.notify import NOTIFICATIONS, Notify
from crossroads.pipeline.stream.card import Checkpoint, read_card
from crossroads.pipeline.stream.foldersink import FolderSink, batch_folder, publish_folder
from crossroads.pipeline.stream.journal import KEPT, Journal, Outcome, Record
from crossroads.pipeline.stream.sinks import Delivery, delivery_number

SCHEMA = Schema.from_mapping({"id": "id", "attributes": {"id": "int", "x": "double"}})
OTHER = Schema.from_mapping({"id": "id", "attributes": {"id": "int", "x": "string"}})


def record(batch: int, version: int = 1) -> Record:
    return Record(
        batch=batch,
        started_ms=5 * batch,
        subscription_version=version,
        plan="direct",
        split_bytes=1 << 20,
        cores=2,
    )


def outcome(batch: int) -> Outcome:
    return Outcome(batch=batch, events=3, rejected=1, repeated=1, notifications=7, latest=9)


# -- journal ---------------------------------------------------------------------------------------


def test_what_was_written_is_found_by_the_next_driver(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "batches")
    assert journal.last() is None and journal.record(0) is None and journal.outcome(0) is None
    journal.begin(record(0))
    journal.finish(outcome(0))
    journal.begin(record(1, version=4))
    again = Journal(tmp_path / "batches")
    assert again.record(0) == record(0)
    assert again.outcome(0) == outcome(0) and again.outcome(1) is None
    assert again.last() == record(1, version=4)
    assert list(again.outcomes()) == [outcome(0)]


def test_the_last_is_the_largest_number_and_not_the_latest_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for batch in (9, 10, 999, 1_000):
        journal.begin(record(batch))
    journal.finish(outcome(1_000))
    found = journal.last()
    assert found is not None and found.batch == 1_000


def test_half_a_record_is_none(tmp_path: Path) -> None:
    """Killed before the rename: the batch was not begun."""
    journal = Journal(tmp_path)
    journal.begin(record(0))
    (tmp_path / ".000000001.json.4711").write_text('{"batch": 1, "start')
    found = journal.last()
    assert found is not None and found.batch == 0 and journal.record(1) is None


def test_a_damaged_record_is_an_error_and_no_new_decision(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(record(0))
    (tmp_path / "000000000.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"000000000\.json"):
        journal.record(0)


def test_old_ones_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for batch in (0, 1, KEPT, KEPT + 1):
        journal.begin(record(batch))
        journal.finish(outcome(batch))
    assert journal.record(1) is None and journal.outcome(0) is None
    assert journal.record(KEPT) is not None


# -- the card --------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_its_name(tmp_path: Path) -> None:
    with Checkpoint(tmp_path) as checkpoint:
        first = checkpoint.card(SCHEMA, "folder in", "folder out")
    with Checkpoint(tmp_path) as checkpoint:
        assert checkpoint.card(SCHEMA, "folder in", "folder out") == first
    assert read_card(tmp_path) == first


@pytest.mark.parametrize(
    ("schema", "source", "sink", "said"),
    [
        (OTHER, "folder in", "folder out", "another schema: .*x"),
        (SCHEMA, "folder on", "folder out", "reads folder in, not folder on"),
        (SCHEMA, "folder in", "folder up", "writes to folder out, not folder up"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_with_what_differs(
    schema: Schema, source: str, sink: str, said: str, tmp_path: Path
) -> None:
    with Checkpoint(tmp_path) as checkpoint:
        checkpoint.card(SCHEMA, "folder in", "folder out")
        Journal(tmp_path / "batches").begin(record(0))
        with pytest.raises(CheckpointError, match=said):
            checkpoint.card(schema, source, sink)


def test_a_checkpoint_is_for_one_driver_at_a_time(tmp_path: Path) -> None:
    with (
        Checkpoint(tmp_path),
        pytest.raises(CheckpointError, match="another stream is running"),
        Checkpoint(tmp_path),
    ):
        pass
    with Checkpoint(tmp_path):
        pass


def test_a_card_of_another_release_is_not_guessed_at(tmp_path: Path) -> None:
    with Checkpoint(tmp_path) as checkpoint:
        checkpoint.card(SCHEMA, "a", "b")
    card = tmp_path / "stream.json"
    card.write_text(card.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(CheckpointError, match="format 2"):
        read_card(tmp_path)
    card.write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_card(tmp_path)


# -- the folder ------------------------------------------------------------------------------------


def delivery(folder: Path, number: int, text: str) -> Delivery:
    parts = folder / f"staging-{text}" / NOTIFICATIONS
    parts.mkdir(parents=True)
    (parts / "part-00000.jsonl").write_text(text)
    return Delivery(number, parts.parent, Notify(SCHEMA, format="jsonl"), rows=1)


def content(output: Path) -> dict[str, str]:
    parts = (output / NOTIFICATIONS).glob("*/*")
    return {path.parent.name: path.read_text() for path in parts}


def test_a_batch_that_is_there_is_never_written_again(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "out", stream="me")
    sink.open()
    three, flushed = delivery_number(3), delivery_number(3, flush=2)
    sink.publish(delivery(tmp_path, three, "first"))
    assert sink.has(three) and not sink.has(flushed)
    again = FolderSink(tmp_path / "out", stream="me")
    again.open()
    again.publish(delivery(tmp_path, three, "second"))
    again.publish(delivery(tmp_path, flushed, "third"))
    assert content(tmp_path / "out") == {
        "batch=000000003": "first",
        "batch=000000003.00002": "third",
    }


def test_without_a_memory_it_adds_again(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "out", stream="me", exactly_once=False)
    sink.open()
    for text in ("first", "second"):
        sink.publish(delivery(tmp_path, delivery_number(0), text))
    assert not sink.has(delivery_number(0))
    assert sorted(content(tmp_path / "out").values()) == ["first", "second"]


def test_an_empty_batch_leaves_no_folder(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "out", stream="me")
    sink.open()
    sink.publish(Delivery(delivery_number(0), tmp_path / "nowhere", Notify(SCHEMA), rows=0))
    assert content(tmp_path / "out") == {}


def test_a_folder_of_another_stream_is_refused(tmp_path: Path) -> None:
    FolderSink(tmp_path / "out", stream="me").open()
    FolderSink(tmp_path / "out", stream="me").open()
    with pytest.raises(OutputError, match="another stream"):
        FolderSink(tmp_path / "out", stream="you").open()


def test_a_folder_of_a_batch_job_is_refused(tmp_path: Path) -> None:
    parts = tmp_path / "out" / NOTIFICATIONS
    parts.mkdir(parents=True)
    (parts / "part-00000.parquet").write_bytes(b"x")
    with pytest.raises(OutputError, match="something else"):
        FolderSink(tmp_path / "out", stream="me").open()


def test_a_place_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="cannot use"):
        FolderSink(tmp_path / "out", stream="me").open()


def test_publishing_what_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot add to"):
        publish_folder(tmp_path / "gone", tmp_path / "out", 0)
    assert not batch_folder(tmp_path / "out", 0).exists()


def test_a_driver_killed_while_it_took_the_folder_leaves_it_to_itself(tmp_path):
    (tmp_path / "out" / "notifications").mkdir(parents=True)
    (tmp_path / "out" / "notifications" / "._stream.4711").write_text("mi")
    FolderSink(tmp_path / "out", stream="mine").open()
    assert (tmp_path / "out" / "notifications" / "_stream").read_text() == "mine"
