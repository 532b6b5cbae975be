"""Running experiments: a sweep on Spark into a folder, and what the folder says about itself.

    DIR/rows/experiment=C5/…        every number of every run (Parquet)
    DIR/summary/experiment=C5/…     means over seeds, with intervals (Parquet)
    DIR/lab.json                    by experiment: scale, seeds, version, when

An experiment that is run again replaces what the folder has of it; the others stay.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import crossroads
from crossroads.errors import InputError, OutputError, UsageError
from crossroads.lab.experiment import Experiment, Scale, Verdict
from crossroads.lab.experiments import EXPERIMENTS, experiment_of
from crossroads.lab.findings import Findings
from crossroads.lab.sweep import Task, read_findings, sweep
from crossroads.pipeline.failures import plainly
from crossroads.pipeline.job import Reporter
from crossroads.pipeline.session import checked_master, spark_session

ABOUT = "lab.json"
SEEDS = {Scale.SMALL: 2, Scale.FULL: 20}  # enough for intervals that are narrower than the effects
SEEDS_MAX = 1_000  # beyond this a number of seeds is a slip of the keyboard


@dataclass(frozen=True)
class Ran:
    """How an experiment in a folder was run."""

    scale: str
    seeds: int
    version: str
    made: str  # a date
    configurations: int


@dataclass(frozen=True)
class Result:
    experiment: Experiment
    ran: Ran
    findings: Findings

    @property
    def verdicts(self) -> list[Verdict]:
        return self.experiment.judge(self.findings)


def run_experiments(
    names: Sequence[str],
    output: Path,
    reporter: Reporter,
    *,
    scale: Scale = Scale.SMALL,
    seeds: int | None = None,
    master: str | None = None,
) -> list[Result]:
    """Measure, write, judge; in the order of the names."""
    experiments = list({one.id: one for one in map(experiment_of, names)}.values())
    if not experiments:
        raise UsageError("no experiment is named", hint=f"choose from {', '.join(EXPERIMENTS)}")
    count = SEEDS[scale] if seeds is None else seeds
    if not 1 <= count <= SEEDS_MAX:
        raise UsageError(f"--seeds must be 1 to {SEEDS_MAX:,}, not {count:,}")
    if master is not None:
        checked_master(master)  # before a folder is made for nothing
    about = _claim(output)
    tasks: list[Task] = []
    for one in experiments:
        chosen = one.configurations(scale, range(1, count + 1))
        tasks += [Task.of(one, configuration) for configuration in chosen]
        today = datetime.now(UTC).date().isoformat()
        ran = Ran(scale.value, count, crossroads.__version__, today, len(chosen))
        about[one.id] = ran
    reporter.stage("spark")
    with plainly():
        spark = spark_session(master)
        reporter.stage("measure")
        sweep(spark, tasks, output, reporter)
    _write_about(output, about)
    return [Result(one, about[one.id], read_findings(output, one.id)) for one in experiments]


def read_results(output: Path) -> list[Result]:
    """All that a folder holds, in the order of the documents."""
    about = _read_about(output)
    if not about:
        raise InputError(
            f"{output} holds no results of the lab",
            hint="make some with: crossroads lab run C5 --output " + str(output),
        )
    return [
        Result(experiment_of(name), about[name], read_findings(output, name))
        for name in EXPERIMENTS
        if name in about
    ]


# -- the folder ------------------------------------------------------------------------------------


def _claim(output: Path) -> dict[str, Ran]:
    """The folder made if it is missing; what is not ours is not written into."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        strange = not (output / ABOUT).exists() and any(output.iterdir())
    except OSError as error:
        raise OutputError(
            f"cannot use {output}: {error.strerror or error}", hint="give another place"
        ) from error
    if strange:
        raise OutputError(
            f"{output} holds files that are not the lab's",
            hint="give an empty folder with --output",
        )
    about = _read_about(output)
    _write_about(output, about)
    return about


def _read_about(output: Path) -> dict[str, Ran]:
    try:
        read = json.loads((output / ABOUT).read_text(encoding="utf-8"))
        return {name: Ran(**one) for name, one in read.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{output / ABOUT} cannot be read: {error}", hint="give another folder, or remove it"
        ) from error


def _write_about(output: Path, about: dict[str, Ran]) -> None:
    """Whole or not at all."""
    half = output / f".{ABOUT}.half"
    half.write_text(
        json.dumps({name: asdict(ran) for name, ran in about.items()}, indent=2) + "\n",
        encoding="utf-8",
    )
    half.replace(output / ABOUT)
