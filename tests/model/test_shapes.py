"""Trees of shapes are kept, but only those that are short: memory stays bounded."""

from __future__ import annotations

from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.syntax import SHAPE_CACHED_MAX, tree_of


def test_only_short_shapes_are_kept():
    short = "a > _L0_"
    long = " OR ".join([short] * (SHAPE_CACHED_MAX // len(short)))
    assert len(long) > SHAPE_CACHED_MAX
    assert tree_of(short) is tree_of(short)
    assert tree_of(long) is not tree_of(long)
    assert tree_of(long) == tree_of(long)


def test_a_long_filter_reads_the_same_each_time():
    schema = Schema.from_mapping({"id": "a", "attributes": {"a": "int"}})
    text = " OR ".join(f"a > {n}" for n in range(SHAPE_CACHED_MAX // 8))
    assert parse(text, schema) == parse(text, schema)
