"""`crossroads schema infer`: what it prints is a schema, and it says what it is unsure of."""

from __future__ import annotations

import gzip
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from crossroads.cli import main, schema
from crossroads.model.schema import Schema
from crossroads.pipeline.reading import read_split
from crossroads.pipeline.source import list_files, plan_splits


def infer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    schema.register(app)
    with pytest.raises(SystemExit) as left:
        main.run(["schema", "infer", *arguments], app)
    shown = capsys.readouterr()
    return int(left.value.code or 0), shown.out, shown.err


def types(text: str) -> dict[str, str]:
    return {each.name: str(each.type) for each in Schema.from_toml(text).attributes}


def test_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "quotes.csv"
    rows = [f"{1 + n // 5}-02-2001,S{n % 5},{n}.5,{n},{n * 10**9},true,0{n},," for n in range(20)]
    file.write_text("day,symbol,open,small,large,up,zip,empty,_x\n" + "\n".join(rows) + "\n")
    code, out, _ = infer(capsys, str(file))
    assert code == 0
    assert types(out) == {
        "day": "date",
        "symbol": "string",
        "open": "double",
        "small": "int",
        "large": "bigint",
        "up": "boolean",
        "zip": "string",
        "empty": "string",
    }
    inferred = Schema.from_toml(out)
    assert inferred.name == "quotes"
    assert inferred.attribute("day").format == "%d-%m-%Y"
    assert inferred.id == ("day", "symbol")
    assert "# inferred from 20 rows: check before use" in out
    assert "# id: a guess (day, symbol is unique in the sample)" in out
    assert "# left out: '_x' (a name must not be empty, begin with _ or contain `)" in out
    assert "0.5 to 19.5" in out
    assert "day and month could be the other way round" in out
    assert "only NULL in the sample" in out
    # and the file can be read with what came out
    (split,) = plan_splits(list_files(file), inferred)
    (batch,) = read_split(split, inferred)
    assert batch.table.num_rows == 20


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(
        gzip.compress(
            b'{"at": "2001-02-03T04:05:06Z", "order": {"total": 1, "to": "http://x.org/1"}}\n'
            b"broken\n"
            b'{"at": "2001-02-03T04:05:07Z", "order": {"total": 2.5}, "mixed": 1, "l": [1]}\n'
            b'{"at": "2001-02-03T04:05:08+01:00", "n": "1", "mixed": "a", "id": 1}\n'
        )
    )
    code, out, _ = infer(capsys, str(file), "--name", "orders")
    assert code == 0
    assert types(out) == {
        "at": "timestamp",
        "order.total": "double",
        "order.to": "url",
        "mixed": "int",
        "n": "string",
        "id": "bigint",
    }
    assert "1 values do not fit and would be rejected" in out
    assert "# left out: 'l' (lists and objects hold no value)" in out
    assert Schema.from_toml(out).id == ("at",)
    assert Schema.from_toml(out).name == "orders"


def test_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table(
        {
            "d": [date(2001, 1, n) for n in range(1, 10)],
            "event_id": pa.array(range(9), pa.int32()),
            "m": [Decimal("1.50")] * 9,
            "s": pa.array([{"x": 1.5, "y": "12"}] * 9),
            "u": pa.array(range(9), pa.uint64()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    code, out, _ = infer(capsys, str(tmp_path))
    assert code == 0
    assert types(out) == {
        "d": "date",
        "event_id": "int",
        "m": "decimal(3,2)",
        "s.x": "double",
        "s.y": "string",
        "u": "decimal(20,0)",
    }
    assert "# id: event_id, for its name; unique in the sample" in out


def test_the_id_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,1\n1,2\n,3\n")
    _, out, _ = infer(capsys, str(tmp_path), "--id", "B")
    assert Schema.from_toml(out).id == ("b",)
    assert "# id: as asked; unique in the sample" in out
    _, out, _ = infer(capsys, str(tmp_path), "--id", "a")
    assert "# id: as asked; 2 rows of the sample lack or repeat one" in out
    code, _, err = infer(capsys, str(tmp_path), "--id", "c")
    assert code == 1
    assert "error: no attribute 'c'" in err


def test_nothing_is_unique(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,1\n1,1\n")
    _, out, _ = infer(capsys, str(tmp_path))
    assert "# id: no set of columns is unique in the sample; choose yourself with --id" in out


def test_nothing_to_learn_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    code, out, err = infer(capsys, str(tmp_path))
    assert code == 1
    assert out == ""
    assert err.startswith("error: ")
    assert "has no rows to learn from" in err
    code, _, err = infer(capsys, str(tmp_path / "missing.csv"))
    assert code == 1
    assert "does not exist" in err
