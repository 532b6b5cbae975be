"""An index store: files whole or absent, pinned to one schema and mapping, safe for many jobs."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crossroads.errors import (
    DamagedIndex,
    ForeignIndex,
    IndexFileError,
    OtherSchema,
    UsageError,
)
from crossroads.mapping.cells import Cells
from crossroads.mapping.fit import Sample, fit
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline import storefolder
from crossroads.pipeline.indexstore import (
    MANIFEST,
    PRUNE_AGE_SECONDS,
    SETS,
    STORE,
    IndexStore,
    Manifest,
    Pinned,
    StoredFile,
)
from crossroads.pipeline.storefolder import Folder, cached_copy

SCHEMA = Schema.from_toml("""
name = "shop"
id = ["n"]
[attributes]
n = "bigint"
price = { type = "int", min = 0, max = 100 }
""")
OTHER = Schema.from_toml("""
name = "shop"
id = ["n"]
[attributes]
n = "bigint"
price = { type = "double", min = 0, max = 100 }
""")


def pinned(mapping: str = "key-space-split", cells: int = 4) -> Pinned:
    filters = read_filters(pa.array([f"price > {n}" for n in range(20)]), SCHEMA)
    events = pa.Table.from_pylist([{"n": n, "price": n} for n in range(20)], schema=SCHEMA.arrow)
    found = fit(mapping, SCHEMA, Sample(filters, events))
    return Pinned(found, Cells(found.spec.bits, cells), cells)


def manifest(store: IndexStore, where: Pinned, content: str = "c", build: str = "b") -> Manifest:
    """A set of two files, which are written."""
    folder = store.set_folder(where, content)
    files = []
    for number in range(2):
        name = f"cell-{number}-{build}.xroads"
        size, _ = folder.put(name, lambda path: path.write_bytes(b"12345"))
        files.append(StoredFile(0, number, name, size, 7))
    return Manifest(content, 14, 14, 0, {0: 0}, tuple(files))


@pytest.fixture
def store(tmp_path: Path) -> IndexStore:
    return IndexStore(Folder.of(tmp_path / "store"))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """From here on every folder is taken for one that is not on this machine."""
    monkeypatch.setattr(Folder, "local", None)
    monkeypatch.setattr(storefolder.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path


# -- folders ---------------------------------------------------------------------------------------


def test_of_many_who_create_a_file_one_succeeds(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "new" / "folder")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: folder.create("one", b"%d" % n), range(32)))
    assert won.count(True) == 1
    assert folder.read("one") == b"%d" % won.index(True)
    assert list(folder.files()) == ["one"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path / "folder")

    def fail(path: Path) -> None:
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    with pytest.raises(IndexFileError, match=r"cannot write .*No space left on device"):
        folder.put("one", fail)
    assert not folder.files()


def test_a_folder_elsewhere_behaves_alike(elsewhere: Path) -> None:
    folder = Folder.of((elsewhere / "store").as_uri())
    assert folder.read("one") is None
    assert folder.create("one", b"first") and not folder.create("one", b"second")
    assert folder.put("two", lambda path: path.write_bytes(b"12345")) == (5, 5)
    folder.replace("one", b"third")
    assert folder.read("one") == b"third"
    assert sorted(folder.files()) == ["one", "two"]
    here = folder.fetch("two", 5)
    assert here.read_bytes() == b"12345" and not here.is_relative_to(elsewhere / "store")
    with pytest.raises(IndexFileError, match="has 5 bytes where the index store says 6"):
        folder.fetch("two", 6)


def test_copies_on_a_host_are_whole_and_bounded(tmp_path: Path) -> None:
    folder, cache = Folder.of(tmp_path / "store"), tmp_path / "cache"
    for name in "abcd":
        folder.put(name, lambda path, name=name: path.write_bytes(name.encode() * 100))
    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(lambda n: cached_copy(folder, "ab"[n % 2], 100, cache), range(16)))
    assert {copy.read_bytes() for copy in copies} == {b"a" * 100, b"b" * 100}
    assert len(list(cache.iterdir())) == 2
    first, second = cached_copy(folder, "a", 100, cache), cached_copy(folder, "b", 100, cache)
    os.utime(first, ns=(1, 1))  # used longest ago
    third = cached_copy(folder, "c", 100, cache, limit=250)
    assert not first.exists() and second.exists() and third.exists()
    # Even what is larger than the cache is copied; there is nothing else in it then.
    fourth = cached_copy(folder, "d", 100, cache, limit=50)
    assert list(cache.iterdir()) == [fourth]


def test_half_a_copy_is_fetched_again(tmp_path: Path) -> None:
    folder, cache = Folder.of(tmp_path / "store"), tmp_path / "cache"
    folder.put("a", lambda path: path.write_bytes(b"whole"))
    cached_copy(folder, "a", 5, cache).write_bytes(b"wh")
    assert cached_copy(folder, "a", 5, cache).read_bytes() == b"whole"


def test_what_cannot_be_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere://x/y cannot be an index store") as said:
        Folder.of("nowhere://x/y")
    assert "\n" not in str(said.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexFileError, match="index store"):
        Folder.of(tmp_path / "file").create("one", b"")


# -- what a store is pinned to ---------------------------------------------------------------------


def test_a_store_keeps_its_mapping_and_cells(store: IndexStore) -> None:
    assert store.pinned(SCHEMA, None, None) is None
    first = store.pin(SCHEMA, pinned())
    assert first.id == pinned().id
    # Whoever comes second takes what is there.
    assert store.pin(SCHEMA, pinned("hilbert", 8)).id == first.id
    again = store.pinned(SCHEMA, "key-space-split", 4)
    assert again is not None and again.id == first.id and again.mapping.name == "key-space-split"


def test_another_schema_mapping_or_number_of_cells_is_refused(store: IndexStore) -> None:
    store.pin(SCHEMA, pinned())
    with pytest.raises(OtherSchema, match=r"another schema: .*price.*choose another --index-store"):
        store.pinned(OTHER, None, None)
    with pytest.raises(UsageError, match="with --mapping key-space-split, not --mapping hilbert"):
        store.pinned(SCHEMA, "hilbert", None)
    with pytest.raises(UsageError, match=r"made with --cells 4, not --cells 5.*leave --cells out"):
        store.pinned(SCHEMA, None, 5)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": 1}', b"\xff"])
def test_a_damaged_store_is_said_to_be(text: bytes, store: IndexStore) -> None:
    store.pin(SCHEMA, pinned())
    store.folder.replace(STORE, text)
    with pytest.raises(DamagedIndex, match=r"store\.json is damaged"):
        store.pinned(SCHEMA, None, None)


def test_a_store_with_impossible_keys_is_damaged(store: IndexStore) -> None:
    store.pin(SCHEMA, pinned())
    written = json.loads(store.folder.read(STORE) or b"")
    mapping = json.loads(written["mapping"])
    written["mapping"] = json.dumps({**mapping, "bits": 99})
    store.folder.replace(STORE, json.dumps(written).encode())
    with pytest.raises(DamagedIndex, match=r"store\.json is damaged"):
        store.pinned(SCHEMA, None, None)


def test_a_store_of_another_release_is_said_to_be(store: IndexStore) -> None:
    store.pin(SCHEMA, pinned())
    written = json.loads(store.folder.read(STORE) or b"")
    store.folder.replace(STORE, json.dumps({**written, "format": 99}).encode())
    with pytest.raises(ForeignIndex, match="format version 99"):
        store.pinned(SCHEMA, None, None)


# -- sets ------------------------------------------------------------------------------------------


def test_a_set_is_there_when_its_manifest_is(store: IndexStore) -> None:
    where = store.pin(SCHEMA, pinned())
    built = manifest(store, where)
    assert store.find(where, "c") is None  # files alone are nothing
    assert store.publish(where, built) == built
    assert store.find(where, "c") == built
    assert store.find(where, "other content") is None
    other = replace(where, cells=Cells(where.mapping.spec.bits, 8))
    assert store.find(other, "c") is None  # of another mapping, whatever the store says


def test_of_two_builds_the_first_is_used_and_the_second_removed(store: IndexStore) -> None:
    where = store.pin(SCHEMA, pinned())
    one, two = manifest(store, where, build="one"), manifest(store, where, build="two")
    assert store.publish(where, one) == one
    assert store.publish(where, two) == one
    names = store.set_folder(where, "c").files()
    assert all("two" not in name for name in names) and store.find(where, "c") == one


def test_a_missing_or_short_file_is_said_to_be(store: IndexStore) -> None:
    where = store.pin(SCHEMA, pinned())
    built = store.publish(where, manifest(store, where))
    folder = store.set_folder(where, "c")
    assert folder.local is not None
    (folder.local / built.files[1].name).write_bytes(b"123")
    with pytest.raises(DamagedIndex, match=r"cell-1-b.*delete .*: it is built again"):
        store.find(where, "c")
    folder.delete(built.files[1].name)
    with pytest.raises(DamagedIndex, match=r"lacks .*cell-1-b"):
        store.find(where, "c")
    folder.delete_all()
    assert store.find(where, "c") is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"rows": 1}', b'{"files": 3}'])
def test_a_damaged_manifest_is_said_to_be(text: bytes, store: IndexStore) -> None:
    where = store.pin(SCHEMA, pinned())
    store.publish(where, manifest(store, where))
    store.set_folder(where, "c").replace(MANIFEST, text)
    with pytest.raises(DamagedIndex, match=r"manifest\.json is damaged.*it is built again"):
        store.find(where, "c")


def test_old_sets_and_what_dead_builds_left_are_pruned(store: IndexStore) -> None:
    where = store.pin(SCHEMA, pinned())
    old = 1.5 * PRUNE_AGE_SECONDS
    folders = {}
    for number, content in enumerate("abcde"):
        built = manifest(store, where, content)
        store.publish(where, built)
        folders[content] = store.set_folder(where, content)
        if content < "e":
            age(folders[content], old - number)
    folders["e"].put("cell-9-dead.xroads", lambda path: path.write_bytes(b"x"))
    folders["d"].put("cell-9-dead.xroads", lambda path: path.write_bytes(b"x"))
    age(folders["d"], old - 3)
    assert store.prune(keep=2) == [Path(folders[one].uri).name for one in "cba"]
    assert set(store.folder.child(SETS).files()) == {Path(folders[o].uri).name for o in "de"}
    assert store.find(where, "d") is not None and store.find(where, "e") is not None
    assert "cell-9-dead.xroads" not in folders["d"].files()
    assert "cell-9-dead.xroads" in folders["e"].files()  # somebody may be building
    assert store.prune(keep=1) == []  # both were used just now


def test_a_damaged_set_of_others_does_not_stop_the_pruning(store: IndexStore) -> None:
    where = store.pin(SCHEMA, pinned())
    for content in "ab":
        store.publish(where, manifest(store, where, content))
        age(store.set_folder(where, content), 2 * PRUNE_AGE_SECONDS)
    damaged = store.set_folder(where, "a")
    damaged.replace(MANIFEST, b"{")
    assert store.prune(keep=1) == [Path(store.set_folder(where, "b").uri).name]
    assert "cell-0-b.xroads" in damaged.files()  # nobody knows what belongs to it


def test_a_set_that_was_found_meanwhile_is_not_pruned(
    store: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = store.pin(SCHEMA, pinned())
    store.publish(where, manifest(store, where))
    age(store.set_folder(where, "c"), 2 * PRUNE_AGE_SECONDS)
    look, looks = IndexStore._prune_leftovers, []

    def found_meanwhile(self: IndexStore, *about: Any) -> None:
        looks.append(self.find(where, "c"))
        look(self, *about)

    monkeypatch.setattr(IndexStore, "_prune_leftovers", found_meanwhile)
    assert store.prune(keep=0) == []
    assert looks[0] is not None and store.find(where, "c") == looks[0]


def test_a_store_that_cannot_be_written_to_serves_what_it_has(
    store: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = store.pin(SCHEMA, pinned())
    built = store.publish(where, manifest(store, where))

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(storefolder, "_write_durably", refuse)
    with pytest.raises(IndexFileError, match="Read-only file system"):
        store.folder.replace("one", b"")
    assert store.find(where, "c") == built


def age(folder: Folder, seconds: float) -> None:
    assert folder.local is not None
    for path in folder.local.iterdir():
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))
