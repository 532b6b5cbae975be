"""The counts are those of the sample, exactly; the order of the plans is the sensible one."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf

import pyarrow as pa
import pytest

from crossroads.lab.workloads import Workload, mixed, stocks, uniform
from crossroads.mapping.cells import WIDE_SHARE, Cells
from crossroads.mapping.contract import Mapping
from crossroads.mapping.fit import MAPPINGS
from crossroads.mapping.sample import Sample
from crossroads.matching.definition import matches
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline import situation
from crossroads.pipeline.estimate import (
    MAPPED,
    UNMAPPED,
    Estimate,
    Side,
    Situation,
    Surveyed,
    counted,
    estimate_of,
    estimates,
    sql_estimate,
)

WORKLOADS = {"stocks": stocks, "uniform": uniform, "mixed": mixed}
MILLION = 1_000_000


def surveyed_of(workload: Workload, *, times: int = 1, memory: int = 8 << 30) -> Surveyed:
    """A sample that stands for `times` as many on both sides."""
    schema = Schema.from_toml(workload.schema_toml)
    sample = Sample(read_filters(workload.subscriptions()["filter"], schema), workload.events())
    asked, published = workload.subscription_count * times, workload.event_count * times
    here = Situation(Side(asked, asked * 80), Side(published, published * 60), 2, memory, True)
    return Surveyed(here, sample)


# -- counts ----------------------------------------------------------------------------------------


def cells_of_subscriptions(
    mapping: Mapping, texts: list[str], cells: Cells, plan: str
) -> list[set[int] | None]:
    """By subscription, from its definition; None: it stands at the root."""
    found: list[set[int] | None] = []
    for text in texts:
        keys = mapping.subscription_keys(parse(text, mapping.schema))
        standing: set[int] = set()
        for one in keys.ranges:
            standing |= set(range(cells.cell_of(one.low), cells.cell_of(one.high - 1) + 1))
        wide = plan == "keyed" and len(standing) > max(1, WIDE_SHARE * cells.count)
        found.append(None if keys.root or wide else standing)
    return found


@pytest.mark.parametrize("plan", MAPPED)
@pytest.mark.parametrize("mapping_name", MAPPINGS)
@pytest.mark.parametrize("workload_name", WORKLOADS)
def test_counts_are_those_of_a_plain_recomputation(
    workload_name: str, mapping_name: str, plan: str
) -> None:
    workload = WORKLOADS[workload_name](7, 60, 80)
    surveyed = surveyed_of(workload, times=5)
    keyed = surveyed.keyed(mapping_name)
    assert not isinstance(keyed, str)
    mapping = keyed.mapping
    texts = workload.subscriptions()["filter"].to_pylist()
    events = [mapping.event_keys(event) for event in workload.events().to_pylist()]
    for count in {1, min(13, 1 << mapping.spec.bits), min(64, 1 << mapping.spec.bits)}:
        cells = keyed.cells(count) if plan == "sql" else keyed.balanced_cells(count)
        placed = cells_of_subscriptions(mapping, texts, cells, plan)
        root, standing = placed.count(None), [some or set() for some in placed]
        visiting = [{cells.cell_of(key) for key in keys} for keys in events]
        keys = [mapping.subscription_keys(parse(text, mapping.schema)) for text in texts]
        met = sum(len(some & cells_) for some in standing for cells_ in visiting)
        visits = sum(map(len, visiting)) / len(visiting)
        load = [
            sum(cell in some for some in standing) * sum(cell in some for some in visiting)
            for cell in range(cells.count)
        ]
        used = [one for one in load if one]
        candidates = met / len(events) * 5

        found = counted(surveyed, keyed, plan, cells)
        assert found.at_root == root / len(texts)
        assert found.cells_per_subscription == pytest.approx(sum(map(len, standing)) / len(texts))
        assert found.ranges_per_subscription == pytest.approx(
            sum(len(one.ranges) for one in keys) / len(texts)
        )
        assert found.candidates_per_event == pytest.approx(candidates)
        assert found.cells_per_event == pytest.approx(visits * (1 - exp(-candidates / visits)))
        assert found.skew == pytest.approx(max(used) * len(used) / sum(used) if used else 1.0)
        fullest = max(
            root, *(sum(cell in some for some in standing) for cell in range(cells.count))
        )
        assert found.fullest == pytest.approx(fullest * 5)


@pytest.mark.parametrize("workload_name", WORKLOADS)
def test_matches_are_those_of_the_definition(workload_name: str) -> None:
    workload = WORKLOADS[workload_name](3, 50, 60)
    surveyed = surveyed_of(workload, times=4)
    schema = surveyed.sample.filters.schema
    filters = [parse(text, schema) for text in workload.subscriptions()["filter"].to_pylist()]
    events = workload.events().to_pylist()
    told = sum(matches(filter_, event) for filter_ in filters for event in events)
    assert surveyed.matches_per_event == pytest.approx(told / len(events) * 4)


def test_dense_matches_are_measured_on_fewer_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(situation, "MATCHES_MAX", 100)
    schema = Schema.from_mapping({"id": "id", "attributes": {"id": "bigint"}})
    workload = uniform(1, 64, 1)
    events = workload.events().select(["id"])
    sample = Sample(read_filters(pa.array(["id > 0"] * 50), schema), events.cast(schema.arrow))
    here = Situation(Side(5_000, 1), Side(64, 1), 2, 1 << 30, True)
    surveyed = Surveyed(here, sample)
    assert surveyed.matches.offsets.size - 1 < 64
    assert surveyed.matches_per_event == pytest.approx(5_000)


# -- order -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["uniform", "stocks"])
def large(request: pytest.FixtureRequest) -> Surveyed:
    """W1 and W2, a million of each."""
    found = surveyed_of(WORKLOADS[request.param](3, 2_000, 2_000), times=500)
    assert found.situation.subscriptions.count == MILLION
    return found


def named(found: list[Estimate]) -> dict[str, Estimate]:
    return {one.name: one for one in found}


def test_every_plan_and_mapping_is_estimated_once(large: Surveyed) -> None:
    found = estimates(large)
    wanted = {*UNMAPPED, *(f"{plan}/{name}" for plan in MAPPED for name in MAPPINGS)}
    assert set(named(found)) == wanted
    assert len(found) == len(wanted)
    usable = [one.seconds for one in found if one.refused is None]
    assert usable == sorted(usable)
    assert all(one.refused is not None for one in found[len(usable) :])


def test_on_one_machine_direct_is_best_and_naive_worst(large: Surveyed) -> None:
    usable = [one for one in estimates(large) if one.refused is None]
    assert usable[0].plan == "direct"
    assert usable[-1].plan == "naive"
    assert usable[-1].seconds > 100 * usable[0].seconds


def test_where_paths_are_not_shared_indexed_is_best(large: Surveyed) -> None:
    apart = replace(large.situation, local=False)
    found = estimates(Surveyed(apart, large.sample, large.fitted, large.keys))
    assert found[0].plan == "indexed"
    assert named(found)["direct"].refused == "not every worker sees the paths"


def test_a_set_too_large_for_a_host_is_keyed(large: Surveyed) -> None:
    memory = int(large.index_bytes_in_all / 2)
    small = replace(large.situation, memory=memory)
    found = estimates(Surveyed(small, large.sample, large.fitted, large.keys))
    assert found[0].plan == "keyed"
    by_name = named(found)
    for plan in ("direct", "indexed"):
        refused = by_name[plan].refused
        assert refused is not None
        assert "does not fit the" in refused
    assert all(one.refused is not None for one in found if one.plan == "sql")


def test_what_stands_at_the_root_must_fit_a_host_too() -> None:
    """No key tells these apart, so no number of cells makes them smaller."""
    schema = Schema.from_mapping({"id": "id", "attributes": {"id": "bigint", "text": "string"}})
    texts = pa.array([f"contains(text, 'w{n}')" for n in range(200)])
    sample = Sample(read_filters(texts, schema), schema.arrow.empty_table())
    here = Situation(Side(MILLION, MILLION), Side(1_000, 1_000), 2, 1 << 20, True)
    usable = [one for one in estimates(Surveyed(here, sample)) if one.refused is None]
    assert [one.plan for one in usable] == ["naive"]


def test_a_mapping_that_cannot_be_fitted_is_refused_with_the_reason(large: Surveyed) -> None:
    fitted = {**large.fitted, "zones": "no axis to cut"}
    found = named(estimates(Surveyed(large.situation, large.sample, fitted), ["zones"]))
    for plan in MAPPED:
        one = found[f"{plan}/zones"]
        assert (one.refused, one.seconds, one.cells) == ("no axis to cut", inf, None)


@pytest.mark.parametrize("text", ["contains(title, 'steel')", "title RLIKE 'st[ea]+l'"])
@pytest.mark.parametrize("subscriptions", [1, 100])
def test_a_few_filters_on_text_need_no_nested_loop(text: str, subscriptions: int) -> None:
    """A text is searched for all words at once: with few of them that is quick."""
    workload = mixed(3, 500, 1)
    schema = Schema.from_toml(workload.schema_toml)
    sample = Sample(read_filters(pa.array([text] * subscriptions), schema), workload.events())
    here = Situation(Side(subscriptions, 1), Side(MILLION, 1), 2, 8 << 30, True)
    assert estimates(Surveyed(here, sample))[0].plan == "direct"


def test_more_cells_than_keys_are_as_many_as_there_are(large: Surveyed) -> None:
    for plan in MAPPED:
        one = estimate_of(large, plan, "zones", 1 << 20)
        mapping = large.mapping("zones")
        assert not isinstance(mapping, str)
        assert one.cells == 1 << mapping.spec.bits < 1 << 20
    assert sql_estimate(large, cells=1 << 10).refused is None


def test_crowded_values_are_cut_apart_before_keyed_is_refused() -> None:
    """All ranges lie in a thousandth of the domain: of even cells one would hold them all."""
    schema = Schema.from_mapping(
        {"id": "id", "attributes": {"id": "bigint", "x": {"type": "int", "min": 0, "max": 1 << 24}}}
    )
    texts = pa.array([f"x BETWEEN {8 * n} AND {8 * n + 8}" for n in range(2_000)])
    events = pa.table({"id": range(2_000), "x": range(0, 16_000, 8)}).cast(schema.arrow)
    sample = Sample(read_filters(texts, schema), events)
    every = Surveyed(Situation(Side(MILLION, 1), Side(MILLION, 1), 2, 1 << 40, True), sample)
    memory = int(every.index_bytes_in_all / 3)
    tight = Surveyed(replace(every.situation, memory=memory), sample)
    found = estimate_of(tight, "keyed", "key-space-split")
    assert found.refused is None
    assert found.counts.fullest < MILLION / 3
    assert found.counts.skew < 2


def test_more_cores_never_take_longer(large: Surveyed) -> None:
    more = replace(large.situation, cores=16)
    fast = named(estimates(Surveyed(more, large.sample, large.fitted, large.keys)))
    for name, one in named(estimates(large)).items():
        if one.refused is None and fast[name].refused is None:
            assert fast[name].seconds <= one.seconds, name
