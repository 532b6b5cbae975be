"""Thousands of cases: `python -m crossroads.testing.campaign` (`make test-sim SEEDS=…`).

    --overlay chord --seeds 1000              the contract of an overlay, one case per seed
    --scheme NAME --from 5000 --seeds 1000    of a scheme, from seed 5000 on
    --planted BUG                             with a bug planted on purpose: it must be found
    --planted all                             each known bug in turn, and the seed that finds it

Without --overlay and --scheme: everything we have, half of the seeds each. Exit code 1 if a case
breaks the law, with the command that replays it; with --planted, if no case does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import Progress

from crossroads.errors import CrossroadsError, UsageError
from crossroads.testing.outcome import Outcome
from crossroads.testing.subjects import Subject, subjects

CHUNK = 8  # cases per hand-out: long enough not to wait for each other, short enough to stop soon
FAILURES_SHOWN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console = Console(highlight=False)
    try:
        if options.seeds < 1 or options.jobs < 1:
            raise UsageError("there must be at least one case, and a process to run it")
        chosen = subjects(overlay=options.overlay, scheme=options.scheme)
        if options.planted:
            return _find_bugs(console, options, chosen)
        share = -(-options.seeds // len(chosen))
        return max(_campaign(console, options, subject, share) for subject in chosen)
    except CrossroadsError as error:
        console.print(f"[red]error:[/] {error}")
        return error.exit_code


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m crossroads.testing.campaign")
    parser.add_argument("--overlay", help="the overlay to test")
    parser.add_argument("--scheme", help="the scheme to test")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many cases")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--planted", default="", help="a bug to plant, or: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args(arguments)


def _campaign(console: Console, options: argparse.Namespace, subject: Subject, seeds: int) -> int:
    ran = messages = outside = 0
    failed: list[Outcome] = []
    with Progress(console=console, transient=True) as progress:
        shown = progress.add_task(str(subject), total=seeds)
        for outcome in _outcomes(subject, options.first, seeds, options.jobs):
            ran += 1
            messages += outcome.messages
            outside += bool(outcome.out_of_contract)
            if outcome.failed:
                failed.append(outcome)
                if len(failed) <= FAILURES_SHOWN:
                    console.print(str(outcome), soft_wrap=True)
            elif seeds == 1:
                console.print(str(outcome), soft_wrap=True)
            progress.advance(shown)
    console.print(
        f"{subject}: {ran} cases from seed {options.first}, {messages:,} messages, "
        f"{outside} out of contract, {len(failed)} break the law",
        soft_wrap=True,
    )
    return 1 if failed else 0


def _find_bugs(console: Console, options: argparse.Namespace, chosen: Sequence[Subject]) -> int:
    missed = 0
    for subject in chosen:
        for bug in sorted(subject.bugs) if options.planted == "all" else [options.planted]:
            planted = subject.with_bug(bug)
            outcomes = _outcomes(planted, options.first, options.seeds, options.jobs)
            found = next((outcome for outcome in outcomes if outcome.failed), None)
            if found is None:
                missed += 1
                words = f"not found in {options.seeds} cases"
            else:
                words = f"found by seed {found.seed}: {found.violations[0]}"
            console.print(f"{planted}: {words}", soft_wrap=True)
    return 1 if missed else 0


def _outcomes(subject: Subject, first: int, seeds: int, jobs: int) -> Iterator[Outcome]:
    """In the order of the seeds, so that what is shown is the same however many work on it."""
    every = range(first, first + seeds)
    if jobs == 1 or seeds <= CHUNK:
        yield from map(subject.run, every)
        return
    # A fresh interpreter for each: nothing of the parent's state can make a run differ.
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, -(-seeds // CHUNK))) as pool:
        yield from pool.imap(subject.run, every, chunksize=CHUNK)


if __name__ == "__main__":
    sys.exit(main())
