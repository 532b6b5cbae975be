"""Plan `keyed`: exactly the pairs of the definition, whatever the mapping, the shape, the store."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest

from crossroads.errors import (
    CrossroadsError,
    DamagedIndex,
    IndexFileError,
    OtherSchema,
    SourceError,
    UsageError,
)
from crossroads.lab.workloads import stocks
from crossroads.mapping.fit import MAPPINGS
from crossroads.matching.definition import matches
from crossroads.model.identity import event_id
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.pipeline import cellbuild, keyedset
from crossroads.pipeline.cellbuild import Source
from crossroads.pipeline.eventframe import read_events
from crossroads.pipeline.job import MatchRequest, run_match
from crossroads.pipeline.keyed import Matching, match_keyed, placement_for
from crossroads.pipeline.keyedset import KeyedSet, Wanted, keyed_set
from crossroads.pipeline.notify import Notify
from crossroads.pipeline.rejects import read_rejects
from crossroads.pipeline.sharing import Sharing
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.subscriptionframe import ROOT, Looked, look
from crossroads.testing import pools
from crossroads.testing.seeded import SeededFilters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

SCHEMA = Schema.from_toml("""
name = "many types"
id = ["n"]

[attributes]
n = "int"
k = { type = "bigint", min = 0, max = 100 }
x = "double"
m = "decimal(10,2)"
flag = "boolean"
day = "date"
name = "string"
"order.place" = "string"
""")
Event = dict[str, Any]
Pair = tuple[object, ...]


def random_events(seed: int, size: int) -> list[Event]:
    dice = random.Random(seed)
    return [
        {
            a.name: None if dice.random() < 0.2 else dice.choice(pools.pool(a.type))
            for a in SCHEMA.attributes
        }
        | {"n": number}
        for number in range(size)
    ]


def random_filters(seed: int, events: Sequence[Event], size: int) -> list[str]:
    table = pa.Table.from_pylist(list(events), schema=SCHEMA.arrow)
    filters = SeededFilters(SCHEMA, table, seed)
    texts = [filters.filter().text for _ in range(size)]
    texts += ["TRUE", "k IS NULL", "flag", "NOT flag", "order.place LIKE '%a'", "k <> 1"]
    return texts + [f"k = {number}" for number in range(4)] + ["k IN (0, 1) OR name = 'a'"]


class Files:
    """A schema, events and subscriptions in a folder, and what the definition says of them."""

    def __init__(self, folder: Path, events: Sequence[Event], filters: Sequence[str]) -> None:
        self.folder = folder
        self.events, self.filters = list(events), list(filters)
        self.subscribers = [f"user {at % 5}" for at in range(len(filters))]
        folder.mkdir(exist_ok=True)
        table = pa.Table.from_pylist(self.events, schema=SCHEMA.arrow)
        pq.write_table(table, folder / "events.parquet", row_group_size=max(1, len(events) // 4))
        self.write_subscriptions()

    def write_subscriptions(self) -> None:
        ids = [f"s{at}" for at in range(len(self.filters))]
        table = pa.table({"id": ids, "subscriber": self.subscribers, "filter": self.filters})
        path = self.folder / "subscriptions.parquet"
        pq.write_table(table, path, row_group_size=max(1, len(self.filters) // 3))

    def request(self, **asked: Any) -> MatchRequest:
        defaults = {
            "schema": SCHEMA,
            "subscriptions": self.folder / "subscriptions.parquet",
            "events": self.folder / "events.parquet",
            "output": self.folder / "out",
            "plan": "keyed",
        }
        return MatchRequest(**{**defaults, **asked})

    def run(self, **asked: Any) -> dict[str, Any]:
        return run_match(self.request(**asked))

    def expected(self) -> Counter[Pair]:
        filters = [parse(text, SCHEMA) for text in self.filters]
        return Counter(
            (event_id(SCHEMA, event), f"s{at}", self.subscribers[at])
            for event in self.events
            for at, filter_ in enumerate(filters)
            if matches(filter_, event)
        )

    def check(self, **asked: Any) -> dict[str, Any]:
        """Run it and hold all that it says against the definition."""
        summary = self.run(**asked)
        expected = self.expected()
        shape, per = asked.get("shape", "pairs"), asked.get("per", "subscription")
        told = expected
        if per == "subscriber":
            told = Counter({(event, whose) for event, _, whose in expected})
        found = notifications(self.folder / "out", shape, per, asked.get("format", "parquet"))
        assert found == told
        counts = summary["counts"]
        assert counts["notifications"] == told.total()
        assert counts["events_matched"] == len({event for event, *_ in expected})
        assert counts["events"] == len(self.events)
        assert counts["subscriptions"] == len(self.filters)
        assert not [one for one in (self.folder / "out").rglob("*") if one.name[0] in "_."]
        return summary


def rows_of(folder: Path, ending: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in sorted(folder.iterdir()):
        assert part.suffix == f".{ending}"
        if ending == "parquet":
            rows += pq.read_table(part).to_pylist()
        elif ending == "csv":
            rows += pacsv.read_csv(part).to_pylist()
        elif part.stat().st_size:
            rows += pajson.read_json(part).to_pylist()
    return rows


def notifications(output: Path, shape: str, per: str, ending: str) -> Counter[Pair]:
    """As pairs, whatever the shape; values as text."""
    rows = rows_of(output / "notifications", ending)
    receiver = "subscription_id" if per == "subscription" else "subscriber"
    if shape == "compact":
        events = {row["event"]: row for row in rows_of(output / "events", "parquet")}
        whose = {row[per]: row for row in rows_of(output / f"{per}s", "parquet")}
        assert len(events) == sum(1 for _ in rows_of(output / "events", "parquet"))
        rows = [{**events[row["event"]], **whose[row[per]]} for row in rows]
        if per == "subscriber":
            rows = [{**row, "subscriber": row["subscriber_name"]} for row in rows]
    if shape == "lists":
        names = [row[receiver + "s"] for row in rows]
        lists = [json.loads(one) if isinstance(one, str) else one for one in names]
        assert len({row["event_id"] for row in rows}) == len(rows)
        rows = [
            {**row, receiver: name} for row, each in zip(rows, lists, strict=True) for name in each
        ]
    if shape == "lists" and per == "subscription":  # the list does not say whose they are
        return Counter(
            (str(row["event_id"]), row[receiver], f"user {int(row[receiver][1:]) % 5}")
            for row in rows
        )
    names = (receiver, "subscriber") if per == "subscription" else (receiver,)
    return Counter((str(row["event_id"]), *(row[name] for name in names)) for row in rows)


def keyed(
    spark: SparkSession, files: Files, mapping: str, cells: int, store: Path | None = None
) -> KeyedSet:
    """The subscriptions alone, without a match."""
    sources = list_files(files.folder / "subscriptions.parquet")
    wanted = Wanted(
        schema=SCHEMA,
        files=sources,
        splits=plan_splits(sources, None, 1),
        events=plan_splits(list_files(files.folder / "events.parquet"), SCHEMA, 1),
        mapping=mapping,
        cells=cells,
        store=None if store is None else str(store),
    )
    return keyed_set(spark, wanted, files.folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    events = random_events(1, 80)
    return Files(tmp_path_factory.mktemp("files"), events, random_filters(1, events, 60))


# -- what is found ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_mapping_is_the_definition(mapping: str, files: Files) -> None:
    summary = files.check(mapping=mapping, cells=6)
    assert summary["mapping"] == mapping and 1 < summary["cells"] <= 6


# An event of zones is in many cells, and there is a root: its matches come from several places.
@pytest.mark.parametrize(
    ("shape", "per", "ending"),
    [
        ("pairs", "subscription", "csv"),
        ("pairs", "subscriber", "parquet"),
        ("lists", "subscription", "parquet"),
        ("lists", "subscriber", "jsonl"),
        ("compact", "subscription", "jsonl"),
        ("compact", "subscriber", "parquet"),
    ],
)
def test_every_shape_is_the_definition(shape: str, per: str, ending: str, files: Files) -> None:
    files.check(mapping="zones", cells=6, shape=shape, per=per, format=ending)


def test_lists_are_written_in_place_where_an_event_has_one_cell(tmp_path: Path) -> None:
    events = [{**event, "k": at % 40} for at, event in enumerate(random_events(2, 80))]
    files = Files(tmp_path, events, [f"k BETWEEN {at} AND {at + 2}" for at in range(40)])
    asked = {"mapping": "key-space-split", "cells": 5, "shape": "lists"}
    for per in ("subscription", "subscriber"):
        summary = files.check(**asked, per=per)
        assert summary["load"] is not None  # said by tasks that have written themselves


def test_the_stock_workload(tmp_path: Path) -> None:
    """Equal to plan `indexed`, whose equality to the definition has its own tests."""
    workload = stocks(3, 3_000, 800)
    (tmp_path / "schema.toml").write_text(workload.schema_toml)
    pq.write_table(workload.events(), tmp_path / "events.parquet", row_group_size=700)
    pq.write_table(workload.subscriptions(), tmp_path / "subscriptions.parquet", row_group_size=90)
    found = {}
    for plan in ("indexed", "keyed"):
        output = tmp_path / plan
        summary = run_match(
            MatchRequest(
                schema=tmp_path / "schema.toml",
                subscriptions=tmp_path / "subscriptions.parquet",
                events=tmp_path / "events.parquet",
                output=output,
                plan=plan,  # type: ignore[arg-type]
            )
        )
        table = ds.dataset(output / "notifications").to_table()
        found[plan] = sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))
        found[plan] += sorted(summary["counts"].items())
    assert found["keyed"] == found["indexed"]
    assert len(found["keyed"]) > 1_000


def test_without_any_event_or_match_there_are_columns_all_the_same(tmp_path: Path) -> None:
    files = Files(tmp_path, random_events(1, 6), ["k = 777", "k = 778"])
    files.check(mapping="selective-attribute")
    assert ds.dataset(tmp_path / "out" / "notifications").schema.names[0] == "event_id"
    files.events = []
    empty = SCHEMA.arrow.empty_table()
    pq.write_table(empty, tmp_path / "events.parquet")
    files.check(mapping="selective-attribute")


# -- subscriptions that are wrong ------------------------------------------------------------------


def test_rejects_are_those_of_the_other_plans_also_when_the_index_is_reused(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path, random_events(1, 10), ["k = 1"] * 12)
    rows = [{"id": f"s{at}", "subscriber": "u", "filter": "k = 1"} for at in range(12)]
    rows += [{"id": "s3", "subscriber": "u", "filter": "k = 2"}]
    rows += [{"id": "t1", "subscriber": "", "filter": "k = 2"}]
    rows += [{"id": "t2", "subscriber": "u", "filter": "k ="}]
    path = tmp_path / "subscriptions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    store = str(tmp_path / "store")
    said = {}
    for name, asked in {
        "indexed": {"plan": "indexed"},
        "built": {"index_store": store, "mapping": "selective-attribute"},
        "reused": {"index_store": store},
    }.items():
        summary = files.run(subscriptions=path, **asked)
        rejects = list(read_rejects(tmp_path / "out" / "rejected_subscriptions"))
        said[name] = (sorted(rejects, key=str), summary["counts"])
        assert summary.get("index", name) == name
    assert said["built"] == said["indexed"] == said["reused"]
    assert len(said["built"][0]) == 5
    moved = tmp_path / "elsewhere" / "subscriptions.jsonl"
    moved.parent.mkdir()
    shutil.move(path, moved)
    summary = files.run(subscriptions=moved, index_store=store)
    assert summary["index"] == "reused"  # the content counts, not the place
    rejects = list(read_rejects(tmp_path / "out" / "rejected_subscriptions"))
    assert {reject.file for reject in rejects} == {str(moved)}
    with pytest.raises(CrossroadsError, match=r"5 subscriptions .* First: .*subscriptions\.jsonl"):
        files.run(subscriptions=moved, index_store=store, strict=True)


# -- the index store -------------------------------------------------------------------------------


def test_a_store_serves_later_jobs_and_other_subscriptions(tmp_path: Path) -> None:
    events = random_events(4, 60)
    files = Files(tmp_path / "w", events, random_filters(4, events, 20))
    store = tmp_path / "store"
    asked = {"index_store": str(store)}
    first = files.check(**asked, mapping="hilbert", cells=4)
    again = files.check(**asked)
    assert (first["index"], again["index"]) == ("built", "reused")
    assert again["mapping"] == "hilbert" and again["cells"] == first["cells"]
    old = list(files.filters)
    files.filters = old[5:] + ["k = 0 AND x > 0"] * 3
    files.subscribers = [f"user {at % 5}" for at in range(len(files.filters))]
    files.write_subscriptions()
    assert files.check(**asked)["index"] == "built"  # beside the other
    assert files.check(**asked)["index"] == "reused"
    assert len(list((store / "sets").iterdir())) == 2
    for wrong in ({"mapping": "zones"}, {"cells": 5}):
        with pytest.raises(UsageError, match="was made with"):
            files.run(**asked, **wrong)
    other = Schema.from_toml(SCHEMA.to_toml().replace("bigint", "int"))
    with pytest.raises(OtherSchema, match=r"was made for another schema: .*k"):
        files.run(**asked, schema=other)


def test_two_jobs_that_build_at_once_both_end_right(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path / "w", random_events(4, 20), [f"k = {at % 7}" for at in range(20)])
    store = tmp_path / "store"

    def build(_: int) -> KeyedSet:
        return keyed(spark, files, "selective-attribute", 3, store)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(build, range(2))
    assert one.pinned.id == two.pinned.id
    for each in (one, two):
        assert isinstance(each.built, cellbuild.StoredSet)
        found = [each.built.open(number) for number in np.flatnonzero(each.waiting).tolist()]
        assert sum(cell.index.size for cell in found) == 20
    assert files.check(index_store=str(store))["index"] == "reused"


def test_a_damaged_index_is_said_and_deleting_the_set_repairs_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = Files(tmp_path / "w", random_events(4, 20), [f"k = {at % 7}" for at in range(20)])
    store = tmp_path / "store"
    keyed(spark, files, "selective-attribute", 3, store)
    (where,) = (store / "sets").iterdir()
    cell = next(path for path in where.iterdir() if path.name.startswith("cell-"))
    data = bytearray(cell.read_bytes())
    data[-1] ^= 255  # of the same size: only a checksum can tell
    cell.write_bytes(data)
    with pytest.raises(DamagedIndex, match="damaged"):
        files.run(index_store=str(store))
    cell.unlink()
    with pytest.raises(DamagedIndex, match="it is built again"):
        files.run(index_store=str(store))
    shutil.rmtree(where)
    assert files.check(index_store=str(store))["index"] == "built"


def test_a_build_that_dies_leaves_nothing_that_is_used(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its files cannot be written: others are there by then, and no manifest."""
    files = Files(tmp_path / "w", random_events(4, 20), [f"k = {at % 7}" for at in range(20)])
    store = tmp_path / "store"
    keyed(spark, files, "selective-attribute", 3, store)
    (where,) = (store / "sets").iterdir()
    shutil.rmtree(where)
    with monkeypatch.context() as patched:
        patched.setattr(cellbuild, "build_id", lambda: "dead")
        (where / "names-00000-dead.arrow" / "in the way").mkdir(parents=True)
        with pytest.raises(IndexFileError, match=r"cannot write the index store .*sets"):
            files.run(index_store=str(store))
    assert not (where / "manifest.json").exists()
    assert files.check(index_store=str(store))["index"] == "built"


def test_a_file_that_is_gone_has_changed(tmp_path: Path) -> None:
    files = Files(tmp_path, random_events(4, 20), ["k = 1"])
    found = list_files(tmp_path / "subscriptions.parquet")
    source = Source.of(found, plan_splits(found, None))
    assert source.is_unchanged()
    files.write_subscriptions()
    assert not source.is_unchanged()
    (tmp_path / "subscriptions.parquet").unlink()
    assert not source.is_unchanged()


@pytest.mark.parametrize("stored", [True, False])
def test_subscriptions_that_change_during_the_build_are_not_kept_under_the_old_hash(
    stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyedset, "is_local", lambda master: stored)
    files = Files(tmp_path / "w", random_events(4, 20), [f"k = {at % 7}" for at in range(20)])
    store = {"index_store": str(tmp_path / "store")} if stored else {}

    def looked_later(*about: Any) -> Looked:
        files.filters[3] = "k = 1"  # of the same length
        files.write_subscriptions()
        return look(*about)

    with monkeypatch.context() as patched:
        patched.setattr(keyedset, "look", looked_later)
        with pytest.raises(SourceError, match="changed while their index was built"):
            files.run(**store)
    for folder in (tmp_path / "store").glob("sets/*"):
        assert not list(folder.iterdir())
    assert files.check(**store)["index"] == "built"


def test_without_a_store_indexes_stay_in_spark_where_no_folder_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster: tests/cluster has a real one."""
    monkeypatch.setattr(keyedset, "is_local", lambda master: False)
    monkeypatch.setattr(cellbuild, "CHUNK_BYTES", 5_000)  # a file is several rows
    events = random_events(5, 60)
    files = Files(tmp_path, events, random_filters(5, events, 30))
    assert files.check(mapping="zones", cells=4)["index"] == "built"
    assert files.check(mapping="zones", cells=4, shape="lists")["index"] == "reused"
    assert files.check(mapping="hilbert", cells=4)["index"] == "built"  # takes its place


def test_what_cannot_work_is_refused_at_once(files: Files) -> None:
    for asked, said in (
        ({"mapping": "hilbrt"}, "did you mean hilbert?"),
        ({"plan": "direct", "mapping": "hilbert"}, "--mapping says nothing to --plan direct"),
        ({"plan": "indexed", "cells": 4}, "--cells says nothing to --plan indexed"),
        ({"plan": "auto", "index_store": "x"}, "--index-store says nothing to --plan auto"),
        ({"cells": 0}, "there must be at least one"),
        ({"index_store": "nowhere://x"}, "cannot be an index store"),
    ):
        with pytest.raises(UsageError) as error:
            files.run(**asked)
        assert said in str(error.value)


def test_a_mapping_that_would_explode_is_refused_with_the_numbers(tmp_path: Path) -> None:
    files = Files(tmp_path, random_events(3, 1_000), [f"n > {at}" for at in range(50)])
    with pytest.raises(
        UsageError, match=r"would stand in \d+ of \d+ cells on average \(limit 64\)"
    ):
        files.run(mapping="key-space-split", cells=512)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("plan", ["keyed", "sql"])
def test_what_was_taken_from_the_data_is_said(plan: str, tmp_path: Path) -> None:
    """`x` has no domain in the schema."""
    files = Files(tmp_path, random_events(3, 50), [f"x > {at}" for at in range(50)])
    warnings = files.run(plan=plan, mapping="key-space-split")["warnings"]
    assert [one for one in warnings if one.startswith("domain of `x`")], warnings


# -- skew ------------------------------------------------------------------------------------------


def test_a_hot_cell_is_shared_and_match_all_stands_nowhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Half of the events have one name, and somebody wants everything."""
    dice = np.random.default_rng(0)
    nobody = dict.fromkeys(SCHEMA.names)
    names = [f"name {at}" for at in dice.integers(0, 64, 8_000)] + ["hot"] * 8_000
    events = [{**nobody, "n": at, "name": name} for at, name in enumerate(dice.permutation(names))]
    files = Files(tmp_path, events, [f"name = 'name {at}'" for at in range(64)] + ["name = 'hot'"])
    files.filters += ["TRUE"]
    files.subscribers.append("user 0")
    files.write_subscriptions()
    found = keyed(spark, files, "selective-attribute", 64)
    assert found.root is not None and found.root.count == 1  # TRUE is in no cell
    splits = plan_splits(list_files(tmp_path / "events.parquet"), SCHEMA, 1)
    notify = Notify(SCHEMA)
    loads = []
    for replicated in (False, True):
        placement = placement_for(found, splits, len(events), 2, replicated=replicated)
        assert placement.tasks == 8
        staging = tmp_path / f"staging-{replicated}"
        staging.mkdir()
        frames = read_events(spark, splits, notify, staging, keep_duplicates=False)
        done, load = match_keyed(
            frames.events, Matching(found, notify, staging, Sharing()), placement
        )
        frames.release()
        assert load is not None and sum(one.notifications for one in done) == 2 * len(events)
        loads.append(load["max_over_mean"])
    assert loads[0] > 3.5  # one task of eight has half of the work
    assert loads[1] < 1.5


def test_events_of_cells_where_nobody_waits_stay_where_they_are(tmp_path: Path) -> None:
    events = [{**event, "k": at % 100} for at, event in enumerate(random_events(6, 200))]
    files = Files(tmp_path, events, [f"k = {at % 10}" for at in range(30)])
    load = files.check(mapping="key-space-split", cells=10)["load"]
    moved = load["events_mean"] * load["tasks"]
    assert moved < 0.7 * len(events)


def test_every_cell_file_says_where_its_subscriptions_stand(
    spark: SparkSession, files: Files
) -> None:
    found = keyed(spark, files, "zones", 6)
    built = found.built
    assert isinstance(built, cellbuild.StoredSet)
    standing: dict[int, set[int]] = {}
    runs: dict[int, set[int]] = {}
    for number in np.flatnonzero(found.waiting).tolist():
        cell = built.open(number)
        extra = cell.opened.extra
        for at, ordinal in enumerate(cell.ordinals.tolist()):
            standing.setdefault(ordinal, set()).add(number)
            spans = range(extra["offsets"][at], extra["offsets"][at + 1])
            runs[ordinal] = {
                one for run in spans for one in range(extra["first"][run], extra["last"][run] + 1)
            }
    assert standing == runs and standing
    root = built.open(ROOT)
    assert not set(root.ordinals.tolist()) & set(standing)
    names = found.names()
    assert pc.sum(names["id"].is_valid()).as_py() == found.usable == len(files.filters)
