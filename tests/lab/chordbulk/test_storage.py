"""Who holds a subscription, and who finds a match, against sets of keys and nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.lab.chordbulk.meeting import meetings
from crossroads.lab.chordbulk.regions import all_keys, exact, key_counts
from crossroads.lab.chordbulk.ring import BulkRing
from crossroads.lab.chordbulk.storage import holders, storage
from crossroads.mapping.contract import KeyTable, RangeTable

BITS = 6
SIZE = 1 << BITS

rings = st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=16).map(
    lambda ids: BulkRing(BITS, np.array(sorted(ids), np.int64))
)


@st.composite
def range_tables(draw):
    """Ascending, disjoint ranges that do not touch, at least one each, as mappings give them."""
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        cuts = sorted(draw(st.sets(st.integers(0, SIZE), min_size=2, max_size=8)))
        cuts = cuts[: len(cuts) // 2 * 2]
        rows.append(list(zip(cuts[0::2], cuts[1::2], strict=True)))
    low, high = (np.array([r[side] for row in rows for r in row], np.uint64) for side in (0, 1))
    offsets = np.cumsum([0, *map(len, rows)])
    return RangeTable(offsets, low, high, np.zeros(len(rows), np.bool_))


def key_sets(table: RangeTable, stride: int = 1) -> list[set[int]]:
    pairs = list(zip(table.low.tolist(), table.high.tolist(), strict=True))
    spans = zip(table.offsets, table.offsets[1:], strict=False)
    return [{key for low, high in pairs[a:b] for key in range(low, high, stride)} for a, b in spans]


def owner(ring: BulkRing, key: int) -> int:
    return min(range(ring.nodes), key=lambda at: (ring.ids[at] - key) % SIZE)


@given(rings, range_tables())
def test_holders_are_the_owners_of_the_keys(ring, table):
    held = holders(ring, table)
    for i, wanted in enumerate(key_sets(table)):
        places = [
            place
            for at in range(held.offsets[i], held.offsets[i + 1])
            for place in range(held.first[at], held.last[at] + 1)
        ]
        assert sorted(places) == sorted({owner(ring, key) for key in wanted})
        assert held.copies[i] == len(places)


@given(range_tables(), st.integers(1, 9))
def test_only_every_so_many_th_key_counts(table, stride):
    wanted = key_sets(table, stride)
    assert key_sets(exact(table, stride)) == wanted
    assert key_counts(table, stride).tolist() == [len(one) for one in wanted]
    assert all_keys(table, stride).tolist() == [key for one in wanted for key in sorted(one)]
    middle = len(wanted) // 2
    tail = [key for one in wanted[middle:] for key in sorted(one)]
    assert all_keys(table, stride, middle, len(wanted)).tolist() == tail


@given(rings, range_tables(), st.integers(1, 12))
def test_storage_is_what_lives_at_each_time(ring, table, alive):
    held = holders(ring, table)
    owners = [{owner(ring, key) for key in one} for one in key_sets(table)]
    loads = [
        [sum(place in one for one in owners[max(0, now - alive + 1) : now + 1])
         for place in range(ring.nodes)]
        for now in range(len(owners))
    ]  # fmt: skip
    found = storage(held, ring.nodes, alive)
    assert found.peak == max(map(max, loads))
    assert found.load.tolist() == loads[-1]


@given(rings, range_tables(), st.lists(st.sets(st.integers(0, SIZE - 1), max_size=4), min_size=1))
def test_meetings_are_at_the_owners_of_shared_keys(ring, table, events):
    listed = [sorted(one) for one in events]
    keys = KeyTable(
        np.cumsum([0, *map(len, listed)]), np.array([k for one in listed for k in one], np.uint64)
    )
    wanted_keys = key_sets(table)
    pairs = [(event, sub) for event in range(len(events)) for sub in range(len(wanted_keys))]
    matching, matched = np.array(pairs).T
    found = meetings(ring, table, keys, matching, matched)
    wanted = {}
    for number, (event, sub) in enumerate(pairs):
        for key in sorted(events[event] & wanted_keys[sub]):
            wanted.setdefault((number, owner(ring, key)), key)  # by the first of its keys
    places = zip(found.match.tolist(), found.place.tolist(), strict=True)
    assert dict(zip(places, found.key.tolist(), strict=True)) == wanted
    assert found.match.size == len(wanted)
    assert found.subscription.tolist() == matched[found.match].tolist()
