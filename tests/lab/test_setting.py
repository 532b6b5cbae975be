"""CHORD's setting: what is drawn, and that matching probability means what the document says."""

from __future__ import annotations

import numpy as np
import pytest

from crossroads.lab.chordbulk.regions import key_counts
from crossroads.lab.setting import (
    BITS,
    DOMAIN,
    MAPPINGS,
    PRINTED_SPLIT,
    SUBSCRIPTION_SECONDS,
    dice,
    document_mapping,
    draw_publications,
    draw_subscriptions,
)


def test_the_most_restrictive_range_averages_as_printed():
    drawn = draw_subscriptions(3, 20_000)
    widths = drawn.high - drawn.low + 1
    assert abs(widths.min(axis=1).mean() / DOMAIN - 0.006) < 0.0002
    assert widths.min() >= 1 and widths.max() <= 0.03 * DOMAIN


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("run", [1, 10])
def test_matching_probability_is_that_of_matching_at_least_one(probability, run):
    """By the boxes themselves, not by the index: an event matches a subscription that is there."""
    subscriptions = draw_subscriptions(4, 800)
    drawn = draw_publications(
        subscriptions, 2_000, dice(4, "test"), probability=probability, run=run
    )
    arrived = np.arange(subscriptions.count) * SUBSCRIPTION_SECONDS
    inside = (
        (subscriptions.low <= drawn.values[:, None]) & (drawn.values[:, None] <= subscriptions.high)
    ).all(axis=2) & (arrived <= drawn.seconds[:, None])
    event, subscription = np.nonzero(inside)
    order = np.lexsort((drawn.matched, drawn.matching))
    assert drawn.matching[order].tolist() == event.tolist()
    assert drawn.matched[order].tolist() == subscription.tolist()
    assert abs(inside.any(axis=1).mean() - probability) < 0.04
    assert abs(drawn.seconds[-1] / 2_000 - 5) < 0.5  # Poisson, 5 s on average


def test_the_same_seed_draws_the_same():
    one, other = (draw_publications(draw_subscriptions(7, 50), 60, dice(7, "x")) for _ in range(2))
    assert one.values.tolist() == other.values.tolist()
    assert one.seconds.tolist() == other.seconds.tolist()


def test_keys_are_the_documents():
    drawn = draw_subscriptions(5, 4_000)
    means = {
        name: key_counts(drawn.keys(document_mapping(name)), document_mapping(name).stride).mean()
        for name in (*MAPPINGS, PRINTED_SPLIT)
    }
    assert means["key-space-split"] == means[PRINTED_SPLIT]
    assert abs(means["selective-attribute"] - 2**BITS * 0.006) < 2
    assert document_mapping("key-space-split").stride == 2  # shifted left: all of the ring
    assert drawn.keys(document_mapping(PRINTED_SPLIT)).high.max() <= 2 ** (BITS - 1)


@pytest.mark.parametrize(("interval", "positions"), [(None, 8192), (1_500, 667), (3_000, 334)])
def test_discretization_gives_as_many_positions_as_there_are_intervals(interval, positions):
    mapping = document_mapping("selective-attribute", interval)
    assert {axis.size for axis in mapping.spec.axes} == {positions}
