"""Mappings that are wrong in one way each: what the contract suite is there to find.

All but the first are mistakes. Where a mistake is in single keys, columns are made of these, so
that it is not found for being in one form only.
"""

from __future__ import annotations

import numpy as np

from crossroads.mapping.attribute_split import AttributeSplit
from crossroads.mapping.contract import KeyRange, KeyTable, RangeTable, SubscriptionKeys
from crossroads.mapping.selective_attribute import SelectiveAttribute
from crossroads.model.instantiate import instantiate


def offsets_of(lists):
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


class ByOne(AttributeSplit):
    """Right, and slow: columns one by one."""

    def keys_of_subscriptions(self, table):
        filters = dict(table.singles)
        for group in table.groups:
            filters |= {row: instantiate(group, at) for at, row in enumerate(group.rows.tolist())}
        nothing = SubscriptionKeys(())
        found = [
            self.subscription_keys(filters[row]) if row in filters else nothing
            for row in range(table.size)
        ]
        ranges = [one for keys in found for one in keys.ranges]
        return RangeTable(
            offsets_of([keys.ranges for keys in found]),
            np.array([one.low for one in ranges], np.uint64),
            np.array([one.high for one in ranges], np.uint64),
            np.array([keys.root for keys in found], np.bool_),
        )

    def keys_of_events(self, events):
        found = [self.event_keys(event) for event in events.to_pylist()]
        return KeyTable(offsets_of(found), np.array([k for keys in found for k in keys], np.uint64))


class WithoutNull(ByOne):
    """An event whose attribute is missing is nowhere."""

    one_key = False

    def event_keys(self, event):
        missing = event.get(self.spec.axes[self.by].dimension.attribute) is None
        return () if missing else super().event_keys(event)


class WithoutTheLastKey(ByOne):
    """The upper end of a range is left out."""

    def subscription_keys(self, filter_):
        found = super().subscription_keys(filter_)
        shorter = [KeyRange(one.low, one.high - 1) for one in found.ranges]
        return SubscriptionKeys(tuple(one for one in shorter if one.low < one.high), found.root)


class RootAndRanges(ByOne):
    def subscription_keys(self, filter_):
        found = super().subscription_keys(filter_)
        return SubscriptionKeys((KeyRange(0, 1),), True) if found.root else found


class TwiceTheStride(ByOne):
    @property
    def stride(self):
        return 2 * super().stride


class BeyondTheKeys(ByOne):
    def event_keys(self, event):
        return tuple(key + (1 << self.spec.bits) for key in super().event_keys(event))


class NotOfItsSpec(ByOne):
    """Keys depend on what only this object knows."""

    moved = 0

    def subscription_keys(self, filter_):
        found = super().subscription_keys(filter_)
        moved = (KeyRange(one.low + self.moved, one.high + self.moved) for one in found.ranges)
        return SubscriptionKeys(tuple(moved), found.root)

    def event_keys(self, event):
        return tuple(key + self.moved for key in super().event_keys(event))


class PythonsHash(NotOfItsSpec):
    """Another process, another hash of a string."""

    @property
    def moved(self):
        return hash(self.schema.name) % (1 << 30)


class OtherColumnsOfEvents(AttributeSplit):
    """In columns, NULL is the last position and not the first."""

    def keys_of_events(self, events):
        found = super().keys_of_events(events)
        axis = self.spec.axes[self.by]
        missing = np.asarray(events.column(axis.dimension.attribute).is_null())
        last = np.uint64((axis.size - 1) * self.strides[self.by])
        return KeyTable(found.offsets, np.where(missing, last, found.keys))


class OtherColumnsOfSubscriptions(AttributeSplit):
    """In columns, nobody stands at the root."""

    def keys_of_subscriptions(self, table):
        found = super().keys_of_subscriptions(table)
        return RangeTable(found.offsets, found.low, found.high, np.zeros_like(found.root))


class SaidToHaveOneKey(SelectiveAttribute):
    one_key = True


class Descending(SelectiveAttribute):
    def event_keys(self, event):
        return super().event_keys(event)[::-1]
