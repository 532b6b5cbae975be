"""`crossroads generate`: files in every format read back equal, and errors that say what to do."""

import shlex
import subprocess
import sys

import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
import typer
from typer.testing import CliRunner

from crossroads.cli.generate import LateProgress, register
from crossroads.errors import OutputError, UsageError
from crossroads.lab.workloads import mixed, stocks, uniform
from crossroads.model.schema import Schema

SIZES = ["--events", "500", "--subscriptions", "60", "--seed", "3"]
WORKLOADS = {
    "stocks": stocks(3, 500, 60),
    "uniform": uniform(3, 500, 60),
    "mixed": mixed(3, 500, 60),
}


def run(*arguments: object):
    app = typer.Typer()
    register(app)
    # A lone command would become the app itself; the project's app has several.
    app.command("nothing")(lambda: None)
    return CliRunner().invoke(app, ["generate", *map(str, arguments)])


def read(path, schema):
    if path.name.endswith(".parquet"):
        return pyarrow.parquet.read_table(path)
    if ".csv" in path.name:
        options = pyarrow.csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        return pyarrow.csv.read_csv(path, convert_options=options)
    # Arrow's JSON reader has no dates: text is turned into them afterwards.
    found = pyarrow.json.read_json(pyarrow.input_stream(path, compression="detect"))
    return found.cast(schema)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--format", "csv"],
        ["--format", "csv", "--gzip"],
        ["--format", "jsonl"],
        ["--format", "jsonl", "--gzip"],
    ],
    ids=" ".join,
)
def test_every_format_reads_back_equal(name, flags, tmp_path):
    result = run(name, "--output", tmp_path, *SIZES, *flags)
    assert result.exit_code == 0, result.output
    ending = (flags[1] if flags else "parquet") + (".gz" if "--gzip" in flags else "")
    workload = WORKLOADS[name]
    for table, file in ((workload.events(), "events"), (workload.subscriptions(), "subscriptions")):
        assert read(tmp_path / f"{file}.{ending}", table.schema) == table
    schema = Schema.from_toml((tmp_path / "schema.toml").read_text())
    assert schema.names == tuple(workload.events().column_names)


def test_prints_what_was_written_and_the_next_command(tmp_path):
    folder = tmp_path / "my workload"
    result = run("stocks", "--output", folder, *SIZES)
    assert "500 events" in result.output
    assert "60 subscriptions" in result.output
    command = shlex.split(result.output.splitlines()[-1])
    assert command[:2] == ["crossroads", "match"]
    flags = dict(zip(command[2::2], command[3::2], strict=True))
    assert flags == {
        "--schema": str(folder / "schema.toml"),
        "--subscriptions": str(folder / "subscriptions.parquet"),
        "--events": str(folder / "events.parquet"),
        "--output": str(folder / "matches"),
    }


def test_uniform_takes_its_parameters(tmp_path):
    flags = ["--attributes", 2, "--domain", 100, "--selective", 1, "--width-max", 0.5]
    result = run("uniform", "--output", tmp_path, *SIZES, *flags)
    assert result.exit_code == 0, result.output
    events = pyarrow.parquet.read_table(tmp_path / "events.parquet")
    assert events.column_names == ["id", "a1", "a2"]


def test_does_not_overwrite_without_force(tmp_path):
    assert run("uniform", "--output", tmp_path, *SIZES).exit_code == 0
    refused = run("uniform", "--output", tmp_path, *SIZES)
    assert isinstance(refused.exception, OutputError)
    assert "--force" in str(refused.exception)
    assert run("uniform", "--output", tmp_path, *SIZES, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stocks", "--events", "0"], "events must be at least 1, got 0"),
        (["stocks", "--subscriptions", "-5"], "subscriptions must be at least 1, got -5"),
        (["stocks", "--symbols", "0"], "symbols must be at least 1"),
        (["stocks", "--events", "1000000"], "ask for --symbols 797 or more"),
        (["stocks", "--seed", "-1"], "seed must be at least 0"),
        (["uniform", "--width-min", "0.5"], "0 <= width-min <= width-max <= 1"),
        (["uniform", "--selective", "9"], "only 4 attributes"),
        (["mixed", "--gzip"], "leave --gzip out"),
    ],
)
def test_bad_numbers_are_refused_before_anything_is_written(arguments, says, tmp_path):
    result = run(*arguments, "--output", tmp_path / "new")
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_words_for_numbers_are_a_usage_error(tmp_path):
    assert run("stocks", "--output", tmp_path, "--events", "many").exit_code == 2


def test_progress_appears_only_after_two_seconds():
    now = [0.0]
    with LateProgress({"events": 10, "subscriptions": 5}, clock=lambda: now[0]) as progress:
        progress.advance("events", 3)
        assert not progress.shown
        now[0] = 2.5
        progress.advance("events", 3)
        assert progress.shown
        progress.advance("subscriptions", 5)


def test_help_is_quick():
    """Registering commands must not import what only running them needs."""
    code = (
        "import sys, typer; from crossroads.cli.generate import register; register(typer.Typer());"
        "print(sorted({'numpy', 'pyarrow', 'pyspark', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
