"""What `auto` chooses, for which machine, for how much of the data; and that it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crossroads.errors import UsageError
from crossroads.lab.workloads import Written, stocks, uniform, write_workload
from crossroads.pipeline import planner
from crossroads.pipeline.job import MatchRequest, read_schema, run_match
from crossroads.pipeline.jobsummary import FORESEEN_STAGES
from crossroads.pipeline.planner import Chosen, choose_plan
from crossroads.pipeline.session import local_cores
from crossroads.pipeline.window import window_of

EVENTS, SUBSCRIPTIONS = 3_000, 400


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("planner")
    return write_workload(stocks(5, EVENTS, SUBSCRIPTIONS), folder)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the Spark of other tests."""
    monkeypatch.setattr(planner, "existing_session", lambda: None)


def chosen(files: Written, asked: Any = "auto", **more: Any) -> Chosen:
    schema = read_schema(files.schema)
    return choose_plan(asked, schema, files.subscriptions, files.events, **more)


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[1]", 1),
        ("local[7]", 7),
        ("local[3,4]", 3),
        ("local-cluster[2,3,1024]", 6),
    ],
)
def test_the_cores_are_those_of_the_master(
    master: str, cores: int, files: Written, alone: None
) -> None:
    assert local_cores(master) == cores
    found = chosen(files, master=master).surveyed
    assert found is not None and found.situation.cores == cores


@pytest.mark.parametrize("master", ["local[0]", "local-cluster[2,1]", "nonsense"])
def test_a_master_that_is_none_is_said_at_once(master: str, files: Written, tmp_path: Path) -> None:
    request = MatchRequest(
        schema=files.schema,
        subscriptions=files.subscriptions,
        events=files.events,
        output=tmp_path / "out",
        master=master,
    )
    with pytest.raises(UsageError, match="is not a Spark master"):
        run_match(request)


def test_all_cores_unless_it_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossroads.pipeline.session.usable_cores", lambda: 11)
    assert local_cores("local[*]") == 11


def test_on_a_cluster_no_path_is_taken_to_be_shared(files: Written, alone: None) -> None:
    found = chosen(files, master="spark://127.0.0.1:7077")
    assert found.plan == "indexed"
    assert "direct" in {one.plan for one in found.estimates if one.refused}


def test_what_does_not_fit_a_host_is_keyed(
    alone: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_workload(uniform(1, 20_000, 100_000), tmp_path)
    whole = chosen(files).surveyed
    assert whole is not None
    monkeypatch.setattr(planner, "spare_memory", lambda: int(whole.index_bytes_in_all / 2))
    found = chosen(files)
    assert (found.plan, found.cells is None) == ("keyed", False)
    assert found.mapping is not None


def test_only_events_in_the_window_are_counted(files: Written, alone: None) -> None:
    schema = read_schema(files.schema)
    dates = pq.read_table(files.events)["date"].to_pylist()
    for since, until in (("2000-01-01", "2001-01-01"), ("1998-01-01", None), ("1990-01-01", None)):
        window = window_of(schema, since, until, None)
        assert window is not None
        found = chosen(files, window=window).surveyed
        assert found is not None
        inside = sum(since <= str(day) < (until or "9999") for day in dates)
        assert found.situation.events.count == pytest.approx(inside, rel=0.02)
    nothing = chosen(files, window=window_of(schema, "2030-01-01", None, None)).surveyed
    assert nothing is not None and 0 < nothing.situation.events.count < EVENTS / 50


def test_sql_without_a_sample_says_that_it_is_not_sql(files: Written, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("id,subscriber,filter\na,ann,nonsense >\n")
    found = choose_plan(
        "sql", read_schema(files.schema), tmp_path / "none.csv", files.events, mapping="zones"
    )
    assert found.plan == "indexed"
    (note,) = found.notes
    assert note.startswith("plan indexed instead of sql")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("plan", ["auto", "sql"])
def test_predicted_stands_beside_actual(plan: Any, files: Written, tmp_path: Path) -> None:
    request = MatchRequest(
        schema=files.schema,
        subscriptions=files.subscriptions,
        events=files.events,
        output=tmp_path / "out",
        plan=plan,
    )
    summary = run_match(request)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    predicted, actual = written["predicted"], written["actual"]
    assert set(predicted) == {*actual, "estimates"}
    assert predicted["seconds"] > 0
    took = sum(summary["seconds"][name] for name in FORESEEN_STAGES)
    assert actual["seconds"] == pytest.approx(took, abs=0.01)
    # All of both sides was sampled, so the matches are known and not foreseen.
    counts = summary["counts"]
    assert actual["matches_per_event"] == pytest.approx(
        counts["notifications"] / counts["events"], abs=1e-3
    )
    assert predicted["matches_per_event"] == pytest.approx(actual["matches_per_event"], rel=1e-3)
    first = predicted["estimates"][0]
    assert (first["plan"], first["seconds"]) == (summary["plan"], predicted["seconds"])
    assert (actual["index_bytes"] > 0) == (summary["plan"] == "direct")
