"""`crossroads demo`: from nothing to notifications, with their reasons."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crossroads.cli.main import run
from crossroads.lab.workloads import stocks
from crossroads.matching.explain import explain
from crossroads.model.identity import event_id
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.pipeline.samples import busiest, sample_notifications

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    words = ["--events", "2000", "--subscriptions", "100", "--seed", "4"]
    for _ in range(2):  # a second demo replaces the first
        with pytest.raises(SystemExit) as leaving:
            run(["demo", "--output", str(folder), *words])
        assert not leaving.value.code
    return folder


def test_the_demo_is_short_and_complete(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(["demo", "--output", str(tmp_path), "--events", "500", "--subscriptions", "30"])
    text = capsys.readouterr().out
    for word in ("500 stock quotes", "30 subscriptions", "notifications", "rejected", "plan"):
        assert word in text
    assert "Some notifications" in text and "Busiest subscriptions" in text
    assert len(text.splitlines()) < 60


def test_samples_give_true_reasons(demo: Path) -> None:
    work = demo / "workload"
    schema = Schema.from_toml((work / "schema.toml").read_text())
    found = sample_notifications(
        demo / "matches", schema, work / "subscriptions.parquet", work / "events.parquet", count=4
    )
    assert len(found) == 4
    events = {event_id(schema, event): event for event in stocks(4, 2000, 100).events().to_pylist()}
    for one in found:
        explained = explain(parse(one.filter, schema), events[one.event_id])
        assert explained.reason == one.reason


def test_the_busiest_are_those_with_most(demo: Path) -> None:
    told = pq.read_table(demo / "matches" / "notifications")["subscription_id"].to_pylist()
    top = busiest(demo / "matches", 3)
    counts = sorted((told.count(one) for one in set(told)), reverse=True)
    assert [count for _, _, count in top] == counts[:3]
    assert all(told.count(subscription) == count for subscription, _, count in top)
