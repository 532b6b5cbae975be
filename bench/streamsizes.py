"""How long and how large the streaming benchmark is, in the full run and in the quick one."""

from __future__ import annotations

from dataclasses import dataclass

CORES = 2  # of each side; the feeder and the broker share them


@dataclass(frozen=True, kw_only=True)
class StreamSizes:
    subscriptions: int
    rate: int  # events per second of the latency figures
    steady_seconds: float  # measured; the warm-up is not
    beside_seconds: float  # of what is reported beside it
    warm_seconds: float
    step_seconds: float  # of the search for the rate that is held
    rate_max: int  # where that search ends
    changes: int  # subscriptions in a change
    change_batches: int  # with and without one
    change_batch_events: int
    backlog_events: int
    file_events: int  # in each file of a backlog


FULL = StreamSizes(
    subscriptions=100_000,
    rate=10_000,
    steady_seconds=300,
    beside_seconds=60,
    warm_seconds=20,
    step_seconds=20,
    rate_max=5_120_000,
    changes=1_000,
    change_batches=40,
    change_batch_events=400_000,
    backlog_events=10_000_000,
    file_events=250_000,
)

QUICK = StreamSizes(
    subscriptions=100_000,
    rate=10_000,
    steady_seconds=12,
    beside_seconds=8,
    warm_seconds=8,
    step_seconds=8,
    rate_max=80_000,
    changes=1_000,
    change_batches=16,
    change_batch_events=100_000,
    backlog_events=1_000_000,
    file_events=100_000,
)
