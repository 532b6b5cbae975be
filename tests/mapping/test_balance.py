"""Cells of even load."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crossroads.mapping.balance import balanced
from crossroads.mapping.cells import Cells
from crossroads.mapping.fit import Sample, fit
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters

SCHEMA = Schema.from_mapping(
    {"id": "i", "attributes": {"i": {"type": "int", "min": 0, "max": 9999}}}
)


def sample_of(places, texts=()) -> Sample:
    events = pa.table({"i": pa.array(places, pa.int32())})
    return Sample(read_filters(pa.array(list(texts), pa.string()), SCHEMA), events)


def events_per_cell(cells, mapping, sample):
    found = cells.cells_of_keys(mapping.keys_of_events(sample.events))
    return np.bincount(found.cells, minlength=cells.count)


def test_crowded_keys_are_cut_finer():
    rng = np.random.default_rng(5)
    sample = sample_of(np.minimum(rng.exponential(300, 20_000), 9999).astype(int))
    mapping = fit("key-space-split", SCHEMA, bits=13)
    even = events_per_cell(Cells(13, 16), mapping, sample)
    cut = events_per_cell(balanced(mapping, sample, 16), mapping, sample)
    assert even.max() > 8 * even.mean()
    assert cut.size == 16 and cut.max() < 1.6 * cut.mean()


def test_candidates_count_too():
    """Events everywhere alike, subscriptions in the lowest tenth only: so are the cuts."""
    texts = [f"i BETWEEN {n} AND {n + 5}" for n in range(0, 1000, 2)]
    sample = sample_of(np.arange(10_000), texts)
    mapping = fit("key-space-split", SCHEMA, bits=13)
    cuts = np.array(balanced(mapping, sample, 10).cuts)
    assert (cuts < 8192 // 10).sum() >= 3


def test_one_key_cannot_be_cut():
    mapping = fit("key-space-split", SCHEMA, bits=13)
    cells = balanced(mapping, sample_of([7] * 1000 + [8000]), 8)
    assert cells.count < 8
    assert sorted(events_per_cell(cells, mapping, sample_of([7, 8000])).tolist())[-2:] == [1, 1]


def test_without_a_sample_cells_are_even():
    mapping = fit("key-space-split", SCHEMA, bits=13)
    assert balanced(mapping, sample_of([]), 8) == Cells(13, 8)
    assert balanced(mapping, sample_of([]), 1 << 20).count == 1 << 13
