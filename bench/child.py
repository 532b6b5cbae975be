"""One task in a process of its own: `python -m bench.child NAME full|quick CORES`, JSON out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

from bench.measure import keep_to_cores
from bench.sizes import FULL, QUICK

RESULT = "RESULT "  # marks the line; libraries may print before it


def main() -> None:
    name, size, cores = sys.argv[1], sys.argv[2], int(sys.argv[3])
    had = keep_to_cores(cores)
    # Only now: the libraries count the cores when they are imported.
    import pyarrow as pa

    pa.set_cpu_count(had)
    module, function = name.split(".")
    task: Callable[..., dict[str, Any]] = getattr(import_module(f"bench.{module}"), function)
    sizes = FULL if size == "full" else QUICK
    result = task(sizes, had) if "cores" in signature(task).parameters else task(sizes)
    print(RESULT + json.dumps({**result, "cores": had}))


if __name__ == "__main__":
    main()
