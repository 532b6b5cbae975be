"""What a protocol rides out: its fault contract, as data that a fault injector can read.

A protocol promises nothing about a run in which more went wrong than its contract allows. Such a
run is not wrong, it is **out of contract**: whoever injects faults says so, with the reason, and
whoever judges the run does not hold the protocol to its law.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContract:
    """Everything that may happen to a protocol without breaking its law."""

    words: str  # the contract in a few sentences, for people

    crashes_at_once: int  # members that may crash or leave without a word before repair is done
    repair_ms: int  # how long repair takes once a member is gone; after that the count starts anew
    members_min: int  # with fewer members standing, nothing is promised

    restart_without_disk: bool  # may a node come back having forgotten what it made durable?
    partitions: bool  # may members be unable to reach each other for a while?
    loss_max: float  # the largest share of messages that may be lost on a link
    duplication: bool  # may messages come twice?
    reordering: bool  # may one message overtake another on the same link?
    delay_ms_max: int  # slower than this, link and node together, and the living are taken for dead
    absence_ms_max: int | None = None  # who comes back later has been given up; None: never is


# For things that cannot fail, or that are not asked to survive failure.
NO_FAULTS = FaultContract(
    words="No member fails, no message is lost.",
    crashes_at_once=0,
    repair_ms=0,
    members_min=1,
    restart_without_disk=False,
    partitions=False,
    loss_max=0.0,
    duplication=False,
    reordering=False,
    delay_ms_max=1_000,
)
