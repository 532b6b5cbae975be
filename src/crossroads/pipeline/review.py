"""Every problem of a subscription file: what is rejected and why, and what is odd about the rest.

A row is **rejected** when it cannot be used (broken, no id, an id that another row has too, a
filter we refuse); everything else is good, though there may be a **warning** about it. Counts are
exact; sentences are made only for as many problems as are wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import FilterError
from crossroads.matching.index import MatchIndex
from crossroads.model.scan import scan
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable, read_filters
from crossroads.pipeline.raw import Reject
from crossroads.pipeline.reading import read_rows, read_split
from crossroads.pipeline.remarks import Oddity, remarks_on
from crossroads.pipeline.source import Split, list_files, plan_splits, warnings_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Say = Callable[[str], None]

COLUMNS = ("id", "subscriber", "filter")
BROKEN, DUPLICATE, REFUSED = "broken row", "duplicate id", "filter refused"
SAMPLE_EVENTS_MAX = 20_000  # of the events to try the filters on; more would not change the picture
SAMPLE_BATCH = 4_096  # events at a time: a million filters may give thousands of matches for each
BROAD_SHARE = 0.5  # of the sample; a subscription that takes more is rarely meant
BROAD_EVENTS_MIN = 100  # in a smaller sample half of the events says little
BUSIEST = 5  # subscriptions named as the busiest of the sample
OTHER_LINES = 3  # places named of the rows that have the same id


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing about one row. `position` is a 0-based offset into `filter`."""

    rejected: bool
    kind: str
    file: str
    line: int
    message: str
    id: str | None = None
    filter: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class SampleFindings:
    """How the good subscriptions fared with some events."""

    events: int
    rejected: int
    notifications: int
    silent: int  # good subscriptions that match none of the events
    busiest: list[tuple[str, int]]
    warnings: list[str]


@dataclass(slots=True, kw_only=True)
class Review:
    """`reasons` and `warnings` count rows; a row with two problems counts under both."""

    subscriptions: int
    good: int
    rejected: int
    shapes: int
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    one_by_one: int = 0
    examined: int = 0
    sample: SampleFindings | None = None


def review(
    path: str | Path,
    schema: Schema,
    *,
    events: str | Path | None = None,
    limit: int | None = None,
    say: Say = lambda _: None,
) -> Review:
    """`limit`: problems of each kind to describe, all if None. `say` hears what is being done."""
    splits = None if events is None else plan_splits(list_files(events), schema)  # fails early
    say("reading the subscriptions")
    read = read_rows(path, COLUMNS)
    say(f"reading {read.table.num_rows:,} filters")
    table = read_filters(read.table.column("filter"), schema)
    reviewer = _Reviewer(read.table, table, limit)
    reviewer.broken(read.rejects)
    reviewer.identities()
    reviewer.filters()
    say("looking for odd filters")
    reviewer.oddities()
    if splits is not None:
        say("trying the filters on events")
        reviewer.try_events(splits, say)
    return reviewer.done()


class _Reviewer:
    def __init__(self, rows: pa.Table, table: FilterTable, limit: int | None) -> None:
        self.rows = rows
        self.table = table
        self.limit = limit
        self.rejected = np.zeros(rows.num_rows, np.bool_)
        self.review = Review(subscriptions=rows.num_rows, good=0, rejected=0, shapes=_shapes(self))
        self.described: Counter[str] = Counter()
        self.lines = rows.column("_line").to_numpy()

    def done(self) -> Review:
        review = self.review
        unusable = int(self.rejected.sum())
        review.good = self.rows.num_rows - unusable
        review.rejected += unusable
        review.problems.sort(key=lambda problem: (problem.file, problem.line))
        return review

    # -- rejects -----------------------------------------------------------------------------

    def broken(self, rejects: list[Reject]) -> None:
        self.review.subscriptions += len(rejects)
        self.review.rejected += len(rejects)
        if rejects:
            self.review.reasons[BROKEN] = len(rejects)
        for reject in rejects[: self.limit]:
            self.review.problems.append(
                Problem(
                    rejected=True,
                    kind=BROKEN,
                    file=reject.file,
                    line=reject.line,
                    message=reject.reason,
                )
            )

    def identities(self) -> None:
        for name in COLUMNS:
            missing = _blank(self.rows.column(name))
            self.reject(f"missing {name}", missing, partial(_empty, name))
        ids = self.rows.column("id").combine_chunks()
        encoded = pc.if_else(pa.array(~_blank(ids)), ids, None).dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        counts = np.bincount(codes[codes >= 0], minlength=1)
        repeated = (codes >= 0) & (counts[np.maximum(codes, 0)] > 1)
        if not repeated.any():
            return
        again = np.flatnonzero(repeated)
        order = again[np.argsort(codes[again], kind="stable")]
        sorted_codes = codes[order]

        def others(row: int) -> tuple[str, None]:
            first, last = np.searchsorted(sorted_codes, [codes[row], codes[row] + 1])
            same = [other for other in order[first:last].tolist() if other != row]
            places = ", ".join(self.place(other, row) for other in same[:OTHER_LINES])
            more = f" and {len(same) - OTHER_LINES} more" if len(same) > OTHER_LINES else ""
            return f"the same id stands in {places}{more}; all of them are rejected", None

        self.reject(DUPLICATE, repeated, others)

    def filters(self) -> None:
        wrong = np.zeros(self.rows.num_rows, np.bool_)
        wrong[list(self.table.errors)] = True
        wrong &= ~_blank(self.rows.column("filter"))

        def why(row: int) -> tuple[str, FilterError]:
            error = self.table.errors[row]
            return str(error), error

        self.reject(REFUSED, wrong, why)

    def reject(
        self, kind: str, mask: Bools, why: Callable[[int], tuple[str, FilterError | None]]
    ) -> None:
        rows = np.flatnonzero(mask)
        self.rejected |= mask
        if rows.size:
            self.review.reasons[kind] = rows.size
        for row in rows[: self.limit].tolist():
            message, error = why(row)
            position = None if error is None else error.position
            self.describe(kind, row, message, rejected=True, position=position)

    # -- warnings ----------------------------------------------------------------------------

    def oddities(self) -> None:
        remarks = remarks_on(self.table)
        self.review.one_by_one, self.review.examined = remarks.one_by_one, remarks.examined
        for remark in remarks.found:
            places = np.flatnonzero(~self.rejected[remark.rows])
            self.warn(remark.kind, remark.rows[places], places, remark.describe)

    def warn(
        self, kind: Oddity, rows: Ints, places: Iterable[int], describe: Callable[[int], str]
    ) -> None:
        if not rows.size:
            return
        self.review.warnings[kind.value] += rows.size
        for row, at in zip(rows.tolist(), places, strict=True):
            if self.limit is not None and self.described[kind] >= self.limit:
                return
            self.described[kind] += 1
            self.describe(kind.value, row, describe(int(at)), rejected=False)

    def try_events(self, splits: list[Split], say: Say) -> None:
        index = MatchIndex.build(self.table)
        hits = np.zeros(self.rows.num_rows, np.int64)
        events = rejected = 0
        for split in splits:
            for batch in read_split(split, self.table.schema, SAMPLE_BATCH):
                rejected += len(batch.rejects)
                part = batch.table.slice(0, SAMPLE_EVENTS_MAX - events)
                events += part.num_rows
                found = index.match_batch(part).ordinals
                hits += np.bincount(found, minlength=hits.size)
                say(f"tried {events:,} events")
                if events >= SAMPLE_EVENTS_MAX:
                    break
            if events >= SAMPLE_EVENTS_MAX:
                break
        hits[self.rejected] = 0
        good = ~self.rejected
        busiest = np.argsort(-hits, kind="stable")[:BUSIEST]
        ids = self.rows.column("id")
        self.review.sample = SampleFindings(
            events=events,
            rejected=rejected,
            notifications=int(hits.sum()),
            silent=int((good & (hits == 0)).sum()),
            busiest=[(ids[row].as_py(), int(hits[row])) for row in busiest.tolist() if hits[row]],
            warnings=warnings_of(splits),
        )
        if events < BROAD_EVENTS_MIN:
            return
        broad = np.flatnonzero(good & (hits > BROAD_SHARE * events))
        self.warn(
            Oddity.BROAD,
            broad,
            range(broad.size),
            lambda at: f"it matches {hits[broad[at]]:,} of {events:,} events",
        )

    # -- where -------------------------------------------------------------------------------

    def describe(
        self, kind: str, row: int, message: str, *, rejected: bool, position: int | None = None
    ) -> None:
        self.review.problems.append(
            Problem(
                rejected=rejected,
                kind=kind,
                file=self.rows.column("_file")[row].as_py(),
                line=int(self.lines[row]),
                message=message,
                id=self.rows.column("id")[row].as_py(),
                filter=self.rows.column("filter")[row].as_py(),
                position=position,
            )
        )

    def place(self, row: int, seen_from: int) -> str:
        files = self.rows.column("_file")
        line = f"line {self.lines[row]}"
        same_file = files[row].as_py() == files[seen_from].as_py()
        return line if same_file else f"{files[row].as_py()} {line}"


def _shapes(reviewer: _Reviewer) -> int:
    """Distinct shapes of the filters that could be read."""
    table = reviewer.table
    texts = reviewer.rows.column("filter").take(pa.array(list(table.singles), pa.int64()))
    return len(table.groups) + len({scan(text).shape for text in texts.to_pylist()})


def _empty(name: str, _: int) -> tuple[str, None]:
    return f"{name} is empty", None


def _blank(column: pa.Array | pa.ChunkedArray) -> Bools:
    """NULL, empty, or nothing but blanks."""
    empty = pc.equal(pc.utf8_trim_whitespace(column), "")
    return np.asarray(pc.fill_null(empty, True))
