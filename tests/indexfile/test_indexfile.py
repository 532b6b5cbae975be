"""Index files: what was saved is what is opened; everything else is refused, byte by byte."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import (
    DamagedIndex,
    ForeignIndex,
    IndexFileError,
    OtherSchema,
    UsageError,
)
from crossroads.indexfile import (
    cached_index,
    current,
    open_index,
    prune,
    publish,
    save_index,
)
from crossroads.indexfile.layout import FORMAT_VERSION, MAGIC
from crossroads.matching.index import MatchIndex
from crossroads.matching.state import StoredChecks, index_from_state, index_state
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.model.wire import from_wire, to_wire
from crossroads.testing.strategies import event_lists, event_table, filters, schemas

SCHEMA = Schema.from_mapping(
    {
        "name": "shop",
        "id": "n",
        "attributes": {
            "n": "bigint",
            "price": {"type": "double", "min": 0, "max": 10},
            "name": "string",
            "day": "date",
            "cost": "decimal(20,2)",
        },
    }
)
TEXTS = [
    *(f"price > {bound} AND contains(name, 'a{bound}')" for bound in range(6)),
    *(f"day >= '2020-01-{day:02}' AND name RLIKE 'x{day}'" for day in range(1, 7)),
    *(f"price = {value}.5 AND n > {value} AND contains(name, 'é')" for value in range(5)),
    *(f"cost > {value}" for value in (1, 2, "99999999999999999999")),
    *("n * 2 > price", "name LIKE 'a%b_'", "price < 1 OR n > 5 OR name IS NULL", "TRUE", "1 = 2"),
    *("contains(name, 'a')", "name RLIKE 'b+' AND NOT contains(name, 'c')", "price >"),
]
EVENTS = pa.Table.from_pylist(
    [
        {"n": n, "price": n / 2, "name": name, "day": None, "cost": None}
        for n, name in enumerate((None, "", "a1", "xa2é", "aéb1", "abc", "x3x4", "zéa5"))
    ],
    schema=SCHEMA.arrow,
)


def build():
    return MatchIndex.build(read_filters(pa.array(TEXTS), SCHEMA))


def names(size, subscriber="u"):
    return pa.table(
        {
            "id": [f"s{at}é" for at in range(size)],
            "subscriber": pa.array([subscriber] * size, pa.string()),
        }
    )


def save(path, index=None, **changes):
    index = index or build()
    given = {
        "subscriptions": names(index.size),
        "subscription_version": 7,
        "content_hash": "c0ffee",
    } | changes
    return save_index(path, index, **given)


def pairs(index, events=EVENTS):
    found = index.match_batch(events)
    return [sorted(found.of(at).tolist()) for at in range(events.num_rows)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "one.xroads"
    save(path)
    return path


@given(st.data())
@settings(max_examples=40)
def test_an_index_survives_its_state(data):
    schema = data.draw(schemas())
    texts = data.draw(st.lists(filters(schema), min_size=1, max_size=6))
    events = event_table(schema, data.draw(event_lists(schema, max_size=6)))
    index = MatchIndex.build(read_filters(pa.array(texts * 4), schema))
    arrays, meta = index_state(index)
    for array in arrays.values():
        array.flags.writeable = False
    again = index_from_state(schema, arrays, meta)
    assert pairs(again, events) == pairs(index, events)
    second, second_meta = index_state(again)
    assert second_meta == meta
    assert all(np.array_equal(second[name], arrays[name]) for name in arrays | second)


@given(st.data())
def test_a_filter_survives_the_wire(data):
    schema = data.draw(schemas())
    filter_ = parse(data.draw(filters(schema)), schema)
    assert from_wire(to_wire(filter_)) == filter_


def test_what_is_opened_is_what_was_saved(saved):
    index = build()
    for schema in (None, SCHEMA):
        opened = open_index(saved, schema)
        assert pairs(opened.index) == pairs(index)
        assert opened.ids.to_pylist() == names(index.size)["id"].to_pylist()
        assert opened.subscribers.to_pylist() == ["u"] * index.size
        assert (opened.subscription_version, opened.content_hash) == (7, "c0ffee")
        assert opened.schema == SCHEMA
        assert opened.bytes == saved.stat().st_size


def test_nothing_large_is_copied(saved):
    opened = open_index(saved)
    assert not opened.index.classes.ids.flags.owndata
    assert not opened.index.classes.ids.flags.writeable
    assert isinstance(opened.index.candidates.checks, StoredChecks)
    assert opened.index.candidates.checks[0] == next(iter(opened.index.candidates.checks))
    with pytest.raises(IndexError):
        opened.index.candidates.checks[10_000]


def test_equal_sets_make_equal_files(tmp_path):
    one, other = tmp_path / "one.xroads", tmp_path / "other.xroads"
    save(one)
    save(other)
    assert one.read_bytes() == other.read_bytes()


def test_an_empty_set_and_missing_subscribers(tmp_path):
    path = tmp_path / "empty.xroads"
    save(path, MatchIndex.of(SCHEMA, []))
    assert pairs(open_index(path).index) == [[]] * EVENTS.num_rows
    save(path, subscriptions=names(len(TEXTS), None))
    assert open_index(path).subscribers.null_count == len(TEXTS)


def test_schemas_with_formats_and_domains_come_back(tmp_path):
    schema = Schema.from_mapping(
        {
            "id": "day",
            "attributes": {
                "day": {"type": "date", "format": "%d-%m-%Y", "min": "31-12-1999"},
                "level": {"type": "string", "values": ["low", "high"]},
                "order.total": "decimal(10,2)",
            },
        }
    )
    save(tmp_path / "x.xroads", MatchIndex.of(schema, [parse("day > '2000-01-01'", schema)]))
    assert open_index(tmp_path / "x.xroads").schema == schema


# -- refusals --------------------------------------------------------------------------------------


def test_every_changed_byte_is_noticed(saved, tmp_path):
    whole = bytearray(saved.read_bytes())
    rng = random.Random(1)
    path = tmp_path / "changed.xroads"
    places = [*range(64), *rng.sample(range(len(whole)), 250), len(whole) - 1]
    for place in places:
        changed = whole.copy()
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        with pytest.raises((DamagedIndex, ForeignIndex)):
            open_index(path)


def test_every_truncation_is_noticed_even_unverified(saved, tmp_path):
    whole = saved.read_bytes()
    path = tmp_path / "cut.xroads"
    rng = random.Random(2)
    for size in [0, 5, 8, 23, 24, 100, *rng.sample(range(len(whole)), 30), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedIndex):
            open_index(path, verify=False)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedIndex, match="bytes where its beginning says"):
        open_index(path, verify=False)


def test_foreign_files_are_refused(saved, tmp_path):
    path = tmp_path / "foreign"
    path.write_text("id,subscriber,filter\n")
    with pytest.raises(ForeignIndex, match="not an index file"):
        open_index(path)
    whole = bytearray(saved.read_bytes())
    whole[len(MAGIC)] = FORMAT_VERSION + 1
    path.write_bytes(whole)
    with pytest.raises(ForeignIndex, match=f"format version {FORMAT_VERSION + 1}"):
        open_index(path)
    with pytest.raises(IndexFileError, match="cannot read"):
        open_index(tmp_path / "missing")


def test_another_schema_is_refused_and_the_change_named(saved):
    other = Schema.from_mapping(
        {"name": "shop", "id": "n", "attributes": {"n": "bigint", "price": "int"}}
    )
    with pytest.raises(OtherSchema) as caught:
        open_index(saved, other)
    assert "attribute name was removed" in str(caught.value)
    assert "attribute price" in str(caught.value)


def test_ids_must_fit_the_index(tmp_path):
    with pytest.raises(UsageError, match="2 subscriptions for an index of"):
        save(tmp_path / "x", subscriptions=names(2))
    nameless = names(len(TEXTS)).set_column(0, "id", pa.nulls(len(TEXTS), pa.string()))
    with pytest.raises(UsageError, match="without an id"):
        save(tmp_path / "x", subscriptions=nameless)


def test_a_failed_save_leaves_the_old_file(saved, tmp_path):
    folder = tmp_path / "not a folder"
    folder.write_text("")
    with pytest.raises(IndexFileError, match="cannot write"):
        save(folder / "x.xroads")
    path = tmp_path / "x.xroads"
    save(path)
    before = path.read_bytes()
    path.with_name(".x.xroads.1.part").write_bytes(before[:100])  # of a process that was killed
    assert open_index(path).index.size == len(TEXTS)
    save(path, subscription_version=8)
    assert open_index(path).subscription_version == 8


# -- cache and manifest ----------------------------------------------------------------------------


def test_a_process_opens_a_file_once_until_it_is_replaced(tmp_path):
    path = tmp_path / "x.xroads"
    save(path)
    first = cached_index(path)
    assert cached_index(str(path)) is first
    save(path, subscription_version=8)
    second = cached_index(path)
    assert second.subscription_version == 8 and second is not first
    assert pairs(first.index) == pairs(second.index)  # the old map still serves who has it
    with pytest.raises(IndexFileError):
        cached_index(tmp_path / "missing")


def test_the_manifest_names_the_current_file(tmp_path):
    assert current(tmp_path) is None
    for number in range(4):
        save(tmp_path / f"v{number}.xroads", subscription_version=number)
        publish(tmp_path, tmp_path / f"v{number}.xroads")
        assert current(tmp_path) == tmp_path / f"v{number}.xroads"
    (tmp_path / "unpublished.xroads").write_bytes(b"")
    assert [path.name for path in prune(tmp_path, keep=2)] == ["v0.xroads", "v1.xroads"]
    assert open_index(current(tmp_path)).subscription_version == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "MANIFEST.json", "unpublished.xroads", "v2.xroads", "v3.xroads",
    ]  # fmt: skip
    publish(tmp_path, "v2.xroads")  # back to the one before
    assert current(tmp_path).name == "v2.xroads"


def test_manifest_refusals(tmp_path):
    with pytest.raises(IndexFileError, match=r"no x\.xroads"):
        publish(tmp_path, "x.xroads")
    with pytest.raises(IndexFileError, match="must end in"):
        publish(tmp_path, "x.bin")
    (tmp_path / "MANIFEST.json").write_text("{")
    with pytest.raises(IndexFileError, match="cannot be read"):
        current(tmp_path)
    (tmp_path / "MANIFEST.json").write_text('{"current": "a", "published": ["../b"]}')
    with pytest.raises(IndexFileError, match="contradicts"):
        current(tmp_path)
