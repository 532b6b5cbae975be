"""Index files in memory: the same index as from a disk, for other processes too, then gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from crossroads.errors import DamagedIndex, IndexFileError
from crossroads.indexfile import IndexInMemory, open_index, save_index
from crossroads.lab.workloads import uniform
from crossroads.matching.index import MatchIndex
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters

pytestmark = pytest.mark.skipif(not IndexInMemory.possible(), reason="files in memory are Linux's")
WORKLOAD = uniform(3, 2_000, 20_000)
SCHEMA = Schema.from_toml(WORKLOAD.schema_toml)
SUBSCRIPTIONS = WORKLOAD.subscriptions()
ABOUT = {
    "subscriptions": SUBSCRIPTIONS.select(["id", "subscriber"]),
    "subscription_version": 7,
    "content_hash": "abc",
}
COUNT = """
import sys
import pyarrow.parquet as pq
from crossroads.indexfile import open_index
index = open_index(sys.argv[1], resident=True).index
print(len(index.match_batch(pq.read_table(sys.argv[2])).ordinals))
"""


def pairs(index, events):
    found = index.match_batch(events)
    return sorted(zip(found.events.tolist(), found.ordinals.tolist(), strict=True))


@pytest.fixture
def memory():
    made = IndexInMemory()
    index = MatchIndex.build(read_filters(SUBSCRIPTIONS["filter"], SCHEMA), empty=made.empty)
    made.save(index, **ABOUT)
    yield made
    made.close()


def test_it_is_the_index_that_a_file_would_hold(memory, tmp_path):
    index = MatchIndex.build(read_filters(SUBSCRIPTIONS["filter"], SCHEMA))
    save_index(tmp_path / "file", index, **ABOUT)
    here, there = open_index(memory.path, SCHEMA, resident=True), open_index(tmp_path / "file")
    events = WORKLOAD.events()
    assert pairs(here.index, events) == pairs(there.index, events) != []
    assert (here.ids, here.subscribers) == (there.ids, there.subscribers)
    assert (here.subscription_version, here.content_hash) == (7, "abc")
    assert here.bytes == memory.bytes


def test_what_lies_in_no_file_has_no_checksums_but_its_header_has(memory):
    header = bytearray(os.pread(memory._file, memory.bytes, 0))
    assert json.loads(header[header.rindex(b'{"content"') :])["arrays"]["classes.ids"][-1] == ""
    os.pwrite(memory._file, b"7", memory.bytes - 3)
    with pytest.raises(DamagedIndex):
        open_index(memory.path)


def test_large_arrays_are_made_in_the_file():
    made = IndexInMemory()
    large, small = made.empty((200_000, 2), np.uint64), made.empty(3, np.int32)
    large[:], small[:] = 7, 7
    content = os.pread(made._file, large.nbytes, 4096)
    assert np.frombuffer(content, np.uint64).tolist() == large.ravel().tolist()
    assert made.path.stat().st_size < large.nbytes + 3 * 4096
    made.close()


def test_another_process_opens_it_by_name(memory, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(WORKLOAD.events(), tmp_path / "events.parquet")
    command = [sys.executable, "-c", COUNT, str(memory.path), str(tmp_path / "events.parquet")]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(seen) == len(pairs(open_index(memory.path).index, WORKLOAD.events()))


def test_it_is_gone_when_closed():
    made = IndexInMemory()
    index = MatchIndex.build(read_filters(pa.array(["a1 > 5"]), SCHEMA))
    made.save(index, **{**ABOUT, "subscriptions": ABOUT["subscriptions"].slice(0, 1)})
    opened = open_index(made.path)
    made.close()
    assert opened.ids[0].as_py() == SUBSCRIPTIONS["id"][0].as_py()  # whoever has it keeps it
    with pytest.raises(IndexFileError):
        open_index(made.path)
