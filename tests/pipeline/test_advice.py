"""The advice: what it counts is so, what it recommends follows, and the expensive are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossroads.lab.workloads import stocks, write_workload
from crossroads.mapping.fit import MAPPINGS, fit
from crossroads.model.schema import Schema
from crossroads.pipeline.advice import PROFILE_CELLS, Advice, Spread, advise, flags_of, profile
from crossroads.pipeline.estimate import Counts, Estimate
from crossroads.pipeline.expensive import ALIKE_MAX, SHOWN_MAX, Reason
from crossroads.pipeline.keyedsample import KeyedSample
from crossroads.pipeline.survey import survey

GIB = 1 << 30
SHOP = Schema.from_toml(
    """
name = "shop"
id = "id"
[attributes]
id = { type = "bigint" }
title = { type = "string" }
brand = { type = "string" }
price = { type = "double", min = 0, max = 100 }
cost = { type = "double", min = 0, max = 100 }
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stocks")
    write_workload(stocks(2, 3_000, 2_000), folder, format="parquet", overwrite=True)
    return folder


def advice_on(folder: Path, *, memory: int = 8 * GIB, local: bool = True) -> Advice:
    schema = Schema.from_toml((folder / "schema.toml").read_text())
    return advise(
        schema,
        folder / "subscriptions.parquet",
        folder / "events.parquet",
        cores=2,
        memory=memory,
        local=local,
    )


@pytest.fixture(scope="module")
def advice(folder: Path) -> Advice:
    return advice_on(folder)


def advice_of_shop(folder: Path, filters: list[str], events: int = 200) -> Advice:
    rows = "".join(f's{at},u,"{text}"\n' for at, text in enumerate(filters))
    (folder / "s.csv").write_text("id,subscriber,filter\n" + rows)
    lines = "".join(f"{n},green {n},b{n % 50},{n % 100},{n % 7}\n" for n in range(events))
    (folder / "e.csv").write_text("id,title,brand,price,cost\n" + lines)
    return advise(SHOP, folder / "s.csv", folder / "e.csv", cores=2, memory=GIB)


# -- what it recommends ----------------------------------------------------------------------------


def test_on_one_machine_it_recommends_direct_and_says_why(advice: Advice) -> None:
    assert advice.flags == "--plan direct"
    said = advice.recommendation
    assert said.startswith("Use direct: about ")
    assert "for 2,000 subscriptions and 3,000 events, because its index of " in said
    assert " fits the 8.0 GiB that one host can spare and nothing has to be shuffled" in said
    assert "; the next best plan, indexed, would take " in said
    assert said.count(". ") == 0, "one sentence"
    assert said.endswith("times as long).")


def test_it_says_when_one_host_is_outgrown(folder: Path, advice: Advice) -> None:
    assert advice.growth is not None
    assert advice.growth.subscriptions > 1_000_000
    assert advice.growth.flags.startswith(f"--plan keyed --mapping {advice.growth.mapping} --cells")
    too_many = advice_on(folder, memory=100_000)
    assert too_many.growth is None, "it is outgrown already"
    assert too_many.best.plan == "keyed"
    assert too_many.flags == (
        f"--plan keyed --mapping {too_many.best.mapping} --cells {too_many.best.cells}"
    )
    assert "would not fit the 97.7 KiB that one host can spare" in too_many.recommendation
    assert "a subscription then stands in " in too_many.recommendation


def test_without_shared_paths_it_recommends_indexed(folder: Path) -> None:
    found = advice_on(folder, local=False)
    assert found.flags == "--plan indexed"
    assert "not every worker sees the paths" in found.recommendation


def test_flags_are_those_of_the_plan() -> None:
    one = Estimate("sql", "zones", 64, Counts(1.0), 0.0, 0.0, 1.0)
    assert flags_of(one) == "--plan sql --mapping zones --cells 64"
    assert flags_of(replace(one, plan="naive", mapping=None, cells=None)) == "--plan naive"


# -- profiles --------------------------------------------------------------------------------------


def test_profiles_are_those_of_the_sample(folder: Path, advice: Advice) -> None:
    schema = Schema.from_toml((folder / "schema.toml").read_text())
    seen = survey(schema, folder / "subscriptions.parquet", folder / "events.parquet")
    assert [one.mapping for one in advice.profiles] == list(MAPPINGS)
    for one in advice.profiles:
        keyed = KeyedSample.of(fit(one.mapping, schema, seen.sample), seen.sample)
        assert profile(keyed) == one
        assert one.cells == min(PROFILE_CELLS, 1 << keyed.mapping.spec.bits)
        assert sum(one.load) == pytest.approx(1.0)
        assert list(one.load) == sorted(one.load, reverse=True)
        assert len(one.load) <= one.cells
        root = keyed.ranges.root
        assert one.at_root == root.mean()
        placed = keyed.in_cells(keyed.cells(PROFILE_CELLS)).per_subscription[~root]
        assert one.per_subscription.mean == pytest.approx(placed[placed > 0].mean())
        assert one.per_event.max >= one.per_event.p95 >= one.per_event.median


def test_a_spread_is_mean_median_p95_and_max() -> None:
    assert Spread.of(np.arange(101)) == Spread(50.0, 50.0, 95.0, 100.0)
    assert Spread.of(np.empty(0, np.int64)) == Spread(0.0, 0.0, 0.0, 0.0)


# -- who is expensive ------------------------------------------------------------------------------


def test_each_kind_of_expensive_subscription_is_found(tmp_path: Path) -> None:
    good = [f"brand = 'b{n}'" for n in range(50)] * 4
    odd = {
        "price > cost": Reason.SLOW,
        "contains(title, 'green 17')": Reason.TEXT,
        "price >= 0": Reason.BROAD,
    }
    found = advice_of_shop(tmp_path, [*good, *odd])
    named = {one.filter: one for one in found.expenses.most}
    for text, reason in odd.items():
        assert reason in {why.reason for why in named[text].why}, text
    assert named["price >= 0"].told == 1.0
    assert not set(good) & set(named)
    by_reason = {why.reason: why for one in found.expenses.most for why in one.why}
    assert by_reason[Reason.SLOW].text == "price > cost: compares attributes with each other"
    assert by_reason[Reason.SLOW].help.startswith("add AND with a constant")
    assert "matches 100% of the sampled events" in by_reason[Reason.BROAD].text
    assert "what title contains" in by_reason[Reason.TEXT].text
    assert found.expenses.counts[Reason.SLOW.value] == 1
    assert found.expenses.counts[Reason.BROAD.value] >= 1


def test_what_no_key_finds_is_named_with_the_attributes_that_would_help(tmp_path: Path) -> None:
    found = advice_of_shop(tmp_path, [*(f"brand = 'b{n}'" for n in range(50)), "title <> 'x'"] * 4)
    (one,) = found.expenses.most
    assert one.filter == "title <> 'x'"
    assert one.same == 4
    roots = [why for why in one.why if why.reason in (Reason.ROOT, Reason.CELLS)]
    assert roots
    assert found.expenses.mapping is not None
    assert found.expenses.mapping in roots[0].text
    assert "brand" in roots[0].help


def test_the_list_is_short_and_varied(tmp_path: Path) -> None:
    slow = [f"price > cost + {n}" for n in range(40)]
    broad = [f"price >= {n}" for n in range(40)]
    found = advice_of_shop(tmp_path, [*slow, *broad, *broad])
    kinds = [tuple(why.reason for why in one.why) for one in found.expenses.most]
    assert len(kinds) <= SHOWN_MAX
    assert max(map(kinds.count, kinds)) <= ALIKE_MAX
    texts = [one.filter for one in found.expenses.most]
    assert len(set(texts)) == len(texts)
    assert found.expenses.counts[Reason.SLOW.value] == 40


def test_a_good_set_has_none(tmp_path: Path) -> None:
    found = advice_of_shop(tmp_path, [f"brand = 'b{n}'" for n in range(50)] * 4)
    assert found.expenses.most == ()
    assert found.expenses.counts == {}


def test_texts_are_short_and_printable(tmp_path: Path) -> None:
    long = "price > cost AND (" + " OR ".join(f"title <> 't{n}\t'" for n in range(60)) + ")"
    found = advice_of_shop(tmp_path, [long])
    (one,) = found.expenses.most
    assert len(one.filter) == 120
    assert one.filter.endswith("…")
    assert one.filter.isprintable()


# -- for programs ----------------------------------------------------------------------------------


def test_json_is_strict(advice: Advice) -> None:
    refused = replace(advice.estimates[-1], seconds=float("inf"), refused="why")
    report = replace(advice, estimates=(*advice.estimates, refused)).to_json()
    read = json.loads(json.dumps(report, allow_nan=False))
    assert read["estimates"][-1]["seconds"] is None
    assert read["flags"] == "--plan direct"
    assert read["situation"]["subscriptions"]["count"] == 2_000
    assert {one["mapping"] for one in read["profiles"]} == set(MAPPINGS)
