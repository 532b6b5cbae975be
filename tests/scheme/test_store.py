"""Stores of subscriptions: whatever is merged in whatever order, they come out the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crossroads.keyspace import Ring
from crossroads.scheme.cbps.messages import Entry
from crossroads.scheme.cbps.store import Store, rank

RING = Ring(4)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    id_ = draw(st.sampled_from("abc"))
    version = draw(st.integers(0, 3))
    low = draw(st.integers(0, 14))
    # As with a subscriber that counts: one version, one content.
    region = RING.spans([(low * (version + 1) % 15, low * (version + 1) % 15 + 1)])
    return Entry(id_, version, "n1", 1, "TRUE", region, None, withdrawn=version == 2)


@given(st.lists(entries()), st.randoms(use_true_random=False))
def test_merging_knows_no_order_and_no_repetition(several: list[Entry], dice: object) -> None:
    latest: dict[str, Entry] = {}
    for entry in several:
        if entry.id not in latest or latest[entry.id].version < entry.version:
            latest[entry.id] = entry
    # Of equal versions the first stays; so give both stores one content per version.
    unique = list({(entry.id, entry.version): entry for entry in reversed(several)}.values())
    one, other = Store(), Store()
    one.merge(unique)
    shuffled = [*unique, *unique]
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    for entry in shuffled:
        other.merge((entry,))
    assert one.ranks(RING.whole, 0) == other.ranks(RING.whole, 0)
    assert one.ranks(RING.whole, 0) == {id_: rank(entry) for id_, entry in latest.items()}
    assert one.digest(RING.whole, 0) == other.digest(RING.whole, 0)


@given(st.lists(entries()), st.integers(0, 15))
def test_what_is_met_at_a_key(several: list[Entry], key: int) -> None:
    store = Store()
    store.merge(several)
    met = list(store.at(key, 0))
    assert all(key in entry.region and not entry.withdrawn for entry in met)
    there = store.in_region(RING.keys((key,)), 0)
    assert [entry.id for entry in there if not entry.withdrawn] == [one.id for one in met]


def test_an_entry_ends_at_its_time_and_not_before() -> None:
    store = Store()
    store.merge([Entry("a", 1, "n1", 1, "TRUE", RING.whole, 100)])
    assert list(store.at(3, 99)) and not list(store.at(3, 100))
    assert store.digest(RING.whole, 100) == 0
    store.forget_ended(99)
    assert len(store) == 1
    store.forget_ended(100)
    assert len(store) == 0


def test_a_refusal_does_not_reach_a_later_version() -> None:
    store = Store()
    store.merge([Entry("a", 5, "n1", 1, "TRUE", RING.whole, None)])
    store.refused("a", 4, until=50)
    assert list(store.at(3, 0))
    store.refused("a", 5, until=50)
    assert not list(store.at(3, 0))
    # A copy that comes back does not revive it.
    store.merge([Entry("a", 5, "n1", 1, "TRUE", RING.whole, None)])
    assert not list(store.at(3, 0))


def test_a_late_copy_does_not_revive_what_was_withdrawn() -> None:
    store = Store()
    old = Entry("a", 5, "n1", 1, "TRUE", RING.whole, None)
    store.merge([old, Entry("a", 6, "n1", 1, "TRUE", RING.whole, 1_000, withdrawn=True)])
    store.merge([old])
    assert not list(store.at(3, 0))
