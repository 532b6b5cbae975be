"""Two subscription tables: what appears and vanishes is the difference of two full answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import InputError, RejectedInput, SourceError, UsageError
from crossroads.lab.workloads import stocks
from crossroads.matching.definition import matches
from crossroads.model.identity import event_id
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.pipeline.difference import PAIRS, Asked, pieces, split
from crossroads.pipeline.diffjob import DiffRequest, no_usable_event, run_diff
from crossroads.pipeline.rejects import read_rejects
from crossroads.pipeline.subscriptions import COLUMNS, SubscriptionSet, check_rows
from crossroads.pipeline.versions import Kind, compare
from crossroads.testing import strategies

SCHEMA = Schema.from_toml('id = ["n"]\n[attributes]\nn = "int"\nx = "int"\ntext = "string"\n')
Row = tuple[str, str, str]  # id, subscriber, filter
Notification = tuple[str, str, str]  # event, subscription, subscriber


def checked(rows: list[Row], schema: Schema = SCHEMA) -> SubscriptionSet:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    table = pa.table(
        {
            **{
                name: pa.array(cells, pa.string())
                for name, cells in zip(COLUMNS, columns, strict=True)
            },
            "_file": pa.array([""] * len(rows), pa.string()),
            "_line": pa.array(range(1, len(rows) + 1), pa.int64()),
        }
    )
    return check_rows(table, schema, [])


def answer(rows: list[Row], events: list[dict[str, Any]], schema: Schema) -> set[Notification]:
    """By the definition, all of it."""
    return {
        (event_id(schema, event), id_, subscriber)
        for id_, subscriber, text in rows
        for event in events
        if matches(parse(text, schema), event)
    }


# -- what changed --------------------------------------------------------------------------------


def test_every_kind_of_change() -> None:
    old = [
        ("same", "u", "x > 1"),
        ("reworded", "u", "x > 1"),
        ("gone", "u", "x = 1"),
        ("filter", "u", "x > 1"),
        ("subscriber", "u", "x > 1"),
        ("both", "u", "x > 1"),
        ("broken now", "u", "x > 1"),
        ("broken before", "u", "x >"),
        ("twice now", "u", "x > 1"),
    ]
    new = [
        ("broken before", "u", "x > 1"),
        ("broken now", "u", "y > 1"),
        ("both", "v", "x > 2"),
        ("subscriber", "v", "(X  >  1)"),
        ("filter", "u", "x > 2"),
        ("reworded", "u", "(X  >  1)"),
        ("same", "u", "x > 1"),
        ("fresh", "u", "x = 1"),
        ("twice now", "u", "x > 1"),
        ("twice now", "u", "x > 2"),
    ]
    found = compare(checked(old), checked(new))
    assert {change.id: change.kind for change in found.changes} == {
        "gone": Kind.REMOVED,
        "broken now": Kind.REJECTED_NOW,
        "twice now": Kind.REJECTED_NOW,
        "fresh": Kind.ADDED,
        "broken before": Kind.REJECTED_BEFORE,
        "filter": Kind.FILTER,
        "subscriber": Kind.SUBSCRIBER,
        "both": Kind.BOTH,
    }
    assert (found.unchanged, found.reworded) == (1, 1)
    counts = found.counts()
    assert (counts["removed"], counts["rejected now"], counts["rejected before"]) == (1, 2, 1)
    # What only went to somebody else is asked once, what changed its filter twice.
    assert {change.id: len(change.asked()) for change in found.changes if change.old_filter} == {
        "gone": 1,
        "broken now": 1,
        "twice now": 1,
        "filter": 2,
        "subscriber": 1,
        "both": 2,
    }


def test_empty_tables() -> None:
    assert compare(checked([]), checked([])).changes == ()
    only = compare(checked([]), checked([("a", "u", "TRUE")]))
    assert [change.kind for change in only.changes] == [Kind.ADDED]


# -- what appears and vanishes -------------------------------------------------------------------


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[list[Row], list[Row], list[dict[str, Any]], Schema]:
    schema = draw(strategies.schemas())
    events = draw(strategies.event_lists(schema))
    texts = st.one_of(strategies.filters(schema), st.sampled_from(["TRUE", "( TRUE )", "FALSE"]))
    ids = st.lists(st.sampled_from("abcdef"), unique=True)
    subscriber = st.sampled_from("uv")

    def rows(given: list[Row]) -> st.SearchStrategy[list[Row]]:
        known = {id_: (who, text) for id_, who, text in given}
        fresh = st.tuples(subscriber, texts)

        def row(id_: str) -> st.SearchStrategy[Row]:
            cells = st.one_of(st.just(known[id_]), fresh) if id_ in known else fresh
            return cells.map(lambda two: (id_, *two))

        return ids.flatmap(lambda chosen: st.tuples(*map(row, chosen)).map(list))

    old = draw(rows([]))
    return old, draw(rows(old)), events, schema


def told(asked: Asked, events: list[dict[str, Any]], schema: Schema, most: int) -> Any:
    """As the job does it, with the definition in place of the match job."""
    pairs = [
        (event_id(schema, event), str(at))
        for event in events
        for at, text in enumerate(asked.texts)
        if matches(parse(text, schema), event)
    ]
    columns = list(zip(*pairs, strict=True)) if pairs else [(), ()]
    table = pa.table([pa.array(c, pa.string()) for c in columns], schema=PAIRS)
    found: list[Counter[Notification]] = [Counter(), Counter()]
    counts = [[0] * len(asked.changes), [0] * len(asked.changes)]
    for piece in pieces(ds.dataset(table), table.num_rows, most):
        for side, one in enumerate(split(piece, asked)):
            rows = one.table.to_pylist()
            found[side].update(tuple(row.values()) for row in rows)
            counts[side] = [a + b for a, b in zip(counts[side], one.counts.tolist(), strict=True)]
    return found, counts


@settings(max_examples=150)
@given(two_tables(), st.integers(1, 5))
def test_it_is_the_difference_of_two_full_answers(given_: Any, most: int) -> None:
    old, new, events, schema = given_
    asked = Asked(compare(checked(old, schema), checked(new, schema)).changes)
    before, after = answer(old, events, schema), answer(new, events, schema)
    (appeared, vanished), counts = told(asked, events, schema, most)
    assert appeared == Counter(after - before)
    assert vanished == Counter(before - after)
    for found, many in zip((appeared, vanished), counts, strict=True):
        by_id = Counter(id_ for _, id_, _ in found.elements())
        assert {c.id: n for c, n in zip(asked.changes, many, strict=True) if n} == by_id


# -- the job -------------------------------------------------------------------------------------


def write(path: Path, rows: list[Row]) -> Path:
    lines = (json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows)
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tables")
    workload = stocks(7, 300, 60)
    drawn = workload.subscriptions()
    old = list(zip(*(drawn[name].to_pylist() for name in COLUMNS), strict=True))
    new = [row for at, row in enumerate(old) if at % 7]
    new = [(i, "another", f) if at % 5 == 0 else (i, s, f) for at, (i, s, f) in enumerate(new)]
    new = [
        (i, s, f"{f} OR close > open") if at % 3 == 0 else (i, s, f)
        for at, (i, s, f) in enumerate(new)
    ]
    new += [("fresh", "u", "close < open"), ("never", "u", "FALSE")]
    pq.write_table(workload.events(), folder / "events.parquet")
    return {
        "schema": Schema.from_toml(workload.schema_toml),
        "events": folder / "events.parquet",
        "rows": workload.events().to_pylist(),
        "old": write(folder / "old.jsonl", old),
        "new": write(folder / "new.jsonl", new),
        "answers": (old, new),
    }


def request(tables: dict[str, Any], output: Path, **more: Any) -> DiffRequest:
    given = {name: tables[name] for name in ("schema", "events", "old", "new")}
    return DiffRequest(output=output, **(given | more))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("plan", ["direct", "keyed"])
def test_the_job(tables: dict[str, Any], plan: Any, tmp_path: Path) -> None:
    summary = run_diff(request(tables, tmp_path / "out", plan=plan))
    before, after = (answer(rows, tables["rows"], tables["schema"]) for rows in tables["answers"])
    for folder, expected in (("appeared", after - before), ("vanished", before - after)):
        rows = pq.read_table(tmp_path / "out" / folder).to_pylist()
        assert Counter(tuple(row.values()) for row in rows) == Counter(expected)
        assert summary["counts"][folder] == len(expected) > 0
    assert summary["counts"]["subscriptions"]["added"] == 2
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == {
        "made_by": "crossroads",
        **summary,
    }
    listed = pq.read_table(tmp_path / "out" / "subscriptions").to_pylist()
    assert {row["id"]: row["appeared"] for row in listed}["never"] == 0
    assert sum(row["vanished"] for row in listed) == len(before - after)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "appeared",
        "vanished",
        "subscriptions",
        "summary.json",
    }


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_window_is_for_both_tables(tables: dict[str, Any], tmp_path: Path) -> None:
    summary = run_diff(request(tables, tmp_path / "out", since="2000-06-01"))
    inside = [row for row in tables["rows"] if str(row["date"]) >= "2000-06-01"]
    before, after = (answer(rows, inside, tables["schema"]) for rows in tables["answers"])
    assert summary["counts"]["appeared"] == len(after - before)
    assert summary["counts"]["vanished"] == len(before - after)
    assert summary["events"]["outside"] == len(tables["rows"]) - len(inside)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_is_rejected_is_kept_with_its_reason(tables: dict[str, Any], tmp_path: Path) -> None:
    new = write(tmp_path / "new.jsonl", [("ok", "u", "close > open"), ("bad", "u", "nonsense >")])
    events = tmp_path / "events.jsonl"
    events.write_text('{"date": "not a day"}\n')
    summary = run_diff(request(tables, tmp_path / "out", new=new, events=events))
    (reject,) = read_rejects(tmp_path / "out" / "rejected_subscriptions_new")
    assert "nonsense" in reject.raw and reject.reason
    assert not (tmp_path / "out" / "rejected_subscriptions_old").exists()
    assert len(list(read_rejects(tmp_path / "out" / "rejected_events"))) == 1
    problem = no_usable_event(summary)
    assert problem is not None and "all 1 events were rejected" in str(problem)
    good = run_diff(request(tables, tmp_path / "out"))
    assert no_usable_event(good) is None


def test_without_a_change_nothing_is_read(tables: dict[str, Any], tmp_path: Path) -> None:
    """No Spark is started, and the answer has its columns all the same."""
    summary = run_diff(request(tables, tmp_path / "out", new=tables["old"]))
    assert summary["events"] is None
    assert summary["counts"]["subscriptions"]["unchanged"] == len(tables["answers"][0])
    assert pq.read_table(tmp_path / "out" / "appeared").column_names == [
        "event_id",
        "subscription_id",
        "subscriber",
    ]


def test_bad_input(tables: dict[str, Any], tmp_path: Path) -> None:
    broken = write(tmp_path / "broken.jsonl", [("a", "u", "nonsense >")])
    with pytest.raises(InputError, match=r"all 1 subscriptions of .*broken\.jsonl were rejected"):
        run_diff(request(tables, tmp_path / "out", new=broken))
    with pytest.raises(RejectedInput, match="--strict was given"):
        run_diff(request(tables, tmp_path / "out", old=broken, strict=True))
    with pytest.raises(SourceError, match="does not exist"):
        run_diff(request(tables, tmp_path / "out", old=tmp_path / "nowhere.csv"))
    with pytest.raises(UsageError, match="is not before"):
        run_diff(request(tables, tmp_path / "out", since="2002-01-01", until="2001-01-01"))
    with pytest.raises(UsageError, match="lies in the output folder"):
        run_diff(request(tables, tables["events"].parent))
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.iterdir() if "staging" in p.name] == []
