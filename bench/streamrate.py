"""The event rate that a stream can hold: its backlog does not grow.

A step is a rate for a while, on a stream that goes on; between steps it catches up. A rate is held
if latency does not grow and nothing is left behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.streamlatency import arrivals, percentiles, rise
from bench.streamload import FILE_SECONDS, POOL_FILES, Given, write_pool
from bench.streamparts import LOOK_SECONDS, RATE_BITS, RATE_MIN, RISE_MAX, Say, Stream
from bench.streamrun import Side, feeding, files_for
from bench.streamsizes import StreamSizes
from bench.streamwatch import disturbance

TRIES = 2  # of a rate that seems too high: something else may have taken the cores
BEHIND_MAX = 8.0  # seconds; who is further behind has lost


def held_rate(
    folder: Path, given: Given, sizes: StreamSizes, kind: str, first: int, say: Say
) -> dict[str, Any]:
    """Doubled until not held, or halved until held; then twice the middle of the last two."""
    settings = {"bits": RATE_BITS} if kind == "join" else {}
    stream = Stream(folder / kind, given, kind, **settings)
    steps: list[dict[str, Any]] = []
    with stream.side() as side:
        ladder = _Ladder(stream, side, folder / "pools", sizes)
        ladder.step(first)  # to warm up: not looked at

        def held(rate: int) -> bool:
            for _ in range(TRIES):
                steps.append(ladder.step(rate))
                say(f"{kind} {_described(steps[-1])}")
                if steps[-1]["held"]:
                    return True
            return False

        best, failed = _bracketed(first, sizes.rate_max, held)
        for _ in range(2 if failed and best else 0):
            middle = round((best + failed) / 2)
            best, failed = (middle, failed) if held(middle) else (best, middle)
    return {
        "held": best,
        "not_held": failed or None,
        "steps": steps,
        "disturbance": max(step["disturbance"] for step in steps),
    }


def _bracketed(first: int, most: int, held: Callable[[int], bool]) -> tuple[int, int]:
    """The highest that is held, by factors of two, and the next; 0 where there is none."""
    if held(first):
        best = first
        while 2 * best <= most:
            if not held(2 * best):
                return best, 2 * best
            best *= 2
        return best, 0
    failed = first
    while failed > RATE_MIN:
        if held(failed // 2):
            return failed // 2, failed
        failed //= 2
    return 0, failed


def _described(step: dict[str, Any]) -> str:
    verdict = "held" if step["held"] else "not held"
    return (
        f"{step['rate']:,} events/s: {verdict} (others had {step['disturbance']:.0%} of the cores)"
    )


class _Ladder:
    """Steps of a rate each, one after the other on the same stream; between them it catches up."""

    def __init__(self, stream: Stream, side: Side, pools: Path, sizes: StreamSizes) -> None:
        self.stream, self.side, self.pools, self.sizes = stream, side, pools, sizes
        self.files = 0

    def step(self, rate: int) -> dict[str, Any]:
        rows, first = round(rate * FILE_SECONDS), self.files
        pool = self.pools / str(rows)
        if not pool.exists():
            write_pool(pool, POOL_FILES, rows)
        begun = time.time()
        wanted = files_for(self.sizes.step_seconds)
        with feeding(self.stream.feed(pool, rows, first, wanted), self.stream.folder) as feeder:
            while feeder.poll() is None and self._behind() < BEHIND_MAX:
                self.side.check()
                time.sleep(LOOK_SECONDS)
            kept_up = feeder.poll() is not None
        self.files = len(arrivals(self.stream.log))
        drained = self.stream.await_all(self.side, self.files)
        found = self.stream.told()[first:]
        # The first third is left out: batches grow until they fit the rate.
        late = found[len(found) // 3 :]
        grows = rise(late)
        return {
            "rate": rate,
            "held": kept_up and drained and grows <= RISE_MAX,
            "rise": round(grows, 4),
            "latency": percentiles([one.seconds for one in late]),
            "stopped_early": not kept_up,
            "disturbance": disturbance(self.side.samples, begun),
        }

    def _behind(self) -> float:
        """For how long the oldest file that is not told has waited."""
        waiting = arrivals(self.stream.log)[len(self.stream.told()) :]
        return time.time() - waiting[0].at if waiting else 0.0
