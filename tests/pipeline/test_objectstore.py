"""An index store that is no file system: pyarrow's S3 client against a server on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.pipeline.objectstore import Objects, object_store

from crossroads.errors import IndexFileError
from crossroads.lab.workloads import stocks, write_workload
from crossroads.pipeline.indexstore import Manifest
from crossroads.pipeline.job import MatchRequest, run_match
from crossroads.pipeline.storefolder import Folder
from crossroads.pipeline.subscriptionframe import ROWS

pytest.importorskip("pyarrow._s3fs", reason="this pyarrow was built without S3")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[str, Objects]]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))  # the host's cache
    (tmp_path / "tmp").mkdir()
    with object_store() as found:
        yield found


def test_files_are_written_listed_fetched_and_deleted(store: tuple[str, Objects]) -> None:
    uri, objects = store
    folder = Folder.of(uri).child("sets").child("one")
    assert folder.local is None
    assert folder.read("a") is None
    assert folder.create("a", b"first") and not folder.create("a", b"second")
    assert folder.put("b", lambda path: path.write_bytes(b"12345")) == (5, 5)
    folder.replace("a", b"third")
    assert folder.read("a") == b"third"
    assert sorted(folder.files()) == ["a", "b"]
    assert folder.fetch("b", 5).read_bytes() == b"12345"
    folder.delete("a")
    assert "bucket/store/sets/one/b" in objects.whole
    assert "bucket/store/sets/one/a" not in objects.whole


def test_nobody_is_shown_the_password(store: tuple[str, Objects]) -> None:
    folder = Folder.of(store[0])
    assert folder.shown == "s3://bucket/store"
    with pytest.raises(IndexFileError) as raised:
        folder.fetch("nothing", 1)
    assert "secret" not in str(raised.value)


@pytest.mark.spark
def test_an_index_is_built_there_and_used_again(
    store: tuple[str, Objects], spark: object, tmp_path: Path
) -> None:
    uri, objects = store
    files = write_workload(stocks(3, 600, 200), tmp_path / "in")
    told: dict[str, list[str]] = {}
    for plan, more in (("direct", None), ("keyed", uri), ("keyed", uri)):
        output = tmp_path / f"out-{len(told)}"
        done = run_match(
            MatchRequest(
                schema=files.schema,
                subscriptions=files.subscriptions,
                events=files.events,
                output=output,
                plan=plan,  # type: ignore[arg-type]
                index_store=more,
            )
        )
        pairs = pq.read_table(output / "notifications").to_pylist()
        told[done.get("index", "none")] = sorted(map(str, pairs))
    assert set(told) == {"none", "built", "reused"}
    assert told["none"] == told["built"] == told["reused"]
    names = [name.rpartition("/")[2] for name in objects.whole]
    assert "manifest.json" in names
    assert not [name for name in names if name.startswith(".")]


@pytest.mark.spark
def test_a_damaged_copy_on_this_host_is_fetched_again(
    store: tuple[str, Objects], spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # the cache that the workers know
    uri, _ = store
    files = write_workload(stocks(3, 300, 100), tmp_path / "in")

    def told() -> int:
        done = run_match(
            MatchRequest(
                schema=files.schema,
                subscriptions=files.subscriptions,
                events=files.events,
                output=tmp_path / "out",
                plan="keyed",
                index_store=uri,
            )
        )
        return int(done["counts"]["notifications"])

    first = told()
    sets = Folder.of(uri).child("sets")
    (name,) = sets.files()
    folder = sets.child(name)
    manifest = Manifest.from_json(folder.read("manifest.json") or b"")
    for file in manifest.of_kind(ROWS).values():
        copy = folder.fetch(file.name, file.bytes)
        copy.write_bytes(copy.read_bytes()[:-1] + b"?")  # of the same size
    assert first > 0 and told() == first
