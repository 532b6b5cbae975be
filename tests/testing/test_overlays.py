"""The contract suite of overlays, on Chord. (That it finds bugs: tests/scheme/test_planted.py.)"""

from __future__ import annotations

from dataclasses import replace

import pytest

from crossroads.faults import NO_FAULTS
from crossroads.testing import check_overlay
from crossroads.testing.chordnetwork import chord
from crossroads.testing.overlays import run_overlay_case


def test_chord_keeps_the_contract_of_an_overlay() -> None:
    check_overlay(chord(), range(60))


def test_the_invariant_holds_after_every_step_in_full() -> None:
    check_overlay(chord(thorough=True), range(1_000, 1_003))


def test_a_violation_comes_with_its_replay() -> None:
    with pytest.raises(AssertionError, match="--planted multicast-twice --from 3 --seeds 1"):
        check_overlay(chord("multicast-twice"), [3])


def test_a_run_out_of_contract_is_not_held_to_the_law() -> None:
    """The same faults under a contract that allows none: the label says why."""
    subject = chord()
    rough = run_overlay_case(subject, 5)
    assert rough.out_of_contract == () and not rough.violations
    calm = run_overlay_case(replace(subject, faults=NO_FAULTS), 5)
    assert calm.out_of_contract == ()  # nothing is drawn that the contract excludes
    assert calm.digest != rough.digest
