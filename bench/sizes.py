"""How large each workload is, in the full run and in the quick one."""

from __future__ import annotations

from dataclasses import dataclass

SEED = 1
W2_SYMBOLS = 3_000


@dataclass(frozen=True, kw_only=True)
class Sizes:
    parse_filters: int
    w1_subscriptions: tuple[int, ...]  # ascending; the last is the size of the W1 figures
    w1_events: int
    w1_small: int  # subscriptions and events where the rival takes time in proportion to pairs
    w2_subscriptions: int
    w2_events: int
    demo_subscriptions: int
    demo_events: int
    mixed_subscriptions: int
    mixed_events: int
    sim_members: int
    sim_ms: int  # of virtual time
    sim_many_members: int


FULL = Sizes(
    parse_filters=500_000,
    w1_subscriptions=(10_000, 30_000, 100_000, 300_000, 1_000_000),
    w1_events=1_000_000,
    w1_small=100_000,
    w2_subscriptions=100_000,
    w2_events=1_000_000,
    demo_subscriptions=14_029,
    demo_events=115_000,
    mixed_subscriptions=100_000,
    mixed_events=100_000,
    sim_members=1_024,
    sim_ms=5_000,
    sim_many_members=10_000,
)

QUICK = Sizes(
    parse_filters=100_000,
    w1_subscriptions=(10_000, 30_000, 100_000),
    w1_events=200_000,
    w1_small=8_000,
    w2_subscriptions=20_000,
    w2_events=100_000,
    demo_subscriptions=3_000,
    demo_events=20_000,
    mixed_subscriptions=20_000,
    mixed_events=20_000,
    sim_members=256,
    sim_ms=2_000,
    sim_many_members=1_000,
)
