"""The table of planted bugs: which seed finds each, and how it shows.

    python -m crossroads.testing.plantedtable docs/planted-bugs.md      (make test-planted)

Every bug that can be planted is searched for, case by case from seed 0, in campaigns that know
nothing of it. Exit code 1 if one stays hidden.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from rich.console import Console

from crossroads.overlay.chord import planted as chord_bugs
from crossroads.scheme.cbps import planted as cbps_bugs
from crossroads.testing.subjects import Subject, subjects

SEEDS_MAX = 2_000

_HEAD = """\
# Planted bugs

Written by `make test-planted`; do not edit. Each bug is a switch that only tests set. A campaign
(`make test-sim`) that does not know of it runs case by case from seed 0 until a case breaks the
law. *Cases* is how many that took; *{max:,}* would be the end of its patience.

| where | bug | what it does | cases | how it showed |
|---|---|---|---|---|
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    console = Console(highlight=False)
    rows: list[str] = []
    hidden = 0
    for subject in subjects(overlay=None, scheme=None):
        meanings = _meanings(chord_bugs if subject.kind == "overlay" else cbps_bugs)
        for bug in sorted(subject.bugs):
            seed, showed = _search(subject.with_bug(bug))
            hidden += seed is None
            cases = f"not in {SEEDS_MAX:,}" if seed is None else str(seed + 1)
            rows.append(f"| {subject} | {bug} | {meanings[bug]} | {cases} | {showed} |")
            console.print(rows[-1], soft_wrap=True)
    if words:
        text = _HEAD.format(max=SEEDS_MAX) + "\n".join(rows) + "\n"
        Path(words[0]).write_text(text, encoding="utf-8")
    return 1 if hidden else 0


def _search(planted: Subject) -> tuple[int | None, str]:
    for seed in range(SEEDS_MAX):
        outcome = planted.run(seed)
        if outcome.failed:
            return seed, _short(outcome.violations[0])
    return None, ""


def _short(text: str, most: int = 160) -> str:
    flat = " ".join(text.replace("|", "/").split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _meanings(module: ModuleType) -> dict[str, str]:
    """The comment above each bug says what it does."""
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in _lines(module):
        name, equals, value = line.partition(" = ")
        if line.startswith("# "):
            comment.append(line.removeprefix("# "))
        else:
            if equals and name.isupper():
                found[value.strip('"')] = " ".join(comment)
            comment = []
    return found


def _lines(module: ModuleType) -> Iterator[str]:
    return iter(inspect.getsource(module).splitlines())


if __name__ == "__main__":
    sys.exit(main())
