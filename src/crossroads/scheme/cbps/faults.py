"""What CB-pub/sub rides out: what its overlay does, and no more crashes than it has copies."""

from __future__ import annotations

from dataclasses import replace

from crossroads.faults import FaultContract
from crossroads.scheme.cbps.config import CbpsConfig

WORDS = (
    "Up to copies - 1 members may crash before the copies are made anew, and the overlay's own "
    "contract must hold. A subscriber that crashed comes back with its disk, and soon enough "
    "(absence), or it is given up and its subscriptions with it. Not more than a few newcomers "
    "come in side by side before they are brought up to date. Lost messages are sent again; what "
    "takes too long counts as a crash, and a living member that is taken for dead is outside of "
    "the contract, as are partitions."
)


def fault_contract(overlay: FaultContract, config: CbpsConfig) -> FaultContract:
    return replace(
        overlay,
        words=WORDS,
        crashes_at_once=min(overlay.crashes_at_once, config.copies - 1),
        # Once the overlay is whole again, copies are compared, and what is missing is sent.
        repair_ms=overlay.repair_ms + 2 * config.compare_every_ms + config.pull_retry_ms,
        restart_without_disk=False,
        # Renewed in thirds, so two thirds are left at worst; some of it is for joining anew.
        absence_ms_max=None if config.absence_ms is None else config.absence_ms // 3,
    )
