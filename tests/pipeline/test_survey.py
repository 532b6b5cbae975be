"""The look at both sides: how many there are, a fair sample of them, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossroads.errors import EventError, SourceError, SubscriptionError
from crossroads.lab.workloads import stocks, uniform, write_workload
from crossroads.model.schema import Schema
from crossroads.pipeline import sidesample
from crossroads.pipeline import survey as surveying
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.survey import Survey, survey

SCHEMA = Schema.from_mapping({"id": "id", "attributes": {"id": "bigint", "x": "int"}})


def written(folder: Path, subscriptions: str, events: str) -> tuple[Path, Path]:
    asked, published = folder / "s.csv", folder / "e.csv"
    asked.write_text(subscriptions)
    published.write_text(events)
    return asked, published


def survey_of(folder: Path, subscriptions: str, events: str) -> Survey:
    return survey(SCHEMA, *written(folder, subscriptions, events))


@pytest.mark.parametrize(
    ("format_", "gzip"),
    [("parquet", False), ("csv", False), ("csv", True), ("jsonl", False), ("jsonl", True)],
)
def test_both_sides_are_counted_or_foreseen(tmp_path: Path, format_: str, gzip: bool) -> None:
    workload = stocks(5, 30_000, 9_000)
    files = write_workload(workload, tmp_path / "w", format=format_, compress=gzip)
    found = survey(Schema.from_toml(workload.schema_toml), files.subscriptions, files.events)
    for side, count in ((found.subscriptions, 9_000), (found.events, 30_000)):
        assert side.exact == (format_ == "parquet")
        # How well text packs is not known beforehand; how long its lines are is.
        least, most = (0.99, 1.01) if not gzip else (0.3, 3.0)
        assert least * count <= side.count <= most * count
    assert found.sample.filters.size == found.names.num_rows == surveying.SUBSCRIPTIONS_SAMPLED
    assert found.sample.events.num_rows == surveying.EVENTS_SAMPLED
    assert found.events_refused == found.filters_refused == 0


def test_a_sorted_file_is_sampled_from_end_to_end(tmp_path: Path) -> None:
    rows, lines = 50_000, "".join(f"{n},{n}\n" for n in range(50_000))
    found = survey_of(tmp_path, "id,subscriber,filter\na,u,x > 3\n", "id,x\n" + lines)
    seen = found.sample.events["x"].to_pylist()
    assert (seen[0], seen[-1]) == (0, rows - 1)
    halves = sum(x < rows / 2 for x in seen)
    assert abs(halves - len(seen) / 2) < 0.01 * len(seen)


def test_splits_lie_over_the_whole_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "SPLIT_BYTES", 10_000)
    monkeypatch.setattr(sidesample, "ROWS_READ", 800)
    lines = "".join(f"{n},{n}\n" for n in range(20_000))
    found = survey_of(tmp_path, "id,subscriber,filter\na,u,x > 3\n", "id,x\n" + lines)
    seen = found.sample.events["x"].to_pylist()
    assert len(seen) == 800
    assert (min(seen), max(seen)) == (0, seen[-1])
    assert max(seen) > 19_000


def test_known_splits_are_used(tmp_path: Path) -> None:
    lines = "".join(f"{n},{n}\n" for n in range(2_000))
    asked, published = written(tmp_path, "id,subscriber,filter\na,u,x > 3\n", "id,x\n" + lines)
    splits = plan_splits(list_files(published), SCHEMA, 2_000)
    found = survey(SCHEMA, asked, published, event_splits=splits[1:2])
    seen = found.sample.events["x"].to_pylist()
    assert seen == list(range(seen[0], seen[-1] + 1))
    assert (seen[0], seen[-1] + 1) == (splits[1].first_line - 2, splits[2].first_line - 2)
    assert found.events.count == pytest.approx(2_000, rel=0.2), "all files, not only these splits"


def test_what_is_refused_is_counted(tmp_path: Path) -> None:
    subscriptions = "id,subscriber,filter\na,u,x > 3\nb,u,y > 3\nc,u,\n"
    found = survey_of(tmp_path, subscriptions, "id,x\n1,2\n2,many\n3,4\n")
    assert found.names["id"].to_pylist() == ["a", "b"]
    assert (found.filters_refused, found.events_refused) == (1, 1)
    assert found.sample.events["x"].to_pylist() == [2, 4]


def test_the_situation_knows_how_many_joins_there_are(tmp_path: Path) -> None:
    workload = uniform(1, 100, 500)
    files = write_workload(workload, tmp_path / "w", format="parquet")
    found = survey(Schema.from_toml(workload.schema_toml), files.subscriptions, files.events)
    here = found.situation(cores=3, memory=1 << 20, local=True)
    assert (here.cores, here.memory, here.local, here.shapes) == (3, 1 << 20, True, 1)
    assert here.subscriptions == found.subscriptions


GOOD = "id,subscriber,filter\na,u,x > 3\n"


@pytest.mark.parametrize(
    ("subscriptions", "events", "error", "said"),
    [
        ("", "id,x\n1,2\n", SourceError, "nothing to read"),
        ("id,subscriber,filter\n", "id,x\n1,2\n", SubscriptionError, "no usable subscription"),
        ("id,subscriber,filter\na,u,\n", "id,x\n1,2\n", SubscriptionError, "no usable"),
        ("id,subscriber,filter\na,u,z = 1\n", "id,x\n1,2\n", SubscriptionError, "no attribute 'z'"),
        ("id,subscriber\na,u\n", "id,x\n1,2\n", SourceError, "there is no column 'filter'"),
        (GOOD, "", SourceError, "nothing to read"),
        (GOOD, "id,x\n", EventError, "no usable event (it has no rows)"),
        (GOOD, "id,x\n1,two\n", EventError, "no usable event (the first: line 2: "),
        (GOOD, "a,b\n1,2\n", SourceError, "no column is an attribute"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path, subscriptions: str, events: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        survey_of(tmp_path, subscriptions, events)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
