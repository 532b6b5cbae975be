"""What a unit of work costs: the prices by which counts become seconds (see `estimate`).

Fitted by `make bench-plans` and `python -m bench.plans --fit` to measured runs of every plan and
mapping on six workloads (docs/plans.md). On another machine all of them grow or shrink together,
more or less; the order of plans depends only on their proportions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

# How often each thing is done by the core that is busiest, under the name of its price.
Work = Mapping[str, float]


@dataclass(frozen=True)
class Prices:
    """Nanoseconds on one core."""

    job: float = 0.13e9  # the least that a job of Spark takes
    frames: float = 0.54e9  # further jobs that plans on frames need
    shuffles: float = 0.13e9  # further stages of a join, for each shape
    load: float = 2_300.0  # a subscription from text, in the driver
    build: float = 370.0  # and into an index
    save: float = 1_900.0  # and to a file that workers read
    read: float = 630.0  # an event, read, checked and matched
    word: float = 170.0  # an event's text, searched for all words
    expression: float = 1_700.0  # an event's text, searched for all expressions
    verify: float = 720.0  # a pair that ranges alone do not decide
    write: float = 5.3  # a notification
    frame: float = 4_000.0  # an event through a DataFrame, there and back
    settle: float = 7_100.0  # a subscription from text to its cells, by workers
    stand: float = 4_400.0  # a subscription in one of its cells, sent there and into an index
    visit: float = 2_900.0  # an event in one of its cells, sent there and matched
    key: float = 5_400.0  # a subscription to its cells, in the driver
    copy: float = 320.0  # a row through a join of Spark's
    candidate: float = 44.0  # a pair that such a join brings together, and its question
    pair: float = 34.0  # a question about an event and a subscription that nothing brought together
    list: float = 210.0  # a notification that Spark must bring to its event

    def seconds(self, work: Work) -> float:
        prices = asdict(self)
        nanoseconds: float = sum(prices[name] * often for name, often in work.items())
        return nanoseconds / 1e9


PRICES = Prices()
