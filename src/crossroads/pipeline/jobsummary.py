"""What is said about a match job: its summary, in numbers, and whether it was to any purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crossroads import __version__
from crossroads.errors import InputError
from crossroads.pipeline.direct import Done, merged
from crossroads.pipeline.keyedjob import said_of
from crossroads.pipeline.planner import WITHOUT_INDEX
from crossroads.pipeline.source import warnings_of

if TYPE_CHECKING:
    from crossroads.pipeline.job import Run

# What the planner foresees: neither its own work nor the start of Spark.
FORESEEN_STAGES = ("subscriptions", "input", "index", "match", "finish")


def summary_of(run: Run) -> dict[str, Any]:
    """Adds to what the stages have said already."""
    total, subscribed = merged(run.done), run.named
    run.summary |= {
        "version": __version__,
        "plan": run.plan,
        "shape": run.notify.shape,
        "per": run.notify.per,
        "format": run.notify.format,
        "counts": {
            "subscriptions": subscribed.usable,
            "subscriptions_rejected": subscribed.rejected,
            "events": total.events,
            "events_rejected": total.rejected,
            "events_repeated": total.repeated,
            "events_outside": total.outside,
            "events_matched": total.matched_events,
            "notifications": total.notifications,
        },
        "seconds": dict(run.seconds),
        "subscription_version": subscribed.version,
        "hashes": {
            "schema": run.schema.hash,
            "subscriptions": subscribed.content_hash,
            "events": run.events_hash.result() if run.events_hash else None,
        },
        "index_bytes": run.index_bytes,
        "splits": len(run.splits),
        "warnings": [*warnings_of(run.splits), *run.sharing.notes(run.files)],
    }
    if run.window is not None:
        run.summary |= {"window": run.window.described()}
        if total.outside and not total.events:
            run.summary["warnings"].append(
                f"no event is inside the window: {total.outside:,} are outside, or have no "
                f"{run.window.attribute}"
            )
    chosen = run.chosen
    if chosen is not None:
        run.summary["warnings"] += chosen.notes
        if chosen.estimates:
            run.summary |= {"predicted": chosen.summary(), "actual": _actual(run, total)}
        if chosen.mapping is not None:
            run.summary |= {"mapping": chosen.mapping, "cells": chosen.cells}
    if run.keyed is not None:
        run.summary |= said_of(run.keyed, run.load)
        run.summary["warnings"] += run.keyed.notes
    return run.summary


def _actual(run: Run, total: Done) -> dict[str, Any]:
    """What came of what was foreseen, under the same names; None where it cannot be compared."""
    per_event = total.notifications / total.events if total.events else 0.0
    return {
        "seconds": round(sum(run.seconds[name] for name in FORESEEN_STAGES), 3),
        "matches_per_event": round(per_event, 3) if run.notify.per == "subscription" else None,
        "index_bytes": run.index_bytes if run.plan not in WITHOUT_INDEX else 0,
    }


def nothing_usable(summary: dict[str, Any]) -> InputError | None:
    """Done, but to no purpose: every subscription or every event was rejected."""
    counts = summary["counts"]
    if not counts["subscriptions"] and not counts["subscriptions_rejected"]:
        return InputError("there are no subscriptions", hint="add rows to the subscriptions file")
    for what in ("subscriptions", "events"):
        unused = counts.get(f"{what}_outside", 0)  # good ones, but not of the window
        if not counts[what] and not unused and counts[f"{what}_rejected"]:
            return InputError(
                f"all {counts[f'{what}_rejected']} {what} were rejected",
                hint=f"the reasons are in rejected_{what}/ of the output",
            )
    return None
