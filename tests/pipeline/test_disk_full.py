"""A disk that is really full: one line that says so, and nothing half-written.

The jobs run in another process that sees a file system of a few hundred KiB which nobody else sees
(a mount namespace of its own: no rights are needed, where the system allows them).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crossroads.lab.workloads import stocks, write_workload

DISK_KIB = 256
IN_A_NAMESPACE = ("unshare", "--map-root-user", "--mount")


def _why_not() -> str | None:
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(
        [*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True
    )
    return tried.stderr.strip() or "unshare failed" if tried.returncode else None


pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(_why_not() is not None, reason=f"no file system of our own: {_why_not()}"),
]

# What is run there: every case in one Spark; the last line is what came of them.
CHILD = """
import json, subprocess, sys
from pathlib import Path
from crossroads.errors import CrossroadsError
from crossroads.pipeline.job import MatchRequest, run_match

given, disk, size, cases = sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)], check=True)
found = {}
for name, (plan, output, store) in cases.items():
    said = None
    try:
        run_match(MatchRequest(
            schema=f"{given}/schema.toml", subscriptions=f"{given}/subscriptions.parquet",
            events=f"{given}/events.parquet", output=output, plan=plan, index_store=store,
        ))
    except CrossroadsError as error:
        said = str(error)
    files = sorted(str(one.relative_to(disk)) for one in disk.rglob("*") if one.is_file())
    found[name] = {"said": said, "left": files, "output": Path(output).exists()}
    for one in disk.iterdir():
        subprocess.run(["rm", "-rf", str(one)], check=True)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("full")
    write_workload(stocks(1, 20_000, 3_000), folder / "in")
    disk, elsewhere = folder / "disk", folder / "out"
    disk.mkdir()
    cases = {
        "sql": ("sql", str(disk / "out"), None),
        "keyed": ("keyed", str(disk / "out"), None),
        "store": ("keyed", str(elsewhere), str(disk / "store")),
    }
    done = subprocess.run(
        [
            *IN_A_NAMESPACE, sys.executable, "-c", CHILD,
            str(folder / "in"), str(disk), str(DISK_KIB), json.dumps(cases),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("plan", ["sql", "keyed"])
def test_the_disk_of_the_output(plan: str, outcome: dict[str, dict[str, Any]]) -> None:
    found = outcome[plan]
    assert found["said"] is not None, "the disk was large enough"
    assert "No space left on device" in found["said"]
    assert "\n" not in found["said"]
    assert not found["output"]
    assert [one for one in found["left"] if not one.endswith(".lock")] == []


def test_the_disk_of_the_index_store(outcome: dict[str, dict[str, Any]]) -> None:
    """Files of cells that were written whole may stay; without a manifest nobody uses them."""
    found = outcome["store"]
    assert found["said"] is not None, "the disk was large enough"
    assert "cannot write the index store" in found["said"]
    assert "No space left on device" in found["said"]
    assert "\n" not in found["said"]
    assert not found["output"]
    names = [Path(one).name for one in found["left"]]
    assert not [one for one in names if one.startswith(".") or one == "manifest.json"]
