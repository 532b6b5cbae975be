"""Scenario files: prose, commands, and beneath them the trace that is expected.

    # One crossroads serves two subscribers; the event travels once to each.
    network chord bits=5 nodes=1,8,14,20
    show Routed
    lookup n8 26
    ----
    50 n8→n1 Routed key=26 …

A file is a sequence of blocks; each ends with its expectation, after `----`, up to an empty line.
The network lives on from block to block. With `update` the expectations are rewritten as the run
has them, for review. What the network is made of, and which commands it has beside the general
ones, `stages` says.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crossroads.errors import CrossroadsError, ScenarioError
from crossroads.runtime.sim.stage import Stage
from crossroads.runtime.sim.stages import STAGES
from crossroads.runtime.sim.words import Shown, entry_in_words

DIVIDER = "----"
SEED = 1  # the trace is of one run; another seed would be another file
QUIET_MS_MAX = 600_000

Words = list[str]


@dataclass(slots=True)
class Block:
    lines: list[tuple[int, str]] = field(default_factory=list)  # (number, text), prose among them
    expected: list[tuple[int, str]] = field(default_factory=list)


def check_scenario(path: Path, *, update: bool = False) -> None:
    """Raises ScenarioError for the first line that is wrong, or not what happened."""
    blocks = read_blocks(path)
    run = _Run(path.name)
    found = [run.block(block) for block in blocks]
    if update:
        path.write_text(_written(blocks, found), encoding="utf-8")
        return
    for block, trace in zip(blocks, found, strict=True):
        _compare(path.name, block, trace)


# -- reading and writing -------------------------------------------------------------------------


def read_blocks(path: Path) -> list[Block]:
    blocks, block, expecting = [], Block(), False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if text == DIVIDER:
            if expecting:
                raise ScenarioError(
                    f"a second {DIVIDER}", file=path.name, line=number, expected="an empty line"
                )
            expecting = True
        elif expecting and text:
            block.expected.append((number, text))
        elif expecting:
            blocks.append(block)
            block, expecting = Block(), False
        else:
            block.lines.append((number, text))
    if expecting:
        blocks.append(block)
    elif any(text and not text.startswith("#") for _, text in block.lines):
        raise ScenarioError(
            "commands without an expectation",
            file=path.name,
            line=block.lines[-1][0],
            expected=DIVIDER,
        )
    return blocks


def _written(blocks: list[Block], found: list[list[str]]) -> str:
    parts = []
    for block, trace in zip(blocks, found, strict=True):
        lines = [text for _, text in block.lines]
        parts.append("\n".join([*lines, DIVIDER, *trace]))
    return "\n\n".join(parts) + "\n"


def _compare(file: str, block: Block, trace: list[str]) -> None:
    for (number, text), line in zip(block.expected, trace, strict=False):
        if text != line:
            raise ScenarioError(f"found {line!r}", file=file, line=number, expected=repr(text))
    last = block.expected[-1][0] if block.expected else block.lines[-1][0] + 1
    if len(trace) > len(block.expected):
        more = trace[len(block.expected)]
        raise ScenarioError(f"found {more!r}", file=file, line=last + 1, expected="nothing more")
    if len(trace) < len(block.expected):
        number, text = block.expected[len(trace)]
        raise ScenarioError("nothing more happened", file=file, line=number, expected=repr(text))


# -- running -------------------------------------------------------------------------------------


class _Run:
    def __init__(self, file: str) -> None:
        self.file = file
        self.line = 0
        self.stage: Stage | None = None
        self.shown: Shown | None = None  # None: what the stage thinks worth showing
        self.general: Mapping[str, Callable[[Stage, Words], None]] = {
            "join": self._join,
            "leave": self._one(lambda stage, name: stage.leave(name)),
            "crash": self._one(lambda stage, name: stage.simulation.crash(name)),
            "restart": self._restart,
            "wait": self._wait,
            "quiet": self._quiet,
            "slow": self._slow,
            "partition": self._partition,
            "heal": self._heal,
        }

    def block(self, block: Block) -> list[str]:
        """What happened, in words, one line each."""
        before = self._seen()
        for number, text in block.lines:
            self.line = number
            if text and not text.startswith("#"):
                self._command(text)
        if self.stage is None:
            return []
        entries = self.stage.simulation.trace.entries
        assert entries is not None
        shown = self.shown or self.stage.shown
        return [words for entry in entries[before:] if (words := entry_in_words(entry, shown))]

    def _seen(self) -> int:
        return len(self.stage.simulation.trace.entries or ()) if self.stage else 0

    def _command(self, text: str) -> None:
        try:
            name, *words = shlex.split(text)
        except ValueError as broken:
            raise self._error(f"{text!r}: {broken}".lower()) from broken
        try:
            if name == "network":
                self._network(words)
            elif self.stage is None:
                raise self._error(f"{name!r} before there is a network", "network KIND …")
            elif name == "show":
                self.shown = Shown.of(words)
            else:
                self._told(self.stage, name, words)
        except ScenarioError:
            raise
        except CrossroadsError as refused:
            raise self._error(str(refused)) from refused

    def _told(self, stage: Stage, name: str, words: Words) -> None:
        general, special = self.general.get(name), stage.commands.get(name)
        if special is not None:
            if len(words) < special.least:
                raise self._error(f"too little said to {name!r}", special.usage)
            special.run(words)
        elif general is not None:
            general(stage, words)
        else:
            known = ", ".join(sorted({*self.general, *stage.commands, "show"}))
            raise self._error(f"unknown command {name!r}", f"one of {known}")

    # -- general commands ------------------------------------------------------------------

    def _network(self, words: Words) -> None:
        if self.stage is not None:
            raise self._error("a second network", "one per file")
        if not words or words[0] not in STAGES:
            said = words[0] if words else "nothing"
            raise self._error(f"no such network: {said}", f"one of {', '.join(sorted(STAGES))}")
        options = {}
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if not equals:
                raise self._error(f"{word!r} is no option", "name=value")
            options[name] = value
        self.stage = STAGES[words[0]](SEED, options)

    def _join(self, stage: Stage, words: Words) -> None:
        match words:
            case [name]:
                stage.join(name, None)
            case [name, "via", contact]:
                stage.join(name, contact)
            case _:
                raise self._error("cannot join like this", "join NODE [via NODE]")

    def _restart(self, stage: Stage, words: Words) -> None:
        match words:
            case [name]:
                stage.simulation.restart(name)
            case [name, "without", "disk"]:
                stage.simulation.restart(name, disk=False)
            case _:
                raise self._error("cannot restart like this", "restart NODE [without disk]")

    def _wait(self, stage: Stage, words: Words) -> None:
        stage.simulation.run_for(self._number(words, "wait MILLISECONDS"))

    def _quiet(self, stage: Stage, words: Words) -> None:
        if words:
            raise self._error("nothing can be said to 'quiet'", "quiet")
        stage.simulation.run_until_quiet(within=QUIET_MS_MAX)

    def _slow(self, stage: Stage, words: Words) -> None:
        usage = "slow NODE MILLISECONDS"
        stage.simulation.set_slow(words[0] if words else "", self._number(words[1:], usage))

    def _partition(self, stage: Stage, words: Words) -> None:
        if not words:
            raise self._error("nobody to cut off", "partition NODE,NODE …")
        stage.simulation.network.partition(*(word.split(",") for word in words))

    def _heal(self, stage: Stage, words: Words) -> None:
        stage.simulation.network.heal()

    def _one(self, do: Callable[[Stage, str], None]) -> Callable[[Stage, Words], None]:
        def run(stage: Stage, words: Words) -> None:
            if len(words) != 1:
                raise self._error(f"{len(words)} nodes named", "one NODE")
            do(stage, words[0])

        return run

    def _number(self, words: Words, usage: str) -> int:
        if len(words) != 1 or not words[0].isdigit():
            raise self._error(f"{' '.join(words) or 'nothing'!r} is no number", usage)
        return int(words[0])

    def _error(self, message: str, expected: str | None = None) -> ScenarioError:
        return ScenarioError(message, file=self.file, line=self.line, expected=expected)


def scenario_files(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.glob("*.txt")))
