"""What a sample remembers: findings are made once, and each by itself."""

from __future__ import annotations

import pyarrow as pa

from crossroads.mapping.axischoice import candidates
from crossroads.mapping.fit import MAPPINGS, fit
from crossroads.mapping.sample import Sample
from crossroads.mapping.usage import usages
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters

SCHEMA = Schema.from_mapping({"id": "k", "attributes": {"k": "bigint", "a": "int", "b": "int"}})


def sample_of(size: int) -> Sample:
    texts = [f"a BETWEEN {n} AND {n + 9} AND b > {n % 7}" for n in range(size)]
    columns = {"k": range(50), "a": range(0, 500, 10), "b": [n % 9 for n in range(50)]}
    events = pa.table({name: list(values) for name, values in columns.items()}).cast(SCHEMA.arrow)
    return Sample(read_filters(pa.array(texts), SCHEMA), events)


def test_a_finding_is_made_once() -> None:
    calls: list[Sample] = []

    def count(sample: Sample) -> int:
        calls.append(sample)
        return sample.filters.size

    sample = sample_of(20)
    assert [sample.once(count), sample.once(count)] == [20, 20]
    assert calls == [sample]
    assert sample.once(usages) is sample.once(usages)
    other = Sample(sample.filters, sample.events)
    assert other.once(count) == 20
    assert len(calls) == 2, "another sample asks for itself"


def test_what_is_remembered_changes_no_fit() -> None:
    used = sample_of(2_500)
    used.once(candidates)
    for name in MAPPINGS:
        fresh = fit(name, SCHEMA, sample_of(2_500)).spec
        assert fit(name, SCHEMA, used).spec == fresh == fit(name, SCHEMA, used).spec
