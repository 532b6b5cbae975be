"""A real Master and two Workers on loopback: every plan, a killed worker, folders nobody shares.

The tests share the cluster and one driver, and follow each other: first with two workers, then with
one of them killed and replaced, then with workers that do not see our files, then with none.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pytest
from hypothesis import settings

from crossroads.errors import EnvironmentProblem
from crossroads.lab.cluster import Cluster, Daemon, can_hide, looks
from crossroads.lab.workloads import Workload, stocks
from crossroads.mapping.fit import MAPPINGS
from crossroads.matching.definition import matches
from crossroads.matching.index import MatchIndex
from crossroads.model.identity import event_id, event_ids
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline import session
from crossroads.pipeline.plans import RUN

if TYPE_CHECKING:
    from tests.cluster.conftest import Driver

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
]

SPLITS_FEW, SPLITS_MANY = 3, 6  # more than there are cores; a run with many has a long middle
EVERYTHING = 20  # subscriptions to all events: a dense answer takes a moment to write
REPEATED, BROKEN = 1, 1  # events that are rejected
MEETING = ("sql", "keyed")  # plans that take a mapping
Pairs = Counter[tuple[str, str]]


def with_mappings(plans: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Every plan, and every mapping with one of the plans that meet by keys; with both of them
    when there is time. (On one machine, other tests have both.)"""
    thorough = settings.get_current_profile_name() == "fuzz"
    for plan in plans:
        if plan not in MEETING:
            yield plan, None
            continue
        for at, mapping in enumerate(MAPPINGS):
            if thorough or at % len(MEETING) == MEETING.index(plan):
                yield plan, mapping


class Files:
    """A workload on disk, with a row that is broken and one that comes twice."""

    def __init__(self, folder: Path, workload: Workload) -> None:
        self.folder = folder
        self.schema = Schema.from_toml(workload.schema_toml)
        self.events = workload.events()
        drawn = workload.subscriptions()
        rows = zip(*(drawn[name].to_pylist() for name in ("id", "filter")), strict=True)
        self.subscriptions = [*rows, *((f"all {at}", "TRUE") for at in range(EVERYTHING))]
        (folder / "schema.toml").write_text(workload.schema_toml)
        asked = [
            {"id": id_, "subscriber": f"of {id_}", "filter": text}
            for id_, text in self.subscriptions
        ]
        lines = "".join(json.dumps(one) + "\n" for one in asked)
        (folder / "subscriptions.jsonl").write_text(lines)
        (folder / "events").mkdir()
        pacsv.write_csv(self.events, folder / "events" / "one.csv")
        # A file of the same name in another folder, as archives have them.
        (folder / "events" / "later").mkdir()
        header, first, *_ = (folder / "events" / "one.csv").read_text().split("\n", 2)
        (folder / "events" / "later" / "one.csv").write_text(f"{header}\n{first}\nbroken\n")

    def match(self, output: Path, plan: str, mapping: str | None = None) -> list[object]:
        words = ["match", "--json", "--plan", plan, "--output", output]
        words += ["--schema", self.folder / "schema.toml", "--events", self.folder / "events"]
        words += ["--subscriptions", self.folder / "subscriptions.jsonl"]
        return words + (["--mapping", mapping] if mapping else [])

    def limits(self, splits: int = SPLITS_FEW) -> dict[str, float]:
        size = (self.folder / "events" / "one.csv").stat().st_size
        return {"SPLIT_BYTES_MIN": 1, "SPLIT_BYTES": size // splits}

    @cached_property
    def by_definition(self) -> Pairs:
        filters = [(id_, parse(text, self.schema)) for id_, text in self.subscriptions]
        return Counter(
            (event_id(self.schema, event), id_)
            for event in self.events.to_pylist()
            for id_, filter_ in filters
            if matches(filter_, event)
        )

    def by_index(self) -> Pairs:
        """For larger ones; that the index is the definition is shown elsewhere."""
        texts = pa.array([text for _, text in self.subscriptions])
        found = MatchIndex.build(read_filters(texts, self.schema)).match_batch(self.events)
        ids = pa.array([id_ for id_, _ in self.subscriptions]).take(pa.array(found.ordinals))
        events = event_ids(self.schema, self.events).take(pa.array(found.events.astype(np.int64)))
        return Counter(zip(events.to_pylist(), ids.to_pylist(), strict=True))


def pairs_of(output: Path, ending: str = "parquet") -> Pairs:
    found = ds.dataset(output / "notifications", format=ending).to_table()
    columns = (found[name].to_pylist() for name in ("event_id", "subscription_id"))
    return Counter(zip(*columns, strict=True))


def leftovers(output: Path) -> list[str]:
    beside = [p.name for p in output.parent.glob(f".{output.name}.*") if p.suffix != ".lock"]
    return beside + [p.name for p in output.rglob("*") if p.name.startswith((".", "_"))]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("small"), stocks(4, 300, 100))


def stopped_at_work(cluster: Cluster, output: Path) -> Daemon:
    """A worker in the middle of writing a part; stopped, so that it stays there."""
    for _ in looks():
        if output.exists():
            break
        if not any(output.parent.glob(f".{output.name}.staging-*/**/.part-*")):
            continue
        for worker in cluster.workers:
            worker.signal(signal.SIGSTOP)
        at_work = [worker for worker in cluster.workers if has_part_open(worker)]
        for worker in cluster.workers:
            if worker not in at_work[:1]:
                worker.signal(signal.SIGCONT)
        if at_work:
            return at_work[0]
    raise AssertionError("no worker was seen at work")


def has_part_open(worker: Daemon) -> bool:
    for number in worker.processes():
        with contextlib.suppress(OSError):
            for handle in Path(f"/proc/{number}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if handle.readlink().name.startswith(".part-"):
                        return True
    return False


# -- two workers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "mapping"), list(with_mappings(tuple(RUN))))
def test_every_plan_is_the_definition(
    plan: str, mapping: str | None, small: Files, driver: Driver, tmp_path: Path
) -> None:
    said = driver.run(small.match(tmp_path / "out", plan, mapping), **small.limits())
    assert (said.code, said.err) == (0, "")
    assert pairs_of(tmp_path / "out") == small.by_definition
    counts = json.loads(said.out)["counts"]
    assert counts["events"] == small.events.num_rows
    assert counts["events_repeated"] == REPEATED
    assert counts["events_rejected"] == REPEATED + BROKEN
    assert not leftovers(tmp_path / "out")


def test_a_plan_is_chosen_for_the_cluster(small: Files, driver: Driver, tmp_path: Path) -> None:
    said = driver.run(small.match(tmp_path / "out", "auto"), **small.limits())
    assert (said.code, said.err) == (0, "")
    summary = json.loads(said.out)
    assert summary["plan"] in RUN and summary["plan"] != "direct"
    assert pairs_of(tmp_path / "out") == small.by_definition
    refused = {one["plan"]: one["refused"] for one in summary["predicted"]["estimates"]}
    assert refused["direct"] == "not every worker sees the paths"


def test_an_index_store_serves_all_workers(small: Files, driver: Driver, tmp_path: Path) -> None:
    store = ["--index-store", tmp_path / "store"]
    for index in ("built", "reused"):
        said = driver.run([*small.match(tmp_path / "out", "keyed"), *store], **small.limits())
        assert (said.code, said.err) == (0, "")
        assert json.loads(said.out)["index"] == index
        assert pairs_of(tmp_path / "out") == small.by_definition


@pytest.mark.parametrize("plan", RUN)
def test_a_worker_killed_in_the_middle_changes_nothing(
    plan: str, cluster: Cluster, driver: Driver, tmp_path: Path
) -> None:
    files = Files(tmp_path, stocks(5, 20_000, 3_000))
    output = tmp_path / "out"
    # Text takes longer to write: a part is open for a moment.
    words = [*files.match(output, plan), "--format", "csv"]
    driver.start(words, **files.limits(SPLITS_MANY))
    victim = stopped_at_work(cluster, output)
    cluster.kill_worker(victim)
    said = driver.finish()
    cluster.start_worker()
    cluster.wait_for_workers(len(cluster.workers))
    assert (said.code, said.err) == (0, "")
    assert pairs_of(output, "csv") == files.by_index()
    assert not leftovers(output)


# -- workers that see nothing of ours ------------------------------------------------------------


@pytest.fixture(scope="module")
def unseen(
    cluster: Cluster, driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Files]:
    """Files that the driver sees and no worker does."""
    if not can_hide():
        pytest.skip("this machine does not let us hide a folder from a process")
    folder = tmp_path_factory.mktemp("unseen")
    files = Files(folder, stocks(4, 300, 100))
    for worker in list(cluster.workers):
        cluster.kill_worker(worker)
    cluster.start_worker(hidden=[folder])
    cluster.wait_for_workers(1)
    yield files
    for worker in list(cluster.workers):
        cluster.kill_worker(worker)


@pytest.mark.parametrize("plan", [plan for plan in RUN if plan != "direct"])
def test_no_folder_has_to_be_shared(plan: str, unseen: Files, driver: Driver) -> None:
    output = unseen.folder / f"out-{plan}"
    said = driver.run(unseen.match(output, plan), **unseen.limits())
    assert (said.code, said.err) == (0, "")
    assert pairs_of(output) == unseen.by_definition
    summary = json.loads(said.out)
    assert summary["counts"]["events_rejected"] == REPEATED + BROKEN
    assert [note for note in summary["warnings"] if "do not see the input" in note]
    assert [note for note in summary["warnings"] if "do not see the output" in note]
    assert not leftovers(output)


def test_a_store_that_workers_do_not_see_is_said(unseen: Files, driver: Driver) -> None:
    output = unseen.folder / "out-store"
    words = [*unseen.match(output, "keyed"), "--index-store", unseen.folder / "store"]
    said = driver.run(words, **unseen.limits())
    assert said.code == 1
    assert said.err.startswith("error: a worker does not see the index store")
    assert len(said.err.splitlines()) == 1
    assert not output.exists() and not leftovers(output)


def test_look_up_tables_come_through_spark_too(unseen: Files, driver: Driver) -> None:
    output = unseen.folder / "out-compact"
    words = [*unseen.match(output, "indexed"), "--shape", "compact"]
    said = driver.run(words, **unseen.limits())
    assert (said.code, said.err) == (0, "")
    tables = {
        name: ds.dataset(output / name, format="parquet").to_table()
        for name in ("notifications", "events", "subscriptions")
    }
    named = tables["notifications"].join(tables["events"], "event")
    named = named.join(tables["subscriptions"], "subscription")
    columns = (named[name].to_pylist() for name in ("event_id", "subscription_id"))
    assert Counter(zip(*columns, strict=True)) == unseen.by_definition


def test_the_direct_plan_says_that_folders_must_be_shared(unseen: Files, driver: Driver) -> None:
    output = unseen.folder / "out-direct"
    said = driver.run(unseen.match(output, "direct"), **unseen.limits())
    assert said.code == 1
    assert said.err.startswith("error: a worker does not see the output folder")
    assert "--plan indexed" in said.err and len(said.err.splitlines()) == 1
    assert not output.exists() and not leftovers(output)


# -- no workers, no master -----------------------------------------------------------------------


def test_a_cluster_without_workers_is_not_waited_for_all_night(
    small: Files, cluster: Cluster, driver: Driver, tmp_path: Path
) -> None:
    for worker in list(cluster.workers):
        cluster.kill_worker(worker)
    words = small.match(tmp_path / "out", "indexed")
    said = driver.run(words, **small.limits(), EXECUTORS_AWAITED_SECONDS=2)
    assert said.code == 1
    assert said.err.startswith("error: the Spark cluster has had no executor for 2 seconds")
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "out").exists() and not leftovers(tmp_path / "out")


def test_a_master_that_does_not_answer_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "existing_session", lambda: None)  # of other tests
    with pytest.raises(EnvironmentProblem, match=r"no Spark master answers at 127\.0\.0\.1:1: "):
        session.spark_session("spark://127.0.0.1:1")
