"""The campaign in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.kill.attacked import POINTS, VICTIMS
from tests.kill.siege import Result

SHOWN = 3  # rows of a kind that are named

_HEAD = """\
# The kill campaign

Written by `make test-kill`; do not edit. One stream per sink matches small files of events against
subscriptions that keep changing, and is killed (`kill -9`) again and again: its driver (Python),
the JVM, a Python worker, or the daemon that makes workers. After the death of a driver or a JVM it
is started again on its checkpoint. Some event ids are published twice, some lines are broken, some
subscriptions expire. In the end all that is in the sink is compared with the definition at the
`subscription_version` that was recorded for each batch, and so are the rejects.

"""

_POINTS = """\
Where the kills hit, by what was on disk afterwards. *starting*: before the first batch of that run.
*planned*: the batch was recorded, nothing matched. *matching*: parts were being written. *at the
sink*: the outcome was durable, delivery under way. *delivered*: all done, and Spark's commit was
missing. For workers and daemons, which the stream survives, the point that was waited for.

"""


def page(proved: Sequence[Result], controls: Sequence[Result], seconds: float, seed: int) -> str:
    hits = sum(len(result.hits) for result in proved)
    pairs = sum(result.pairs for result in proved)
    lost = sum(result.lost.total() for result in proved)
    extra = sum(result.extra.total() for result in proved)
    again = sum(hit.replayed for result in proved for hit in result.hits)
    words = (
        f"**{hits} kills, {again} batches replayed, {pairs:,} pairs checked: "
        f"{lost} lost, {extra} duplicate.** Seed {seed}, {seconds / 60:.0f} minutes.\n\n"
    )
    lines = [_HEAD, words, *_sinks(proved), "\n## Where\n\n", _POINTS, *_points(proved)]
    if controls:
        lines += [*_controls(controls)]
    return "".join(lines)


def _sinks(results: Sequence[Result]) -> Iterator[str]:
    yield "| sink | kills | starts | batches | replayed | versions | events | pairs | lost "
    yield f"| twice |\n|{'---|' * 10}\n"
    for one in results:
        again = sum(hit.replayed for hit in one.hits)
        yield (
            f"| {one.sink} | {len(one.hits)} | {one.lives} | {one.batches} | {again} | "
            f"{one.versions} | {one.events:,} | {one.pairs:,} | {one.lost.total()} | "
            f"{one.extra.total()} |\n"
        )


def _points(results: Sequence[Result]) -> Iterator[str]:
    yield f"| sink | victim | {' | '.join(POINTS)} |\n|---|---|{'---|' * len(POINTS)}\n"
    for one in results:
        counts = Counter((hit.victim, hit.found) for hit in one.hits)
        for victim in VICTIMS:
            cells = " | ".join(str(counts[victim, point] or "") for point in POINTS)
            yield f"| {one.sink} | {victim} | {cells} |\n"


def _controls(results: Sequence[Result]) -> Iterator[str]:
    yield "\n## The same with idempotence switched off\n\n"
    yield 'Sinks without a memory (`delivery="at-least-once"`), killed after the delivery and\n'
    yield "before Spark's commit. Here duplicates must appear, or the campaign could not fail.\n\n"
    yield "| sink | kills | pairs | lost | twice |\n|---|---|---|---|---|\n"
    for one in results:
        counts = f"{one.pairs:,} | {one.lost.total()} | {one.extra.total():,}"
        yield f"| {one.sink} | {len(one.hits)} | {counts} |\n"


# -- on the terminal -------------------------------------------------------------------------------


def result_line(one: Result) -> str:
    return (
        f"{one.sink}: {len(one.hits)} kills, {one.lives} starts, {one.batches} batches, "
        f"{one.versions} versions, {one.events:,} events, {one.pairs:,} pairs: "
        f"{one.lost.total()} lost, {one.extra.total()} duplicate"
    )


def control_line(one: Result) -> str:
    return (
        f"{one.sink} without idempotence: {len(one.hits)} kills, {one.pairs:,} pairs: "
        f"{one.lost.total()} lost, {one.extra.total()} duplicate"
    )


def problems_of(one: Result) -> Iterator[str]:
    for what, rows in (("lost", one.lost), ("too many", one.extra)):
        for row, count in list(rows.items())[:SHOWN]:
            yield f"{what}: {row} ×{count}"
    if one.rejects_differ:
        yield f"{one.rejects_differ} rejects differ"
    if one.unread:
        yield f"{one.unread} files were never in a batch"
    yield from one.problems
