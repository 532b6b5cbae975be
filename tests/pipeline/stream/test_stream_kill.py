"""kill -9 of a running stream, a few times: the short version of `make test-kill`.

Real processes. Each kill waits for a moment in the life of a batch; the stream is started again on
its checkpoint, and in the end what it told is what the definition says: nothing lost or doubled.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kill.attacked import DELIVERED, MATCHING, SINK
from tests.kill.siege import Kill, Siege

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
]

# A worker costs no start; the second fatal kill hits a replay, from the first moment on.
KILLS = {
    "folder": [
        Kill("worker", MATCHING),
        Kill("java", SINK),
        Kill("driver", MATCHING, at_once=True),
    ],
    "sqlite": [Kill("daemon", MATCHING), Kill("driver", DELIVERED)],
}


@pytest.mark.parametrize("sink", KILLS)
def test_nothing_is_lost_and_nothing_told_twice(sink: str, tmp_path: Path) -> None:
    result = Siege(tmp_path, sink, seed=1).run(KILLS[sink])
    assert result.problems == []
    assert [hit.victim for hit in result.hits] == [kill.victim for kill in KILLS[sink]]
    assert not result.lost and not result.extra
    assert not result.rejects_differ and not result.unread
    assert result.pairs > 100 and result.versions > 2
