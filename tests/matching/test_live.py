"""The live index equals a dict of filters and the definition, at every version and reader."""

from __future__ import annotations

import random
import threading

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crossroads.errors import FilterError
from crossroads.matching import live as live_module
from crossroads.matching.definition import matches
from crossroads.matching.live import LiveIndex
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.testing.strategies import event_table

SCHEMA = Schema.from_mapping(
    {"id": "n", "attributes": {"n": "bigint", "price": "double", "name": "string"}}
)
EVENTS = [
    {"n": n, "price": price, "name": name}
    for n, (price, name) in enumerate(
        (price, name) for price in (None, 1.0, 5.0, 20.0) for name in (None, "ab", "cab", "")
    )
]
TABLE = event_table(SCHEMA, EVENTS)
FILTERS = (
    *(f"price > {bound}" for bound in range(0, 25, 5)),
    *(f"price BETWEEN {low} AND {low + 4}" for low in range(5)),
    *("name = 'ab'", "contains(name, 'a')", "name RLIKE '^c'", "name IS NULL OR price < 2"),
    *("price > 1 OR name LIKE '%b'", "NOT (price <= 5)", "n * 2 > price", "TRUE", "FALSE"),
)
BAD = ("price >", "cost > 1", "name > 3")
IDS = [f"s{number}" for number in range(12)]

upserts = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from("uv"), st.sampled_from(FILTERS + BAD)),
    max_size=6,
)


def check(snapshot, model):
    """The snapshot finds what the definition finds in `model`: id → (subscriber, text)."""
    parsed = {name: parse(text, SCHEMA) for name, (_, text) in model.items()}
    expected = [
        sorted(name for name, one in parsed.items() if matches(one, event)) for event in EVENTS
    ]
    found = snapshot.match_batch(TABLE)
    ids, subscribers = snapshot.ids.to_pylist(), snapshot.subscribers.to_pylist()
    assert [
        sorted(ids[at] for at in found.of(event).tolist()) for event in range(len(EVENTS))
    ] == expected
    assert all(subscribers[at] == model[ids[at]][0] for at in set(found.ordinals.tolist()))
    assert snapshot.match(EVENTS[5]) == expected[5]
    assert snapshot.size == len(model)


class Model(RuleBasedStateMachine):
    @initialize(first=upserts)
    def start(self, first):
        rows = {name: (name, who, text) for name, who, text in first if text not in BAD}
        table = pa.table(
            {
                column: pa.array([row[at] for row in rows.values()], pa.string())
                for at, column in enumerate(("id", "subscriber", "filter"))
            }
        )
        self.live, change = LiveIndex.load(SCHEMA, table)
        assert change.version == 1 and change.added == len(rows) and not change.rejected
        self.model = {name: (who, text) for name, who, text in rows.values()}
        self.version = 1
        self.kept = (self.live.snapshot(), dict(self.model))

    @rule(changed=upserts, removes=st.lists(st.sampled_from(IDS), max_size=4))
    def apply(self, changed, removes):
        before = dict(self.model)
        for name in removes:
            self.model.pop(name, None)
        for name, who, text in changed:
            if text not in BAD:
                self.model[name] = (who, text)
        change = self.live.apply(changed, removes)
        self.version += 1
        assert change.version == self.version
        assert [name for name, _ in change.rejected] == [n for n, _, text in changed if text in BAD]
        assert change.added == len(self.model.keys() - before.keys())
        assert change.removed == len(before.keys() - self.model.keys())

    @rule(changed=upserts, removes=st.lists(st.sampled_from(IDS), max_size=4))
    def apply_rows(self, changed, removes):
        rows = {name: (name, who, text) for name, who, text in changed if text not in BAD}
        levels = len(self.live.snapshot().levels)
        columns = zip(*rows.values(), strict=True) if rows else ([], [], [])
        arrays = [pa.array(column, pa.string()) for column in columns]
        self.live.apply_rows(pa.table(arrays, ["id", "subscriber", "filter"]), removes)
        assert len(self.live.snapshot().levels) == levels + bool(rows)
        self.model = {name: row for name, row in self.model.items() if name not in removes}
        self.model |= {name: row[1:] for name, row in rows.items()}
        self.version += 1

    @rule()
    def settle(self):
        self.live.settle()
        assert not self.live.settle()  # at rest

    @rule()
    def merge(self):
        self.live.merge()
        assert len(self.live.snapshot().levels) <= 1

    @rule()
    def keep(self):
        self.kept = (self.live.snapshot(), dict(self.model))

    @invariant()
    def snapshots_are_the_definition(self):
        if hasattr(self, "live"):
            assert self.live.version == self.version
            check(self.live.snapshot(), self.model)
            check(*self.kept)  # however much has changed since


Model.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestModel = Model.TestCase


def test_readers_see_whole_versions_while_one_writes():
    rng = random.Random(5)
    live = LiveIndex(SCHEMA)
    history = {0: {}}
    changes = []
    model = {}
    for version in range(1, 31):
        changed = [(rng.choice(IDS), "u", rng.choice(FILTERS)) for _ in range(4)]
        removes = rng.sample(IDS, 2)
        model = {name: row for name, row in model.items() if name not in removes}
        model |= {name: (who, text) for name, who, text in changed}
        history[version] = model
        changes.append((changed, removes))
    seen, failures, done = set(), [], threading.Event()

    def read():
        try:
            while True:
                last = done.is_set()
                snapshot = live.snapshot()
                check(snapshot, history[snapshot.version])
                seen.add(snapshot.version)
                if last:
                    return
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for at, (changed, removes) in enumerate(changes):
        live.apply(changed, removes)
        if at % 7 == 0:
            live.merge()
    done.set()
    for reader in readers:
        reader.join()
    assert not failures, failures[0]
    assert 30 in seen


def test_two_writers_take_turns():
    live = LiveIndex(SCHEMA)

    def write(name):
        for bound in range(10):
            live.apply([(f"{name}{bound}", name, f"price > {bound}")])

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert live.version == 30
    assert live.snapshot().size == 30


def test_levels_stay_few_and_grow():
    live = LiveIndex(SCHEMA)
    for number in range(300):
        live.apply([(f"s{number}", "u", f"price > {number}")])
    sizes = [level.alive for level in live.snapshot().levels]
    assert sum(sizes) == 300
    assert len(sizes) <= 4
    live.apply(removes=[f"s{number}" for number in range(290)])
    assert sum(level.rows.num_rows for level in live.snapshot().levels) <= 10 / (
        1 - live_module.DEAD_SHARE_MAX
    )


def test_settling_folds_as_if_it_had_been_done_at_once():
    live = LiveIndex(SCHEMA)
    for number in range(100):
        row = {"id": [f"s{number}"], "subscriber": ["u"], "filter": [f"price > {number}"]}
        live.apply_rows(pa.table(row))
    assert len(live.snapshot().levels) == 100
    assert live.settle()
    assert len(live.snapshot().levels) == 1
    live.apply_rows(live.snapshot().subscriptions().slice(0, 0), [f"s{n}" for n in range(60)])
    assert live.settle()
    assert [level.rows.num_rows for level in live.snapshot().levels] == [40]


def test_more_columns_stay_with_their_rows():
    live = LiveIndex(SCHEMA)
    for number in range(20):
        row = {"id": [f"s{number}"], "subscriber": ["u"], "filter": ["TRUE"], "more": [number]}
        live.apply_rows(pa.table(row))
        live.settle()
    rows = live.snapshot().subscriptions().to_pylist()
    assert {row["id"]: row["more"] for row in rows} == {f"s{n}": n for n in range(20)}
    level, at = live.snapshot().find("s7")
    assert level.rows["more"][at].as_py() == 7


def test_a_refused_filter_leaves_the_old_one():
    live = LiveIndex(SCHEMA)
    live.apply([("s", "u", "price > 1")])
    change = live.apply([("s", "u", "cost > 1"), ("t", "u", "price >")])
    assert [name for name, _ in change.rejected] == ["s", "t"]
    assert all(isinstance(error, FilterError) for _, error in change.rejected)
    assert str(change.rejected[0][1]).startswith("subscription s: no attribute 'cost'")
    assert live.snapshot().match({"price": 2.0}) == ["s"]
    assert change.version == live.version == 2


@pytest.mark.parametrize("gone", [[], ["unknown"]])
def test_a_change_of_nothing_is_a_version(gone):
    live = LiveIndex(SCHEMA)
    change = live.apply(removes=gone)
    assert (change.version, change.added, change.removed) == (1, 0, 0)
    assert live.snapshot().match_batch(TABLE).ordinals.size == 0
