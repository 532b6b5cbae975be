"""The match job: every plan, shape and format gives exactly what the definition says."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossroads.lab.workloads import Workload, mixed, stocks
from crossroads.matching.definition import matches
from crossroads.model.identity import event_id
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.types import Kind
from crossroads.model.values import canonical, text_of
from crossroads.pipeline import job
from crossroads.pipeline.job import MatchRequest, run_match
from crossroads.pipeline.rejects import read_rejects
from crossroads.testing import pools
from crossroads.testing.seeded import SeededFilters

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

Event = dict[str, Any]
Subscription = tuple[str, str, str]  # id, subscriber, filter
PLANS = ("direct", "indexed", "naive", "sql")

EVERY_TYPE = Schema.from_toml("""
name = "every type"
id = ["name", "n"]

[attributes]
name = "string"
n = "int"
k = "bigint"
x = "double"
m = "decimal(10,2)"
flag = "boolean"
day = "date"
at = "timestamp"
link = "url"
"order.total" = "double"
"order.place" = "string"
""")


# -- files -------------------------------------------------------------------------------------


def write_subscriptions(folder: Path, subscriptions: Sequence[Subscription]) -> Path:
    path = folder / "subscriptions.jsonl"
    names = ("id", "subscriber", "filter")
    lines = (json.dumps(dict(zip(names, one, strict=True))) for one in subscriptions)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def write_parquet(path: Path, events: Sequence[Event], schema: Schema) -> Path:
    table = pa.Table.from_pylist(list(events), schema=schema.arrow)
    pq.write_table(table, path, row_group_size=max(1, len(events) // 3))
    return path


def write_csv(path: Path, events: Sequence[Event], schema: Schema) -> Path:
    def cell(value: object) -> str:  # an empty text is quoted, NULL is nothing
        if value is None:
            return ""
        return '"' + text_of(value).replace('"', '""') + '"'  # type: ignore[arg-type]

    rows = [",".join(schema.names)]
    rows += [",".join(cell(event[name]) for name in schema.names) for event in events]
    _opened(path)(path, "".join(row + "\n" for row in rows).encode())
    return path


def write_jsonl(path: Path, events: Sequence[Event], *, nested: bool = False) -> Path:
    def value(given: object) -> object:
        plain = given is None or isinstance(given, bool | int | str)
        finite = isinstance(given, float) and given - given == 0
        return given if plain or finite else text_of(given)  # type: ignore[arg-type]

    lines = []
    for event in events:
        said: dict[str, Any] = {}
        for name, given in event.items():
            inside, _, last = name.rpartition(".")
            if nested and inside:
                said.setdefault(inside, {})[last] = value(given)
            else:
                said[name] = value(given)
        lines.append(json.dumps(said, ensure_ascii=False) + "\n")
    _opened(path)(path, "".join(lines).encode())
    return path


def _opened(path: Path) -> Callable[[Path, bytes], object]:
    if path.suffix == ".gz":
        return lambda target, data: target.write_bytes(gzip.compress(data))
    return lambda target, data: target.write_bytes(data)


# -- what is expected, and what was found ------------------------------------------------------


def expected_pairs(
    schema: Schema, events: Sequence[Event], subscriptions: Sequence[Subscription]
) -> list[tuple[Event, Subscription]]:
    filters = [parse(text, schema) for _, _, text in subscriptions]
    return [
        (event, subscription)
        for event in events
        for subscription, filter_ in zip(subscriptions, filters, strict=True)
        if matches(filter_, event)
    ]


def in_shape(
    pairs: Sequence[tuple[Event, Subscription]],
    schema: Schema,
    *,
    shape: str,
    per: str,
    include: Sequence[str],
) -> Counter[tuple[object, ...]]:
    """The rows that say so; values as text, which NaN and -0.0 keep."""
    lists: dict[tuple[object, ...], list[str]] = defaultdict(list)
    rows: list[tuple[object, ...]] = []
    for event, (subscription, subscriber, _) in pairs:
        included = tuple(shown(event[name]) for name in include)
        key = (event_id(schema, event), *included)
        if shape == "lists":
            lists[key].append(subscription if per == "subscription" else subscriber)
        elif per == "subscription":
            rows.append((key[0], subscription, subscriber, *included))
        else:
            rows.append((key[0], subscriber, *included))
    if per == "subscriber":
        rows = list(dict.fromkeys(rows))
    rows += [(*key, tuple(sorted(set(names)))) for key, names in lists.items()]
    return Counter(rows)


def shown(value: object) -> object:
    return None if value is None else text_of(value)  # type: ignore[arg-type]


def rows_of(folder: Path, ending: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in sorted(folder.iterdir()):
        assert part.name.startswith("part-") and part.suffix == f".{ending}"
        match ending:
            case "parquet":
                rows += pq.read_table(part).to_pylist()
            case "jsonl":
                rows += [json.loads(line) for line in part.read_text().split("\n")[:-1]]
            case _:
                rows += _csv_rows(part)
    return rows


def _csv_rows(part: Path) -> list[dict[str, Any]]:
    with part.open(newline="") as file:
        return list(csv.DictReader(file, strict=True))


def told(output: Path, schema: Schema, **asked: Any) -> Counter[tuple[object, ...]]:
    """The notifications of an output as `in_shape` gives them."""
    shape, per, ending = asked["shape"], asked["per"], asked["ending"]
    include = asked["include"]
    rows = rows_of(output / "notifications", ending)
    if shape == "compact":
        rows = _looked_up(output, rows, per)
    receivers = {"subscription": "subscription_id", "subscriber": "subscriber"}[per]
    found: list[tuple[object, ...]] = []
    for row in rows:
        included = tuple(_read(schema, name, row[name], ending, shape) for name in include)
        if shape == "lists":
            names = row[receivers + "s"]
            names = json.loads(names) if ending == "csv" else names
            assert len(names) == len(set(names)), row
            found.append((row["event_id"], *included, tuple(sorted(names))))
        elif per == "subscription":
            found.append((row["event_id"], row["subscription_id"], row["subscriber"], *included))
        else:
            found.append((row["event_id"], row["subscriber"], *included))
    return Counter(found)


def _read(schema: Schema, name: str, value: Any, ending: str, shape: str) -> object:
    if ending == "parquet" or shape == "compact":
        return shown(value)  # with its type
    if value is None or (ending == "csv" and value == ""):
        return None
    return shown(canonical(schema.attribute(name).type, value))


def _looked_up(output: Path, rows: list[dict[str, Any]], per: str) -> list[dict[str, Any]]:
    events = {row["event"]: row for row in rows_of(output / "events", "parquet")}
    receivers = {row[per]: row for row in rows_of(output / f"{per}s", "parquet")}
    found = []
    for row in rows:
        said = {**events[int(row["event"])], **receivers[int(row[per])]}
        if per == "subscriber":
            said["subscriber"] = said["subscriber_name"]
        found.append(said)
    return found


def run_and_check(
    folder: Path,
    schema: Schema,
    events: Sequence[Event],
    subscriptions: Sequence[Subscription],
    source: Path,
    *,
    plan: str = "direct",
    shape: str = "pairs",
    per: str = "subscription",
    ending: str = "parquet",
    include: Sequence[str] = (),
    **more: Any,
) -> dict[str, Any]:
    """Run the job and hold its notifications and its counts against the definition."""
    output = folder / f"out-{plan}-{shape}-{per}-{ending}"
    request = MatchRequest(
        schema=schema,
        subscriptions=write_subscriptions(folder, subscriptions),
        events=source,
        output=output,
        plan=plan,  # type: ignore[arg-type]
        shape=shape,  # type: ignore[arg-type]
        per=per,  # type: ignore[arg-type]
        format=ending,  # type: ignore[arg-type]
        include=tuple(include),
        **more,
    )
    summary = run_match(request)
    pairs = expected_pairs(schema, events, subscriptions)
    asked = {"shape": shape, "per": per, "include": include}
    expected = in_shape(pairs, schema, **asked)
    assert told(output, schema, **asked, ending=ending) == expected
    counts = summary["counts"]
    assert counts["events"] == len(events)
    assert counts["events_matched"] == len({id(event) for event, _ in pairs})
    # Lists are fewer rows, not fewer notifications.
    told_of = in_shape(pairs, schema, shape="pairs", per=per, include=include)
    assert counts["notifications"] == told_of.total()
    assert summary["plan"] == (plan if events or plan != "sql" else "indexed")  # sql needs a sample
    assert not [path for path in output.rglob("*") if path.name.startswith(("_", "."))]
    assert json.loads((output / "summary.json").read_text()) == {
        "made_by": "crossroads",
        **summary,
    }
    return summary


# -- workloads ---------------------------------------------------------------------------------


def drawn(workload: Workload) -> tuple[Schema, list[Event], list[Subscription]]:
    table = workload.subscriptions()
    rows = zip(*(table[name].to_pylist() for name in ("id", "subscriber", "filter")), strict=True)
    return Schema.from_toml(workload.schema_toml), workload.events().to_pylist(), list(rows)


def random_table(seed: int, size: int) -> list[Event]:
    """Events with values from the pools of what breaks things; ids are distinct."""
    dice = random.Random(seed)
    events = []
    for number in range(size):
        event: Event = {}
        for attribute in EVERY_TYPE.attributes:
            pool = pools.pool(attribute.type)
            event[attribute.name] = None if dice.random() < 0.2 else dice.choice(pool)
        event["name"] = dice.choice(("plain", 'quo"ted', "new\nline", "日本", "pi|pe", "com,ma"))
        event["n"] = number
        events.append(event)
    return events


def random_subscriptions(seed: int, events: Sequence[Event], size: int) -> list[Subscription]:
    table = pa.Table.from_pylist(list(events), schema=EVERY_TYPE.arrow)
    filters = SeededFilters(EVERY_TYPE, table, seed)
    texts = [filters.filter().text for _ in range(size)]
    texts += ["flag", "NOT flag", "m > 1.00", "at < TIMESTAMP'2000-01-01 00:00:00'", "x = 0"]
    texts += ["TRUE", "`order.total` IS NULL", "order.place LIKE 'a%'", "k = 1"]
    return [(f"s{at} \"é,\n'{at}", f"user {at % 7}\\😀", text) for at, text in enumerate(texts)]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("workload", [stocks(3, 400, 120), mixed(3, 150, 80)], ids=lambda w: w.name)
def test_every_plan_is_the_definition(
    plan: str, workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SPLIT_BYTES_MIN", 1)  # several splits of a small file
    schema, events, subscriptions = drawn(workload)
    source = write_parquet(tmp_path / "events.parquet", events, schema)
    summary = run_and_check(tmp_path, schema, events, subscriptions, source, plan=plan)
    assert summary["splits"] > 1
    assert summary["counts"]["notifications"] > 0


@pytest.mark.parametrize("plan", PLANS)
def test_random_tables_of_every_type(plan: str, tmp_path: Path) -> None:
    events = random_table(1, 60)
    subscriptions = random_subscriptions(1, events, 60)
    source = write_parquet(tmp_path / "events.parquet", events, EVERY_TYPE)
    include = [name for name in EVERY_TYPE.names if name not in ("name", "n")]
    run_and_check(tmp_path, EVERY_TYPE, events, subscriptions, source, plan=plan, include=include)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("per", ["subscription", "subscriber"])
@pytest.mark.parametrize("shape", ["pairs", "lists", "compact"])
def test_every_shape_in_every_format(shape: str, per: str, ending: str, tmp_path: Path) -> None:
    events = random_table(2, 30)
    for event in events:
        # CSV as Python reads it cannot tell "" from NULL; test_notify looks at the bytes.
        event["order.place"] = event["order.place"] or None
    subscriptions = random_subscriptions(2, events, 25)
    source = write_parquet(tmp_path / "events.parquet", events, EVERY_TYPE)
    run_and_check(
        tmp_path,
        EVERY_TYPE,
        events,
        subscriptions,
        source,
        shape=shape,
        per=per,
        ending=ending,
        include=("x", "m", "flag", "day", "at", "order.place", "k"),
    )


@pytest.mark.parametrize("plan", ["indexed", "naive"])
@pytest.mark.parametrize("shape", ["lists", "compact"])
def test_plans_on_frames_in_other_shapes(plan: str, shape: str, tmp_path: Path) -> None:
    events = random_table(3, 20)
    subscriptions = random_subscriptions(3, events, 10)
    source = write_parquet(tmp_path / "events.parquet", events, EVERY_TYPE)
    run_and_check(
        tmp_path,
        EVERY_TYPE,
        events,
        subscriptions,
        source,
        plan=plan,
        shape=shape,
        per="subscriber",
        include=("link",),
    )


# -- inputs ------------------------------------------------------------------------------------


def _in_one_file(ending: str, *, nested: bool = False) -> Callable[[Path, list[Event]], Path]:
    def write(folder: Path, events: list[Event]) -> Path:
        path = folder / f"events.{ending}"
        if "csv" in ending:
            return write_csv(path, events, EVERY_TYPE)
        if "json" in ending:
            return write_jsonl(path, events, nested=nested)
        return write_parquet(path, events, EVERY_TYPE)

    return write


def _nested_parquet(folder: Path, events: list[Event]) -> Path:
    flat = pa.Table.from_pylist(events, schema=EVERY_TYPE.arrow)
    parts = [flat[f"order.{name}"].combine_chunks() for name in ("total", "place")]
    inside = pa.StructArray.from_arrays(parts, ["total", "place"])
    table = flat.drop_columns(["order.total", "order.place"]).append_column("order", inside)
    pq.write_table(table, folder / "events.parquet")
    return folder / "events.parquet"


def _folder(folder: Path, events: list[Event]) -> Path:
    inside = folder / "events" / "more"
    inside.mkdir(parents=True)
    write_csv(inside / "a.csv", events[:10], EVERY_TYPE)
    write_jsonl(inside.parent / "b.jsonl.gz", events[10:20])
    write_parquet(inside.parent / "c.parquet", events[20:], EVERY_TYPE)
    (inside.parent / "_SUCCESS").write_text("")
    (inside.parent / ".hidden.csv").write_text("nonsense")
    return inside.parent


INPUTS = {
    "csv": _in_one_file("csv"),
    "csv.gz": _in_one_file("csv.gz"),
    "jsonl": _in_one_file("jsonl"),
    "jsonl.gz": _in_one_file("jsonl.gz"),
    "nested json": _in_one_file("json", nested=True),
    "nested parquet": _nested_parquet,
    "folder": _folder,
}


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_gives_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SPLIT_BYTES_MIN", 1)
    events = random_table(4, 40)
    if "csv" in kind or kind == "folder":
        for event in events:  # a URL, a path, a text: blank cells of other types are NULL
            event["flag"] = bool(event["flag"])
    subscriptions = random_subscriptions(4, events, 30)
    source = INPUTS[kind](tmp_path, events)
    summary = run_and_check(
        tmp_path, EVERY_TYPE, events, subscriptions, source, include=EVERY_TYPE.names
    )
    if kind in ("csv", "jsonl", "nested json"):
        assert summary["splits"] > 1


def test_nested_events_through_frames(tmp_path: Path) -> None:
    events = random_table(5, 20)
    subscriptions = random_subscriptions(5, events, 10)
    source = write_jsonl(tmp_path / "events.jsonl", events, nested=True)
    for plan in ("indexed", "naive"):
        run_and_check(tmp_path, EVERY_TYPE, events, subscriptions, source, plan=plan)


# -- repeated ids ------------------------------------------------------------------------------

SMALL = Schema.from_toml('name = "small"\nid = "id"\n[attributes]\nid = "string"\nx = "int"\n')
ANY: list[Subscription] = [("any", "u", "TRUE"), ("one", "u", "x = 1"), ("two", "v", "x = 2")]


@pytest.mark.parametrize("plan", PLANS)
def test_a_repeated_event_id_notifies_once(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SPLIT_BYTES_MIN", 1)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("id,x\na,1\nb,2\na,2\nbad,zero\nc,1\n")
    (folder / "2.jsonl").write_text(
        '{"id": "b", "x": 1}\n{"id": "d", "x": 1}\n\n{"id": "a", "x": 9}\n{"id": "e"}\n'
    )
    pq.write_table(pa.table({"id": ["c", "f", "f"], "x": [2, 3, 3]}), folder / "3.parquet")
    kept = [("a", 1), ("b", 2), ("c", 1), ("d", 1), ("e", None), ("f", 3)]
    events = [{"id": name, "x": x} for name, x in kept]
    summary = run_and_check(tmp_path, SMALL, events, ANY, folder, plan=plan)
    counts = summary["counts"]
    assert (counts["events_rejected"], counts["events_repeated"]) == (6, 5)
    assert counts["events"] + counts["events_rejected"] == 12  # rows in the input
    output = tmp_path / f"out-{plan}-pairs-subscription-parquet"
    rejects = [
        (Path(one.file).name, one.line, one.reason.split(":")[0], one.raw)
        for one in read_rejects(output / "rejected_events")
    ]
    again = "the event id was seen before"
    assert rejects == [
        ("1.csv", 4, again, "a,2"),
        ("1.csv", 5, "x", "bad,zero"),
        ("2.jsonl", 1, again, '{"id": "b", "x": 1}'),
        ("2.jsonl", 4, again, '{"id": "a", "x": 9}'),
        ("3.parquet", 1, again, '{"id": "c", "x": 2}'),
        ("3.parquet", 3, again, '{"id": "f", "x": 3}'),
    ]


@pytest.mark.parametrize("plan", PLANS)
def test_duplicates_are_kept_when_asked(plan: str, tmp_path: Path) -> None:
    source = tmp_path / "events.csv"
    source.write_text("id,x\na,1\na,1\na,2\n")
    events = [{"id": "a", "x": 1}, {"id": "a", "x": 1}, {"id": "a", "x": 2}]
    summary = run_and_check(tmp_path, SMALL, events, ANY, source, plan=plan, keep_duplicates=True)
    assert summary["counts"]["notifications"] == 6
    assert summary["counts"]["events_rejected"] == 0


@pytest.mark.parametrize("plan", ["direct", "indexed"])
def test_a_file_delivered_twice_leaves_nothing_behind(plan: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("1.csv", "2.csv"):
        (folder / name).write_text("id,x\na,1\nb,2\n")
    events = [{"id": "a", "x": 1}, {"id": "b", "x": 2}]
    run_and_check(tmp_path, SMALL, events, ANY, folder, plan=plan, shape="compact")
    lookup = pq.read_table(tmp_path / f"out-{plan}-compact-subscription-parquet" / "events")
    assert sorted(lookup["event_id"].to_pylist()) == ["a", "b"]


# -- nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
def test_nothing_at_all_still_has_columns(plan: str, tmp_path: Path) -> None:
    source = tmp_path / "events.csv"
    source.write_text("id,x\n")
    run_and_check(tmp_path, SMALL, [], ANY, source, plan=plan, shape="compact")
    output = tmp_path / f"out-{plan}-compact-subscription-parquet"
    assert pq.read_table(output / "notifications").column_names == ["event", "subscription"]
    assert pq.read_table(output / "events").column_names == ["event", "event_id"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_zero_matches(plan: str, ending: str, tmp_path: Path) -> None:
    source = tmp_path / "events.csv"
    source.write_text("id,x\na,1\n")
    nobody: list[Subscription] = [("s", "u", "x = 7")]
    events = [{"id": "a", "x": 1}]
    summary = run_and_check(tmp_path, SMALL, events, nobody, source, plan=plan, ending=ending)
    assert summary["counts"]["notifications"] == 0


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["csv", "parquet", "parquet without row groups"])
def test_zero_events(plan: str, kind: str, tmp_path: Path) -> None:
    if kind == "csv":
        source = tmp_path / "events.csv"
        source.write_text("id,x\n")
    else:
        source = tmp_path / "events.parquet"
        with pq.ParquetWriter(source, SMALL.arrow) as writer:
            if kind == "parquet":
                writer.write_table(SMALL.arrow.empty_table())
    summary = run_and_check(tmp_path, SMALL, [], ANY, source, plan=plan)
    assert summary["counts"]["events"] == 0
    folder = tmp_path / f"out-{plan}-pairs-subscription-parquet" / "notifications"
    table = pq.read_table(folder)
    assert table.column_names == ["event_id", "subscription_id", "subscriber"]


# -- the summary -------------------------------------------------------------------------------


def test_the_summary_is_complete(tmp_path: Path) -> None:
    source = tmp_path / "events.csv"
    source.write_text("id,x,odd\na,1,\nb,two,\nc,3\n,4,\n")
    subscriptions = [*ANY, ("wrong", "u", "y = 1"), ("", "u", "TRUE")]
    request = MatchRequest(
        schema=SMALL,
        subscriptions=write_subscriptions(tmp_path, subscriptions),
        events=source,
        output=tmp_path / "out",
    )
    summary = run_match(request)
    assert summary["counts"] == {
        "subscriptions": 3,
        "subscriptions_rejected": 2,
        "events": 1,
        "events_rejected": 3,
        "events_repeated": 0,
        "events_outside": 0,
        "events_matched": 1,
        "notifications": 2,
    }
    assert summary["subscription_version"] == 1
    assert set(summary["hashes"]) == {"schema", "subscriptions", "events"}
    assert all(isinstance(value, str) for value in summary["hashes"].values())
    assert summary["plan"] == "direct"  # what auto chose
    assert "odd" in summary["warnings"][0]
    parts = {name: value for name, value in summary["seconds"].items() if name != "total"}
    assert set(parts) == {name for name, _ in job.STAGES}
    # The total has what lies between the stages too; each is rounded.
    assert summary["seconds"]["total"] >= sum(parts.values()) - 0.001 * len(parts)


def test_equal_input_gives_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SPLIT_BYTES_MIN", 1)
    schema, events, subscriptions = drawn(stocks(5, 300, 100))
    source = write_parquet(tmp_path / "events.parquet", events, schema)
    written = []
    for name in ("one", "two"):
        request = MatchRequest(
            schema=schema,
            subscriptions=write_subscriptions(tmp_path, subscriptions),
            events=source,
            output=tmp_path / name,
            plan="direct",
        )
        run_match(request)
        written.append(content(tmp_path / name))
    assert written[0] == written[1]


def content(output: Path) -> Mapping[str, bytes]:
    """Every file but the summary, which has times in it."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file() and path.name != "summary.json"
    }


def test_types_survive_in_parquet(tmp_path: Path) -> None:
    """Included attributes have the schema's types, not text."""
    events = random_table(6, 5)
    source = write_parquet(tmp_path / "events.parquet", events, EVERY_TYPE)
    include = [a.name for a in EVERY_TYPE.attributes if a.type.kind is not Kind.URL]
    run_and_check(tmp_path, EVERY_TYPE, events, [("s", "u", "TRUE")], source, include=include)
    part = tmp_path / "out-direct-pairs-subscription-parquet" / "notifications"
    found = pq.read_table(part).to_pylist()[0]
    kinds = {"m": Decimal, "day": date, "at": datetime, "x": float, "flag": bool, "k": int}
    for name, kind in kinds.items():
        assert found[name] is None or isinstance(found[name], kind)
