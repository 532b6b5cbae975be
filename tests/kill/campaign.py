"""Kills by the dozen over all sinks: `python -m tests.kill.campaign` (`make test-kill`).

    --kills 60 --sinks folder,sqlite,jdbc,kafka     kills in all, shared among the sinks
    --control 10                                    kills of sinks without a memory
    --seed 1 --jobs 2 --page docs/kill-campaign.md

Every sink gets a stream of its own. What it told is compared with the definition at each row's
subscription_version: nothing lost, nothing twice. Then the same with idempotence switched off: this
must find duplicates, for a test that cannot fail proves nothing. Exit code 1 if either is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from tests.kill.page import control_line, page, problems_of, result_line
from tests.kill.places import SINKS
from tests.kill.siege import Result, Siege, harmful_kills, random_kills

from crossroads.errors import EnvironmentProblem
from crossroads.testing.kafkajars import broker_jars

CONTROLLED = ("folder", "sqlite")  # what holds for these two holds for the principle


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console = Console(highlight=False)
    started = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"{time.monotonic() - started:6.0f} s  {text}", soft_wrap=True)

    sinks = _available(options.sinks.split(","), tell)
    with tempfile.TemporaryDirectory(prefix="crossroads-kill-") as name:
        sieges = [
            *(_exactly_once(Path(name), sink, options, len(sinks), tell) for sink in sinks),
            *(_without_memory(Path(name), sink, options, tell) for sink in _controlled(sinks)),
        ]
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda siege: _told(siege(), tell), sieges))
    proved, controls = results[: len(sinks)], results[len(sinks) :]
    seconds = time.monotonic() - started
    for result in proved:
        console.print(result_line(result), soft_wrap=True)
        for problem in problems_of(result):
            console.print(f"  [red]{problem}[/]", soft_wrap=True)
    for result in controls:
        console.print(control_line(result), soft_wrap=True)
    if options.page:
        text = page(proved, controls, seconds, options.seed)
        Path(options.page).write_text(text, encoding="utf-8")
    can_fail = any(result.extra for result in controls) or not controls
    if not can_fail:
        console.print("[red]no duplicate without idempotence: this campaign proves nothing[/]")
    return 0 if can_fail and all(result.clean for result in proved) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.campaign")
    parser.add_argument("--kills", type=int, default=60, help="in all, shared among the sinks")
    parser.add_argument("--sinks", default=",".join(SINKS), help="which, with commas")
    parser.add_argument("--control", type=int, default=10, help="kills without idempotence")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="streams at a time")
    parser.add_argument("--page", default="", help="where to write the table")
    return parser.parse_args(arguments)


def _told(result: Result, tell: Callable[[str], None]) -> Result:
    tell(result_line(result))
    return result


def _available(sinks: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Kafka is left out where it cannot be had, and that is said; CI is no such place."""
    found = [sink for sink in sinks if sink != "kafka"]
    if "kafka" in sinks:
        try:
            broker_jars()
            found.append("kafka")
        except EnvironmentProblem as problem:
            if os.environ.get("CI"):
                raise
            tell(f"without Kafka: {problem}")
    return found


def _controlled(sinks: Sequence[str]) -> list[str]:
    return [sink for sink in CONTROLLED if sink in sinks] or list(sinks[:1])


def _exactly_once(
    folder: Path,
    sink: str,
    options: argparse.Namespace,
    sinks: int,
    tell: Callable[[str], None],
) -> Callable[[], Result]:
    seed = options.seed * 1_000 + SINKS.index(sink)
    share = -(-options.kills // sinks)
    kills = random_kills(random.Random(seed), share)
    return lambda: Siege(folder / sink, sink, seed, tell=tell).run(kills)


def _without_memory(
    folder: Path, sink: str, options: argparse.Namespace, tell: Callable[[str], None]
) -> Callable[[], Result]:
    seed = options.seed * 1_000 + 500 + SINKS.index(sink)
    controlled = len(_controlled(options.sinks.split(",")))
    kills = harmful_kills(random.Random(seed), -(-options.control // controlled))
    siege = Siege(folder / f"{sink}-plain", sink, seed, delivery="at-least-once", tell=tell)
    return lambda: siege.run(kills)


if __name__ == "__main__":
    sys.exit(main())
