"""The law of a scheme under churn, on CB-pub/sub. More of it: `make test-sim SEEDS=100000`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crossroads.testing import check_scheme
from crossroads.testing.cbpsnetwork import CBPS, cbps

OTHERS = ["attribute-split", "key-space-split", "hilbert", "string-tree"]


@pytest.mark.parametrize("first", range(0, 1_000, 50))
def test_the_law_under_churn(first: int) -> None:
    check_scheme(cbps(), range(first, first + 50))


@pytest.mark.parametrize("mapping", OTHERS)
def test_the_law_by_other_mappings(mapping: str) -> None:
    check_scheme(cbps(mapping=mapping), range(1_000, 1_008))


@pytest.mark.parametrize("collect", [False, True])
def test_the_law_with_buffered_and_collected_notifications(collect: bool) -> None:
    config = replace(CBPS, buffer_ms=300, collect=collect)
    check_scheme(cbps(config=config), range(2_000, 2_012))


def test_the_law_with_notifications_by_multicast() -> None:
    check_scheme(cbps(config=replace(CBPS, notify_by="multicast")), range(3_000, 3_008))


def test_the_law_with_two_copies_and_one_crash_at_a_time() -> None:
    """The fewest copies: a newcomer's are with the one that took it in, and only there."""
    check_scheme(cbps(config=replace(CBPS, copies=2)), range(4_000, 4_016))
