"""Subscriptions split by split: numbered, checked and copied to their cells as if read at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.errors import SourceError
from crossroads.mapping.balance import balanced
from crossroads.mapping.cells import WIDE_SHARE, CellRanges
from crossroads.mapping.fit import Sample, fit
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.pipeline.blocks import Block
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.sharing import Sharing
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.subscriptionframe import (
    NAMES,
    REJECTS,
    ROOT,
    ROWS,
    Keying,
    copies,
    keyed_blocks,
    look,
)
from crossroads.pipeline.subscriptions import load_subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema.from_toml("""
name = "shop"
id = ["n"]
[attributes]
n = "bigint"
price = { type = "int", min = 0, max = 100 }
""")


@given(st.data())
def test_copies_are_the_cells_of_each_or_the_root(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    cell = st.integers(0, count - 1)
    wanted: list[set[int]] = data.draw(st.lists(st.sets(cell), max_size=8))
    root = np.array(data.draw(st.lists(st.booleans(), min_size=8, max_size=8))[: len(wanted)], bool)
    runs = [[] if at_root else _runs(cells) for cells, at_root in zip(wanted, root, strict=True)]
    flat = [run for each in runs for run in each]
    ranges = CellRanges(
        np.cumsum([0, *(len(each) for each in runs)]),
        np.array([first for first, _ in flat], np.int32),
        np.array([last for _, last in flat], np.int32),
        root,
    )
    found = list(zip(*(array.tolist() for array in copies(ranges, count)), strict=True))
    expected = []
    for at, (cells, at_root) in enumerate(zip(wanted, root, strict=True)):
        wide = len(cells) > max(1, count * WIDE_SHARE)
        expected += [(at, ROOT)] if at_root or wide else [(at, cell) for cell in cells]
    assert sorted(found) == sorted(expected)


def _runs(cells: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for cell in sorted(cells):
        if runs and runs[-1][1] == cell - 1:
            runs[-1] = (runs[-1][0], cell)
        else:
            runs.append((cell, cell))
    return runs


def write(path: Path, rows: list[dict[str, object] | str]) -> None:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(line + "\n" for line in lines))


def subscription(at: int, **changes: object) -> dict[str, object]:
    words = f"price BETWEEN {at % 90} AND {at % 90 + 5}"
    return {"id": f"s{at}", "subscriber": f"u{at % 7}", "filter": words, **changes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, with everything that can be wrong; ids repeat within and across them."""
    folder = tmp_path / "subscriptions"
    folder.mkdir()
    rows: list[dict[str, object] | str] = [subscription(at) for at in range(60)]
    write(folder / "a.jsonl", [*rows[:20], "{broken", subscription(3), subscription(5)])
    write(folder / "b.jsonl", [*rows[20:40], subscription(5), subscription(40, filter="price >")])
    extra = [subscription(50), subscription(70, subscriber=" "), subscription(71, id=None)]
    write(folder / "c.jsonl", [*rows[40:], *extra, subscription(72, filter="TRUE")])
    return folder


@pytest.mark.spark
def test_as_if_read_at_once(spark: SparkSession, folder: Path) -> None:
    splits = plan_splits(list_files(folder), None, 600)
    assert len(splits) > 6  # the files are cut
    looked = look(spark, splits, Sharing())
    assert looked.repeated == {"s3": 2, "s5": 3, "s40": 2, "s50": 2}
    filters = read_filters(pa.array([str(subscription(at)["filter"]) for at in range(60)]), SCHEMA)
    events = pa.Table.from_pylist([{"n": n, "price": n} for n in range(100)], schema=SCHEMA.arrow)
    sample = Sample(filters, events)
    mapping = fit("key-space-split", SCHEMA, sample)
    cells = balanced(mapping, sample, 6)
    keying = Keying(SCHEMA, mapping, cells, looked, 4)
    rows = keyed_blocks(spark, splits, keying, Sharing()).collect()
    blocks = [Block(*row[:-1], pa.py_buffer(bytes(row.data))) for row in rows]

    whole = load_subscriptions(folder, SCHEMA)
    usable = {
        whole.ids[at].as_py(): whole.filters[at].as_py()
        for at in range(len(whole.ids))
        if at not in whole.table.errors
    }
    paths = {split.number: split.path for split in splits}
    rejects = [
        Reject(paths[block.number], row["line"], row["raw"], row["reason"])
        for block in blocks
        if block.kind == REJECTS
        for row in block.table.to_pylist()
    ]
    assert sorted(rejects, key=str) == sorted(whole.rejects, key=str)
    assert len(rejects) > 8

    bases = looked.bases
    names = {
        bases[block.number] + row: one["id"]
        for block in blocks
        if block.kind == NAMES
        for row, one in enumerate(block.table.to_pylist())
    }
    assert sorted(names) == list(range(looked.rows))  # every row has a number of its own
    assert sorted(name for name in names.values() if name is not None) == sorted(usable)

    found: dict[int, dict[int, str]] = {}
    for block in blocks:
        if block.kind == ROWS:
            assert block.place == (block.number + 1) % 4
            for row in block.table.to_pylist():
                assert names[row["ordinal"]] == row["id"] and usable[row["id"]] == row["filter"]
                found.setdefault(block.number, {})[row["ordinal"]] = row["id"]
    assert "s72" in found[ROOT].values()
    placed = cells.cells_of_ranges(mapping.keys_of_subscriptions(filters))
    at, cell = copies(placed, cells.count)
    expected = {(f"s{a}", int(c)) for a, c in zip(at, cell, strict=True) if f"s{a}" in usable}
    assert {(name, c) for c, ids in found.items() for name in ids.values()} == expected | {
        ("s72", ROOT)
    }


@pytest.mark.spark
def test_a_field_that_no_line_has_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [{"id": f"s{at}", "filter": "TRUE"} for at in range(40)])
    splits = plan_splits(list_files(tmp_path / "a.jsonl"), None, 200)
    assert len(splits) > 1
    with pytest.raises(SourceError, match="no line has a field 'subscriber'"):
        look(spark, splits, Sharing())
