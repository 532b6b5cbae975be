"""The logic of `check`, `explain`, `try`: judged by column is what is judged one by one."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import EventError, SubscriptionError
from crossroads.matching.definition import matches, truth
from crossroads.model.instantiate import instantiate, split_likes
from crossroads.model.normal import always_matches, never_matches
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, ShapeGroup, read_filters
from crossroads.pipeline.domains import Doubt, doubtful_constants, doubtful_rows
from crossroads.pipeline.dryrun import dry_run
from crossroads.pipeline.lookup import event_at, find_event, find_subscription, near
from crossroads.pipeline.remarks import (
    Oddity,
    columnar_alternatives,
    empty_rows,
    examine,
    remarks_on,
)
from crossroads.pipeline.review import review
from crossroads.pipeline.subscriptions import load_subscriptions
from crossroads.testing import strategies

SHOP = Schema.from_toml(
    """
    id = "id"
    [attributes]
    id = { type = "bigint", min = 1 }
    title = { type = "string", min = "b", max = "y" }
    status = { type = "string", values = ["active", "sold", "withdrawn"] }
    price = { type = "double", min = 0.5, max = 500 }
    stars = { type = "int", values = [1, 2, 3] }
    weight = { type = "decimal(8,3)", min = "0.125", max = "99.5" }
    stock = { type = "int", min = -5, max = 100 }
    listed = { type = "date", min = "2020-01-01", max = "2024-12-31" }
    """
)


def numbers(*places: int) -> st.SearchStrategy[str]:
    return st.builds(
        lambda whole, scale: f"{whole / 10**scale:.{scale}f}" if scale else str(whole),
        st.integers(-60_000, 60_000),
        st.sampled_from(places),
    )


dates = st.integers(-400, 2200).map(lambda n: f"'{date(2020, 1, 1) + timedelta(days=n)}'")
texts = st.sampled_from(["'a'", "'active'", "'actve'", "'sold'", "'b'", "'y'", "'yz'", "'m'"])
LITERALS = {
    "id": numbers(0),
    "price": numbers(0, 1, 2, 3),
    "weight": numbers(0, 2, 3, 4),
    "stars": st.one_of(numbers(0), st.sampled_from(["1", "2", "2.0", "2.5", "3"])),
    "stock": st.one_of(numbers(0, 1), st.integers(-7, 103).map(str)),
    "title": texts,
    "status": texts,
    "listed": dates,
}


@st.composite
def same_shape(draw: st.DrawFn) -> list[str]:
    """Several filters that differ in their constants only."""
    forms = []
    for name in draw(st.lists(st.sampled_from(sorted(LITERALS)), min_size=1, max_size=3)):
        form = draw(
            st.sampled_from(
                [
                    *("{n} > {0}", "{n} <= {0}", "{n} = {0}", "{n} <> {0}", "{n} IN ({0}, {1})"),
                    *("{n} BETWEEN {0} AND {1}", "NOT {n} < {0}", "{n} <=> {0}", "{0} > {n}"),
                    *("({n} IS NULL AND {n} = {0})", "({n} IS NULL OR {n} >= {0})"),
                ]
            )
        )
        forms.append((form, name))
    joint = draw(st.sampled_from((" AND ", " OR ")))
    return [
        joint.join(
            form.format(draw(LITERALS[name]), draw(LITERALS[name]), n=name) for form, name in forms
        )
        for _ in range(draw(st.integers(4, 8)))
    ]


def groups_of(lines: list[str], schema: Schema = SHOP) -> list[ShapeGroup]:
    return list(read_filters(pa.array(lines, pa.string()), schema).groups)


@given(same_shape())
def test_constants_are_doubted_by_column_as_one_by_one(lines: list[str]) -> None:
    for group in groups_of(lines):
        by_column = {doubt: set(rows.tolist()) for doubt, rows in doubtful_rows(group, SHOP)}
        one_by_one: dict[Doubt, set[int]] = {}
        for at in range(group.rows.size):
            for doubt, _ in doubtful_constants(instantiate(group, at), SHOP):
                one_by_one.setdefault(doubt, set()).add(at)
        assert by_column == one_by_one


@given(same_shape())
def test_emptiness_by_column_is_that_of_the_normal_form(lines: list[str]) -> None:
    for group in groups_of(lines):
        found = columnar_alternatives(group)
        if found is None:
            continue
        never = np.logical_and.reduce([empty_rows(one, group.rows.size) for one in found])
        expected = [never_matches(instantiate(group, at)) for at in range(group.rows.size)]
        assert np.broadcast_to(never, group.rows.size).tolist() == expected


@given(st.data())
def test_what_can_never_match_matches_nothing(data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas())
    text = data.draw(strategies.filters(schema))
    event = data.draw(strategies.events(schema))
    table = read_filters(pa.array([text] * 4, pa.string()), schema)
    parsed = parse(text, schema)
    kinds = {remark.kind for remark in remarks_on(table).found}
    if Oddity.NEVER in kinds:
        assert not matches(parsed, event)
    if Oddity.ALWAYS in kinds:
        assert truth(parsed, event) is True
    for group in table.groups:
        for part in split_likes(group):
            found = columnar_alternatives(part)
            if found is not None and all(empty_rows(one, 4).all() for one in found):
                assert never_matches(instantiate(part, 0))


@given(same_shape())
def test_all_and_nothing_are_those_of_the_normal_form(lines: list[str]) -> None:
    table = read_filters(pa.array(lines, pa.string()), SHOP)
    found = remarks_on(table)
    assert found.examined == found.one_by_one
    for kind, judge in ((Oddity.NEVER, never_matches), (Oddity.ALWAYS, always_matches)):
        rows = [row for one in found.found if one.kind is kind for row in one.rows.tolist()]
        expected = [row for row, text in enumerate(lines) if judge(parse(text, SHOP))]
        assert sorted(rows) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("price > stock", "compares attributes with each other"),
        ("price * 2 > 10", "calculates for each event"),
        ("NOT contains(title, 'x')", "what a text does not contain cannot be looked up"),
        ("title LIKE '__%_'", "a pattern without any plain text cannot be looked up"),
        ("stock = 4 OR price > stock", "compares attributes with each other"),
    ],
)
def test_slow_filters_and_why(text: str, said: str) -> None:
    (found,) = examine(parse(text, SHOP), FilterTable(SHOP, 0))
    assert found[0] is Oddity.SLOW
    assert said in found[1]
    # and the same when many of them have one shape
    table = read_filters(pa.array([text] * 5), SHOP)
    slow = [one for one in remarks_on(table).found if one.kind is Oddity.SLOW]
    assert sorted(row for one in slow for row in one.rows.tolist()) == [0, 1, 2, 3, 4]
    assert all(said in one.describe(0) for one in slow)


@pytest.mark.parametrize(
    "text",
    [
        "price > stock AND status = 'sold'",
        "contains(title, 'x')",
        "title RLIKE 'x+'",
        "title LIKE 'x%y_z'",
        "NOT title LIKE 'x%'",
        "stock NOT IN (1, 2, 3)",
        "price IS NULL",
    ],
)
def test_fast_filters_are_not_called_slow(text: str) -> None:
    assert not list(examine(parse(text, SHOP), FilterTable(SHOP, 0)))
    assert not remarks_on(read_filters(pa.array([text] * 5), SHOP)).found


def test_constants_alone_are_decided_at_once() -> None:
    table = FilterTable(SHOP, 0)
    assert [kind for kind, _ in examine(parse("1 = 1", SHOP), table)] == [Oddity.ALWAYS]
    assert [kind for kind, _ in examine(parse("1 > 2 OR NULL", SHOP), table)] == [Oddity.NEVER]


def test_too_many_to_look_at_each_are_sampled_evenly() -> None:
    filters = [f"price + {n} > stock" if n % 2 else f"price > stock + {n}" for n in range(300)]
    found = remarks_on(read_filters(pa.array(filters), SHOP), examined_max=50)
    assert found.one_by_one == 300
    assert 40 <= found.examined <= 50
    (slow,) = found.found
    assert slow.rows.min() == 0 and slow.rows.max() > 250


def test_check_rejects_what_match_rejects(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "id,subscriber,filter\n1,u,price > 1\n1,u,price > 2\n2,,price > 1\n,u,price > 1\n"
        "3,u,\n4,u,prise > 1\n5,u\n6,u,price > 6\n"
    )
    (tmp_path / "b.jsonl").write_text('{"id": 6, "subscriber": "u", "filter": "TRUE"}\nbroken\n')
    found = review(tmp_path, SHOP)
    loaded = load_subscriptions(tmp_path, SHOP)
    assert {(p.file, p.line) for p in found.problems if p.rejected} == {
        (reject.file, reject.line) for reject in loaded.rejects
    }
    assert found.good == loaded.usable == 0
    assert found.subscriptions == found.rejected == len(loaded.rejects) == 10
    other = next(p for p in found.problems if p.id == "6" and p.file.endswith("a.csv"))
    assert "b.jsonl line 1" in other.message


# -- one event, one subscription -----------------------------------------------------------------


def events(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.csv").write_text("id,price\n1,1.5\nx,2\n3,2.5\n")
    (folder / "b.jsonl").write_text('{"id": 4, "price": 4}\n\n{"id": null}\n{"id": 6}\n')
    return folder


def test_an_event_by_its_row(tmp_path: Path) -> None:
    path = events(tmp_path / "e")
    assert [event_at(path, SHOP, row).id for row in (1, 3, 4, 6)] == ["1", "3", "4", "6"]
    assert event_at(path, SHOP, 3).line == 4
    assert event_at(path, SHOP, 3).values["price"] == 2.5
    with pytest.raises(EventError, match=r"row 2 of .* \(line 3\) is rejected: id: 'x'"):
        event_at(path, SHOP, 2)
    with pytest.raises(EventError, match=r"row 5 of .* \(line 3\) is rejected: id attribute 'id'"):
        event_at(path, SHOP, 5)
    with pytest.raises(EventError, match=r"has no row 7 \(it has 6\)"):
        event_at(path, SHOP, 7)


def test_an_event_by_its_id(tmp_path: Path) -> None:
    path = events(tmp_path / "e")
    assert find_event(path, SHOP, "4").line == 1
    with pytest.raises(EventError, match="2 rows were rejected, it may be one of them"):
        find_event(path, SHOP, "x")


def test_a_subscription_by_its_id(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("id,subscriber,filter\ns1,u1,price > 1\ns2,u1,\ns3,u1,TRUE\ns3,u1,TRUE\n")
    assert find_subscription(file, "s1").filter == "price > 1"
    with pytest.raises(SubscriptionError, match="the filter of 's2' is empty"):
        find_subscription(file, "s2")
    with pytest.raises(SubscriptionError, match=r"2 rows of .* \(lines 4, 5\)"):
        find_subscription(file, "s3")
    with pytest.raises(SubscriptionError, match="did you mean 's1'"):
        find_subscription(file, "ss1")


def test_near_names_some_when_nothing_is_near() -> None:
    assert near("abcdef", iter(["x", "y", "z", "w"])) == "there are: x, y, z, …"
    assert near("abcdef", []) == "there are none"


# -- dry runs ------------------------------------------------------------------------------------


@given(data=st.data())
def test_a_dry_run_counts_what_the_definition_counts(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = ["id,title,price,stock"]
    known = []
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        price, stock = (data.draw(st.sampled_from(["", "1", "2", "3"])) for _ in range(2))
        title = data.draw(st.sampled_from(["", "red", "green"]))
        lines.append(f"{number},{title},{price},{stock}")
        known.append(
            {
                "id": number,
                "title": title or None,
                "price": float(price) if price else None,
                "stock": int(stock) if stock else None,
            }
        )
    parts = data.draw(
        st.lists(
            st.sampled_from(
                ["price > 1", "stock = 2", "NOT title LIKE 'r%'", "price > stock", "stock IS NULL"]
            ),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    file = tmp_path_factory.mktemp("dry") / "e.csv"
    file.write_text("\n".join(lines) + "\n")

    def count(text: str) -> int:
        return sum(matches(parse(text, SHOP), event) for event in known)

    whole = " AND ".join(parts)
    found = dry_run(parse(whole, SHOP), SHOP, file, examples=2)
    assert (found.events, found.rejected) == (len(known), 0)
    assert found.matched == count(whole)
    assert len(found.examples) == min(2, found.matched)
    assert [each.alone for each in found.predicates] == [count(part) for part in parts]
    if len(parts) > 1:
        rest = [" AND ".join(part for part in parts if part != one) for one in parts]
        assert [each.without for each in found.predicates] == [count(text) for text in rest]
