"""`crossroads doctor`: what was found on this machine, what is wrong, and how to mend it."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from crossroads.errors import CrossroadsError

PYTHON_MIN = (3, 11)
TEMP_FREE_MIN = 1024**3  # Spark spills shuffles there; a job of ours rarely needs more than this
GIB = 1024**3

# What a match needs; others are asked for by the command that uses them.
PACKAGES: tuple[str, ...] = (
    "pyspark",
    "pyarrow",
    "numpy",
    "numba",
    "pandas",
    "sqlglot",
    "google-re2",
    "msgspec",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `problem` and `fix` are empty when all is well."""

    subject: str
    found: str
    problem: str = ""
    fix: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem


def examine(*, with_spark: bool = False) -> list[Finding]:
    """Every finding, in the order in which one thing needs the one before."""
    findings = [_python(), *map(_package, PACKAGES), _temp()]
    findings += [
        attempt("Java", _find_java),
        attempt("cores", _count_cores),
        attempt("memory", _measure_memory),
    ]
    if with_spark:
        findings.append(attempt("Spark job", _run_spark_job))
    return findings


def _python() -> Finding:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] < PYTHON_MIN:
        return Finding("Python", found, "older than 3.11", "run `make setup` with a newer Python")
    return Finding("Python", found)


def _package(name: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", "run `make setup`")
    if name == "pyspark" and not version.startswith("4.3."):
        return Finding(
            name, version, "filters promise the answers of Spark 4.3", "run `make setup`"
        )
    if name == "pandas" and int(version.split(".")[0]) >= 3:
        return Finding(name, version, "pyspark 4.3 needs pandas below 3", "run `make setup`")
    return Finding(name, version)


def _temp() -> Finding:
    try:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("temporary files", "none", str(error), "set TMPDIR to a writable folder")
    found = f"{free / GIB:.1f} GiB free in {folder}"
    if free < TEMP_FREE_MIN:
        return Finding("temporary files", found, "less than 1 GiB", "free space, or set TMPDIR")
    return Finding("temporary files", found)


def _find_java() -> str:
    from crossroads.pipeline.java import find_java

    return find_java().describe()


def _count_cores() -> str:
    from crossroads.pipeline.machine import usable_cores

    return str(usable_cores())


def _measure_memory() -> str:
    from crossroads.pipeline.machine import available_memory, total_memory
    from crossroads.pipeline.session import heap_bytes

    available = available_memory()
    sizes = f"{available / GIB:.1f} GiB available of {total_memory() / GIB:.1f} GiB"
    return f"{sizes}; Spark's heap {heap_bytes(available) / GIB:.1f} GiB"


def _run_spark_job() -> str:
    """Start Spark for real and send rows through a Python worker and back."""
    from crossroads.pipeline.session import spark_session

    started = time.perf_counter()
    spark = spark_session(app_name="crossroads doctor")
    ready = time.perf_counter()
    rows = spark.range(1000).mapInArrow(lambda batches: batches, "id bigint").count()
    done = time.perf_counter()
    assert rows == 1000, rows
    master = spark.sparkContext.master
    spark.stop()
    return f"start {ready - started:.1f} s, job {done - ready:.1f} s on {master}"


def attempt(subject: str, find: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, find())
    except CrossroadsError as error:
        return Finding(subject, "not usable", error.message, error.hint or "")
    except Exception as error:
        # A doctor reports what he finds, also what nobody foresaw.
        line = (str(error).strip().splitlines() or [""])[0]
        return Finding(subject, "failed", f"{type(error).__name__}: {line}", "run `make setup`")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a small job (seconds).")
    ] = False,
) -> None:
    """Show what was found on this machine, what is wrong, and how to mend it."""
    findings = examine(with_spark=spark)
    if as_json:
        _print_json(findings)
    else:
        _print_table(findings)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _print_json(findings: list[Finding]) -> None:
    report = {
        "ok": all(finding.ok for finding in findings),
        "findings": [{**asdict(finding), "ok": finding.ok} for finding in findings],
    }
    typer.echo(json.dumps(report, indent=2))


def _print_table(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column()
    table.add_column(overflow="fold")  # a path cut short helps nobody
    for finding in findings:
        mark = "[green]ok[/green]" if finding.ok else "[red]wrong[/red]"
        table.add_row(mark, finding.subject, finding.found)
    console = Console(soft_wrap=True)
    console.print(table)
    for finding in findings:
        if not finding.ok:
            console.print(f"[red]{finding.subject}[/red]: {finding.problem}. {finding.fix}")
    if all(finding.ok for finding in findings):
        console.print("everything needed is here")


def register(app: typer.Typer) -> None:
    app.command()(doctor)
