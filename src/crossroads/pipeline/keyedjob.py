"""Plan `keyed` as stages of the match job: what it asks, what it adds to the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crossroads.errors import UsageError
from crossroads.mapping.fit import check_name
from crossroads.model.schema import Schema
from crossroads.pipeline.indexstore import IndexStore
from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.source import list_files, plan_splits
from crossroads.pipeline.storefolder import Folder

if TYPE_CHECKING:
    from crossroads.pipeline.job import MatchRequest, Run
    from crossroads.pipeline.keyedset import KeyedSet

BY_KEYS = ("sql", "keyed")  # plans whose sides meet by the keys of a mapping


def check_keys(request: MatchRequest, schema: Schema) -> None:
    """Refuse what cannot work, as far as that is known before Spark starts."""
    asked = {
        "--mapping": (request.mapping, BY_KEYS),
        "--cells": (request.cells, BY_KEYS),
        "--index-store": (request.index_store, BY_KEYS[1:]),
    }
    for flag, (given, plans) in asked.items():
        if given is not None and request.plan not in plans:
            raise UsageError(
                f"{flag} says nothing to --plan {request.plan}",
                hint=f"use it with --plan {' or --plan '.join(plans)}, or leave it out",
            )
    if request.mapping is not None:
        check_name(request.mapping)
    if request.cells is not None and request.cells < 1:
        raise UsageError(f"--cells {request.cells}: there must be at least one")
    if request.index_store is not None:
        store = IndexStore(Folder.of(request.index_store))
        store.pinned(schema, request.mapping, request.cells)


def find_or_build(run: Run, split_bytes: int) -> KeyedSet:
    """The index of every cell, from the index store or built by Spark's workers."""
    from crossroads.pipeline.keyedset import Wanted, keyed_set

    assert run.chosen is not None
    files = list_files(run.request.subscriptions)
    wanted = Wanted(
        schema=run.schema,
        files=files,
        splits=plan_splits(files, None, split_bytes),
        events=run.splits,
        mapping=run.chosen.mapping,
        cells=run.chosen.cells,
        store=run.request.index_store,
    )
    found = keyed_set(run.spark, wanted, run.output.staging)
    for number, rejects in found.rejects():
        folder = run.output.staging / "rejected_subscriptions"
        write_rejects(folder, rejects, run.notify.format, number)
    return found


def said_of(keyed: KeyedSet, load: dict[str, Any] | None) -> dict[str, Any]:
    """For summary.json."""
    return {
        "mapping": keyed.pinned.mapping.name,
        "cells": keyed.pinned.cells.count,
        "index": "reused" if keyed.reused else "built",
        "load": load,
    }
