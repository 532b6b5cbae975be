"""The judge of schemes, on logs written by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from crossroads.node import Command, Delivery
from crossroads.scheme.contract import (
    Gone,
    Leave,
    Notified,
    Publish,
    Published,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from crossroads.testing.law import Crashed, Restarted, Seen, Verdict, judge

PAIR = ("s", "e")
Line = tuple[int, str, Command | Delivery | Crashed | Restarted]

# A subscriber n1 and a publisher n2; every event is wanted unless the filter says "never".
ASKED = (0, "n1", Subscribe("s", "always", None))
IN_FORCE = (50, "n1", Subscribed("s"))
PUBLISHED = (100, "n2", Publish("e", {}))
DONE = (200, "n2", Published("e"))
TOLD = (180, "n1", Notified("s", "e", {}))


def matches(filter_: str, event: Mapping[str, object]) -> bool:
    return filter_ == "always"


def judged(*lines: Line) -> Verdict:
    log = sorted(lines, key=lambda line: line[0])
    return judge([Seen(time, node, what) for time, node, what in log], matches)


def rules(verdict: Verdict) -> list[str]:
    return [violation.rule for violation in verdict.violations]


def test_what_was_in_force_must_be_notified() -> None:
    verdict = judged(ASKED, IN_FORCE, PUBLISHED, DONE, TOLD)
    assert verdict.must == {PAIR} and not verdict.may
    assert verdict.notified == {PAIR} and not verdict.violations
    missed = judged(ASKED, IN_FORCE, PUBLISHED, DONE)
    assert rules(missed) == ["missed"]
    assert missed.violations[0].words == (
        "s of n1 (in force from 50 ms) was not notified of e, published at 100 ms and acknowledged"
    )


def lease(milliseconds: int) -> Line:
    return (0, "n1", Subscribe("s", "always", milliseconds))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            [ASKED, (150, "n1", Subscribed("s")), PUBLISHED, DONE], id="acknowledged late"
        ),
        pytest.param([ASKED, IN_FORCE, (300, "n2", Publish("e", {}))], id="never published"),
        pytest.param(
            [ASKED, IN_FORCE, PUBLISHED, DONE, (150, "n1", Unsubscribe("s"))], id="withdrawn"
        ),
        pytest.param([lease(199), IN_FORCE, PUBLISHED, DONE], id="lease ends too soon"),
        pytest.param([ASKED, IN_FORCE, PUBLISHED, DONE, (150, "n1", Leave())], id="leaves"),
        pytest.param(
            [ASKED, IN_FORCE, PUBLISHED, DONE, (400, "n1", Crashed())], id="gone for good"
        ),
        pytest.param(
            [ASKED, IN_FORCE, PUBLISHED, DONE, (100, "n1", Unsubscribe("s"))], id="at that moment"
        ),
    ],
)
def test_what_overlaps_may_be_notified_or_not(lines: list[Line]) -> None:
    for told in ([], [TOLD if (300, "n2", Publish("e", {})) not in lines else (350, *TOLD[1:])]):
        verdict = judged(*lines, *told)
        assert verdict.may == {PAIR} and not verdict.must
        assert "missed" not in rules(verdict) and "unwanted" not in rules(verdict)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([(250, *ASKED[1:]), (260, *IN_FORCE[1:]), PUBLISHED, DONE], id="asked after"),
        pytest.param(
            [
                *(ASKED, IN_FORCE, PUBLISHED, DONE),
                *((60, "n1", Unsubscribe("s")), (70, "n1", Unsubscribed("s"))),
            ],
            id="over before",
        ),
        pytest.param(
            [ASKED, IN_FORCE, (60, "n1", Leave()), (70, "n1", Gone("asked")), PUBLISHED, DONE],
            id="left before",
        ),
        pytest.param([lease(40), IN_FORCE, PUBLISHED, DONE], id="lease over before"),
        pytest.param(
            [(0, "n1", Subscribe("s", "never", None)), IN_FORCE, PUBLISHED, DONE], id="no"
        ),
        pytest.param([ASKED, (50, "n1", Refused("s", "bad")), PUBLISHED, DONE], id="refused"),
    ],
)
def test_what_is_not_wanted_must_not_be_notified(lines: list[Line]) -> None:
    assert not judged(*lines).violations
    verdict = judged(*lines, (300, *TOLD[1:]))
    assert rules(verdict) == ["unwanted"] and not verdict.must | verdict.may


def test_a_renewed_lease_is_one_subscription() -> None:
    renewed = [(90, "n1", Subscribe("s", "always", 500)), (120, "n1", Subscribed("s"))]
    assert judged(lease(150), IN_FORCE, *renewed, PUBLISHED, DONE).must == {PAIR}
    late = [(160, "n1", Subscribe("s", "always", 500)), (170, "n1", Subscribed("s"))]
    assert judged(lease(150), IN_FORCE, *late, PUBLISHED, DONE).may == {PAIR}


def test_publishing_again_is_the_same_event() -> None:
    again = [(400, "n2", Publish("e", {})), (500, "n2", Published("e"))]
    late = [(300, "n1", Subscribe("t", "always", None)), (350, "n1", Subscribed("t"))]
    verdict = judged(ASKED, IN_FORCE, *late, PUBLISHED, DONE, TOLD, *again)
    assert verdict.must == {PAIR} and verdict.may == {("t", "e")}
    assert not verdict.violations


def test_no_pair_is_notified_twice_or_elsewhere() -> None:
    again = (190, *TOLD[1:])
    assert rules(judged(ASKED, IN_FORCE, PUBLISHED, DONE, TOLD, again)) == ["twice"]
    elsewhere = (190, "n3", Notified("s", "e", {}))
    found = rules(judged(ASKED, IN_FORCE, PUBLISHED, DONE, TOLD, elsewhere))
    assert "elsewhere" in found


def test_a_node_that_crashed_after_telling_may_tell_again() -> None:
    life = [ASKED, IN_FORCE, PUBLISHED, DONE, TOLD]
    back = [(1_000, "n1", Crashed()), (1_100, "n1", Restarted()), (1_200, *TOLD[1:])]
    assert not judged(*life, *back).violations
    later = [(time + 1_000, node, what) for time, node, what in back]
    assert rules(judged(*life, *later)) == ["twice"]


def test_a_subscriber_that_comes_back_must_be_notified() -> None:
    away = [(120, "n1", Crashed()), (900, "n1", Restarted())]
    assert rules(judged(ASKED, IN_FORCE, PUBLISHED, DONE, *away)) == ["missed"]


def test_whoever_asked_and_stayed_is_answered() -> None:
    assert rules(judged(ASKED)) == ["unanswered"]
    assert rules(judged(PUBLISHED)) == ["unanswered"]
    assert rules(judged(ASKED, IN_FORCE, (60, "n1", Unsubscribe("s")))) == ["unanswered"]
    assert not judged(ASKED, (60, "n1", Crashed()), (70, "n1", Restarted())).violations
    assert not judged(PUBLISHED, (120, "n2", Refused("e", "no such attribute"))).violations
