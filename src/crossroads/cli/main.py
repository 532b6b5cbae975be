"""The `crossroads` command: its subcommands, and how errors become one line and an exit code.

Exit codes: 0 done (zero matches too), 1 nothing usable or failed, 2 usage, 3 rejected under
`--strict`, 130 interrupted.

Rule: a command module imports what is heavy (pyspark, pyarrow, numba) inside its functions, so
that `crossroads --help` answers at once. tests/test_project.py holds it to that.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import Annotated, NoReturn

import typer

import crossroads
from crossroads.errors import CrossroadsError

# In the order in which `--help` lists them: first the job, then what helps with it.
COMMANDS: tuple[str, ...] = (
    "match",
    "stream",
    "backfill",
    "diff",
    "versions",
    "check",
    "advise",
    "explain",
    "try_",
    "demo",
    "schema",
    "generate",
    "lab",
    "doctor",
)

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it

DEBUG_FLAG = "--debug"


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="crossroads",
        help="Find every match between a table of subscriptions and a table of events.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # `run` below turns errors into one line
        rich_markup_mode="rich",
    )
    app.callback()(_options_of_all_commands)
    for name in COMMANDS:
        importlib.import_module(f"crossroads.cli.{name}").register(app)
    return app


def _options_of_all_commands(
    debug: Annotated[
        bool, typer.Option(DEBUG_FLAG, help="Show the stack trace of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=lambda wanted: _show_version() if wanted else None,
        ),
    ] = False,
) -> None:
    # Both are handled elsewhere: --debug by `run`, --version by its callback.
    del debug, version


def _show_version() -> NoReturn:
    typer.echo(f"crossroads {crossroads.__version__}")
    raise typer.Exit


def run(arguments: list[str] | None = None, app: typer.Typer | None = None) -> NoReturn:
    """Run the command line (of `app`, by default ours) and leave with its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    # People add --debug to the end of the line that failed: it is welcome anywhere before `--`.
    options_end = words.index("--") if "--" in words else len(words)
    debug = DEBUG_FLAG in words[:options_end]
    words = [w for w in words[:options_end] if w != DEBUG_FLAG] + words[options_end:]
    try:
        # Leaves by SystemExit, after usage errors too.
        (app or build_app())(args=words, prog_name="crossroads")
    except CrossroadsError as error:
        code = _report(str(error), error, debug, error.exit_code)
    except KeyboardInterrupt as error:
        code = _report("interrupted", error, debug, EXIT_INTERRUPTED)
    except Exception as error:
        code = _report(_unexpected(error, debug), error, debug, EXIT_FAILED)
    else:
        code = 0
    sys.exit(code)


def _report(line: str, error: BaseException, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exception(error)
    typer.echo(f"error: {line}", err=True)
    return code


def _unexpected(error: Exception, debug: bool) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    named = f"{type(error).__name__}: {first}" if first else type(error).__name__
    advice = "" if debug else f" (unexpected; run again with {DEBUG_FLAG} to see where)"
    return f"{named}{advice}"
