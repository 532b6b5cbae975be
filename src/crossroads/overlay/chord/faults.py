"""What Chord rides out."""

from __future__ import annotations

from crossroads.faults import FaultContract
from crossroads.overlay.chord.config import ChordConfig

WORDS = (
    "Members may join at any time, and up to r - 1 may crash or leave before the ring is whole "
    "again, while more than r members stand that nobody's successor list leaves out. A ring that "
    "grows from one member rides out failures once it has more than r. Messages may be repeated "
    "and overtake each other; lost ones are asked for again a few times, and a member silent for "
    "longer counts as gone. A partition looks like a failure of the other side and is not healed."
)


def fault_contract(config: ChordConfig) -> FaultContract:
    return FaultContract(
        words=WORDS,
        crashes_at_once=config.successors - 1,
        # Notice a silence (twice, if the next one is gone too), and tell r members down the ring.
        repair_ms=(config.successors + 2) * (config.silence_ms + 2 * config.stabilise_every_ms),
        members_min=config.successors + 1,
        restart_without_disk=True,  # nothing of the ring is on it
        partitions=False,
        loss_max=0.0,
        duplication=True,
        reordering=True,
        # Two ways within the time for an answer, with some room for the node to think.
        delay_ms_max=config.answer_within_ms // 2 - 10,
    )
