"""The contract suite of overlays: Chord passes it, and it finds the bugs that were planted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crossroads.faults import NO_FAULTS
from crossroads.overlay.chord.planted import ALL as CHORD_BUGS
from crossroads.testing import check_overlay
from crossroads.testing.chordnetwork import chord
from crossroads.testing.overlays import run_overlay_case

SEEDS_MAX = 150  # until the last of the planted bugs was found


def test_chord_keeps_the_contract_of_an_overlay() -> None:
    check_overlay(chord(), range(60))


def test_the_invariant_holds_after_every_step_in_full() -> None:
    check_overlay(chord(thorough=True), range(1_000, 1_010))


@pytest.mark.parametrize("bug", sorted(CHORD_BUGS))
def test_planted_bugs_are_found(bug: str) -> None:
    subject = chord(bug)
    outcomes = (run_overlay_case(subject, seed) for seed in range(SEEDS_MAX))
    found = next((outcome for outcome in outcomes if outcome.failed), None)
    assert found is not None, f"{bug} was not found in {SEEDS_MAX} cases"
    assert f"--overlay chord --planted {bug} --from {found.seed} --seeds 1" in found.replay


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
