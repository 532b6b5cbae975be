"""The diff job: two subscription tables and an archive in, what appears and what vanishes out.

    run_diff(DiffRequest(schema="s.toml", old="old.csv", new="new.csv", events="archive/",
                         output="out"))

Only filters that can make a difference are matched, by the match job itself, into a scratch folder
within the staging folder. The output appears whole or not at all, like that of a match.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from crossroads import __version__
from crossroads.errors import InputError, RejectedInput
from crossroads.model.schema import Schema
from crossroads.pipeline.difference import PAIRS, Asked, Ints, pieces, split
from crossroads.pipeline.job import MatchRequest, Reporter, Silent, read_schema, run_match
from crossroads.pipeline.notify import NOTIFICATIONS
from crossroads.pipeline.output import (
    OutputFolder,
    refuse_overlap,
    write_part,
    write_rejects,
    write_summary,
)
from crossroads.pipeline.planner import Plan
from crossroads.pipeline.source import list_files
from crossroads.pipeline.subscriptions import SubscriptionSet, load_subscriptions
from crossroads.pipeline.versions import Change, Comparison, Kind, compare
from crossroads.pipeline.window import window_of

FOLDERS = ("appeared", "vanished")
LISTED_MAX = 1_000  # subscriptions in summary.json; the table subscriptions/ has them all
REJECTED_EVENTS = "rejected_events"
REJECTED = "rejected_subscriptions"  # of the old table, of the new one
_SCRATCH = "_matching"
_CHANGES = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "kind", "old_subscriber", "new_subscriber")),
        *((name, pa.int64()) for name in ("appeared", "vanished")),
    ]
)


@dataclass(frozen=True, kw_only=True)
class DiffRequest:
    schema: Schema | str | Path
    old: str | Path
    new: str | Path
    events: str | Path
    output: str | Path
    plan: Plan = "auto"
    master: str | None = None
    strict: bool = False
    since: str | None = None
    until: str | None = None
    time: str | None = None


def run_diff(request: DiffRequest, reporter: Reporter | None = None) -> dict[str, Any]:
    """Do it all; the summary, as it stands in summary.json."""
    reporter = reporter or Silent()
    schema = read_schema(request.schema)
    inputs = (request.old, request.new, request.events)
    refuse_overlap(request.output, (request.schema, *inputs))
    window = window_of(schema, request.since, request.until, request.time)
    for given in inputs:
        list_files(given)
    with OutputFolder(request.output) as output:
        reporter.stage("compare")
        old, new = (load_subscriptions(path, schema) for path in (request.old, request.new))
        _refuse_useless(request, old, new)
        comparison = compare(old, new)
        asked = Asked(comparison.changes)
        matched = _match(request, schema, asked, output.staging, reporter)
        reporter.stage("difference")
        appeared, vanished = _write(output.staging, asked, matched)
        _write_changes(output.staging, comparison.changes, appeared, vanished)
        summary = {
            "version": __version__,
            "counts": _counts(comparison, appeared, vanished, old, new),
            "events": _events(matched),
            "plan": None if matched is None else matched["plan"],
            "window": None if window is None else window.described(),
            "hashes": {
                "schema": schema.hash,
                "old": old.content_hash,
                "new": new.content_hash,
                "events": None if matched is None else matched["hashes"]["events"],
            },
            "subscriptions": _listed(comparison.changes, appeared, vanished),
            "warnings": [] if matched is None else matched["warnings"],
        }
        _keep_rejects(output.staging)
        for which, table in (("old", old), ("new", new)):
            if table.rejects:
                write_rejects(output.staging / f"{REJECTED}_{which}", table.rejects, "parquet")
        write_summary(output.staging, summary)
        output.commit()
    return summary


def _refuse_useless(request: DiffRequest, old: SubscriptionSet, new: SubscriptionSet) -> None:
    for path, table in ((request.old, old), (request.new, new)):
        rejects = table.rejects
        if rejects and request.strict:
            raise RejectedInput(
                f"{len(rejects)} subscriptions of {path} were rejected, and --strict was given: "
                f"nothing was written. First: {rejects[0].file}:{rejects[0].line}: "
                f"{rejects[0].reason}",
                hint="`crossroads check` lists every problem",
            )
        if rejects and not table.usable:
            raise InputError(
                f"all {len(rejects)} subscriptions of {path} were rejected",
                hint=f"the first because {rejects[0].reason}",
            )


def no_usable_event(summary: dict[str, Any]) -> InputError | None:
    """Compared, but to no purpose: every event was rejected."""
    events = summary["events"]
    if events is None or events["used"] or events["outside"] or not events["rejected"]:
        return None
    return InputError(
        f"all {events['rejected']:,} events were rejected: nothing is known of the difference",
        hint=f"the reasons are in {REJECTED_EVENTS}/ of the output",
    )


def _match(
    request: DiffRequest, schema: Schema, asked: Asked, staging: Path, reporter: Reporter
) -> dict[str, Any] | None:
    """The summary of the match; None if there is nothing to ask."""
    if not asked.texts:
        return None
    scratch = staging / _SCRATCH
    scratch.mkdir()
    pq.write_table(asked.table(), scratch / "asked.parquet")
    return run_match(
        MatchRequest(
            schema=schema,
            subscriptions=scratch / "asked.parquet",
            events=request.events,
            output=scratch / "out",
            plan=request.plan,
            master=request.master,
            strict=request.strict,
            since=request.since,
            until=request.until,
            time=request.time,
        ),
        reporter,
    )


def _write(staging: Path, asked: Asked, matched: dict[str, Any] | None) -> tuple[Ints, Ints]:
    """Both tables; of each change how many notifications appear, and how many vanish."""
    counts = (np.zeros(len(asked.changes), np.int64), np.zeros(len(asked.changes), np.int64))
    if matched is None:
        found = iter([PAIRS.empty_table()])
    else:
        answer = ds.dataset(staging / _SCRATCH / "out" / NOTIFICATIONS, format="parquet")
        found = pieces(answer, matched["counts"]["notifications"])
    for number, piece in enumerate(found):
        for folder, told, one in zip(FOLDERS, counts, split(piece, asked), strict=True):
            write_part(staging / folder, number, one.table, "parquet")
            told += one.counts
    return counts


def _counts(
    comparison: Comparison,
    appeared: Ints,
    vanished: Ints,
    old: SubscriptionSet,
    new: SubscriptionSet,
) -> dict[str, Any]:
    same = sum(
        change.kind is Kind.FILTER and not appeared[at] and not vanished[at]
        for at, change in enumerate(comparison.changes)
    )
    return {
        "appeared": int(appeared.sum()),
        "vanished": int(vanished.sum()),
        "subscriptions": comparison.counts() | {"filter changed, same answer": same},
        "rejected_old": len(old.rejects),
        "rejected_new": len(new.rejects),
    }


def _events(matched: dict[str, Any] | None) -> dict[str, int] | None:
    """What was read of the archive: nothing, if no filter had to be asked."""
    if matched is None:
        return None
    counts = matched["counts"]
    return {
        "used": counts["events"],
        "rejected": counts["events_rejected"],
        "outside": counts["events_outside"],
    }


def _listed(changes: Sequence[Change], appeared: Ints, vanished: Ints) -> list[dict[str, Any]]:
    """Those with the most to tell; in all, so many as a person or a page can take in."""
    most = np.argsort(-(appeared + vanished), kind="stable")[:LISTED_MAX]
    return [_row(changes[at], int(appeared[at]), int(vanished[at])) for at in most.tolist()]


def _row(change: Change, appeared: int, vanished: int) -> dict[str, Any]:
    return {
        "id": change.id,
        "kind": change.kind.value,
        "old_subscriber": change.old_subscriber,
        "new_subscriber": change.new_subscriber,
        "appeared": appeared,
        "vanished": vanished,
    }


def _write_changes(
    staging: Path, changes: Sequence[Change], appeared: Ints, vanished: Ints
) -> None:
    rows = [
        _row(change, int(a), int(v))
        for change, a, v in zip(changes, appeared, vanished, strict=True)
    ]
    write_part(staging / "subscriptions", 0, pa.Table.from_pylist(rows, schema=_CHANGES), "parquet")


def _keep_rejects(staging: Path) -> None:
    """Of the match, the rejected events stay; everything else has served."""
    rejected = staging / _SCRATCH / "out" / REJECTED_EVENTS
    if rejected.exists():
        rejected.rename(staging / REJECTED_EVENTS)
    shutil.rmtree(staging / _SCRATCH, ignore_errors=True)
