"""The jars of a Kafka broker and of Spark's Kafka connector, brought once by Maven and kept.

They are in no package of PyPI. Maven is asked for exact versions, and its downloads stay in the
user's cache folder; where there is no Maven, or no way to its repository, `JarsMissing` says so.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from crossroads.errors import EnvironmentProblem

KAFKA_VERSION = "3.9.2"  # the client that Spark's connector is built with
DOWNLOAD_SECONDS = 600  # about 60 MB
BROKER = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",)
# The newest release of each that was to be had when this was written, tried with Spark 4.3. One by
# one, without asking what they depend on: all that Spark brings itself is left out.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.apache.commons:commons-pool2:2.13.1",
    "org.scala-lang.modules:scala-parallel-collections_2.13:1.2.0",
)
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


class JarsMissing(EnvironmentProblem):
    """Maven is not here, or cannot reach its repository."""


def broker_jars(environ: Mapping[str, str] = os.environ) -> Path:
    """A folder with everything that the class `kafka.Kafka` needs."""
    return _brought("broker", BROKER, alone=False, environ=environ)


def connector_jars(environ: Mapping[str, str] = os.environ) -> Path:
    """A folder with what Spark needs for `format("kafka")`."""
    return _brought("connector", CONNECTOR, alone=True, environ=environ)


def _brought(
    name: str, coordinates: Sequence[str], *, alone: bool, environ: Mapping[str, str]
) -> Path:
    """The folder appears only when it is complete, under a name that says which versions it has."""
    version = coordinates[0].rpartition(":")[2]
    folder = _cache(environ) / f"kafka-{name}-{version}"
    if folder.is_dir():
        return folder
    if shutil.which("mvn", path=environ.get("PATH")) is None:
        raise JarsMissing("there is no mvn to fetch Kafka with", hint="install Maven")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_suffix(".lock")):
        if not folder.is_dir():  # another process may have been quicker
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                (Path(work) / "pom.xml").write_text(_project(coordinates, alone))
                _run_maven(Path(work), environ)
                (Path(work) / "jars").rename(folder)
    return folder


def _run_maven(work: Path, environ: Mapping[str, str]) -> None:
    command = [
        *("mvn", "--batch-mode", "--quiet", "--strict-checksums"),
        *("dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=work,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JarsMissing(f"mvn did not bring Kafka within {DOWNLOAD_SECONDS} seconds") from error
    if done.returncode or not (work / "jars").is_dir():
        said = (line for line in done.stdout.splitlines() if "ERROR" in line)
        raise JarsMissing(f"mvn could not bring Kafka: {next(said, done.stderr[:200])}")


def _project(coordinates: Sequence[str], alone: bool) -> str:
    wanted = ""
    for group, artifact, version in (one.split(":") for one in coordinates):
        wanted += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{_ALONE if alone else ''}</dependency>\n"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>crossroads</groupId><artifactId>kafka</artifactId><version>1</version>\n"
        f"<dependencies>\n{wanted}</dependencies></project>\n"
    )


def _cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME", "")
    parent = Path(base) if base and Path(base).is_absolute() else Path("~/.cache").expanduser()
    return parent / "crossroads"


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """One process at a time; the system lets go of it when the process ends, however it ends."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
