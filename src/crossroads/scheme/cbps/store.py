"""The subscriptions that a node holds, its own and those of its neighbours' keys.

Of each subscription the highest version counts, a withdrawn one is kept as such, and nothing leaves
but by its time. So stores can be merged in any order, any number of times, from anyone, and come
out the same: copies, hand-over and repair are all a `merge`, and none of them can do harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

from msgspec.structs import replace

from crossroads.keyspace import Arcs
from crossroads.node import Time
from crossroads.scheme.cbps.messages import Entry
from crossroads.scheme.contract import SubscriptionId


class Store:
    def __init__(self) -> None:
        self._entries: dict[SubscriptionId, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, id_: SubscriptionId) -> Entry | None:
        return self._entries.get(id_)

    def merge(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            known = self._entries.get(entry.id)
            if known is None or rank(known) < rank(entry):
                self._entries[entry.id] = entry

    def refused(self, id_: SubscriptionId, version: int, until: Time) -> None:
        """Its subscriber says that there is no such subscription; a later one there may be. It is
        remembered as withdrawn, or the copies would bring it back: if it has no end, until then."""
        known = self._entries.get(id_)
        if known is not None and known.version <= version:
            end = until if known.until is None else known.until
            self._entries[id_] = replace(known, withdrawn=True, until=end)

    def forget_ended(self, now: Time) -> None:
        ended = [one.id for one in self._entries.values() if not _lasts(one, now)]
        for id_ in ended:
            del self._entries[id_]

    def clear(self) -> None:
        self._entries.clear()

    # -- what is there ---------------------------------------------------------------------

    def at(self, key: int, now: Time) -> Iterator[Entry]:
        """In force, and to be met at this key."""
        for entry in self._entries.values():
            if key in entry.region and not entry.withdrawn and _lasts(entry, now):
                yield entry

    def in_region(self, region: Arcs, now: Time) -> list[Entry]:
        """Everything with a key there, the withdrawn as well."""
        return [
            entry
            for entry in self._entries.values()
            if _lasts(entry, now) and entry.region & region
        ]

    def in_force(self, region: Arcs, now: Time) -> int:
        return sum(not entry.withdrawn for entry in self.in_region(region, now))

    def digest(self, region: Arcs, now: Time) -> int:
        """The same for the same content, in any order and in any process."""
        return sum(
            crc32(f"{rank(entry)} {entry.id}".encode()) for entry in self.in_region(region, now)
        )

    def ranks(self, region: Arcs, now: Time) -> dict[SubscriptionId, int]:
        return {entry.id: rank(entry) for entry in self.in_region(region, now)}


def rank(entry: Entry) -> int:
    """Which of two words about a subscription counts: the later one, and withdrawn is later."""
    return 2 * entry.version + entry.withdrawn


def _lasts(entry: Entry, now: Time) -> bool:
    return entry.until is None or entry.until > now
