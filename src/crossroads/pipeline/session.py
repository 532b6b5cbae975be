"""One way to start Spark: embedded by default, a cluster with `--master`.

Whoever already has a session keeps it, with its settings: `spark_session` then returns it as it
is. Only a session that we start gets the settings below.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from crossroads.errors import EnvironmentProblem, TooLittleMemory, UsageError
from crossroads.pipeline.java import Java, find_java, launcher_home
from crossroads.pipeline.machine import available_memory, usable_cores

MIB = 1024 * 1024
# The least that starts Spark and one Python worker without swapping: 512 MiB of heap, about as
# much again for the JVM itself and for Python with pyarrow.
AVAILABLE_MEMORY_MIN = 1024 * MIB
HEAP_MIN = 512 * MIB  # Spark refuses to start below 450 MiB
HEAP_MAX = 8192 * MIB  # nothing of ours grows with the heap; more only makes collections longer
# The rest is for Python workers and for the pages of memory-mapped index files.
HEAP_SHARE = 0.4
TASK_ATTEMPTS = 4  # as on a cluster: a worker that is killed costs its task, not the run
MASTER_ANSWER_SECONDS = 5.0  # to a connection; Spark itself would ask again for a minute
MASTER_PORT = 7077  # where a standalone Master listens unless told otherwise
SHUFFLE_PARTITIONS_PER_CORE = 2  # evens out skew; Spark's own 200 are tiny tasks on one machine


_COUNT = r"(?:\*|[1-9]\d*)"
MASTER_FORMS = re.compile(
    rf"yarn|(?:spark|k8s)://\S+|local(?:\[{_COUNT}(?:,[1-9]\d*)?\])?|local-cluster\[\d+,\d+,\d+\]"
)

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def spark_session(
    master: str | None = None,
    app_name: str = "crossroads",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The active session as it is, or a new one on `master` (default: this machine's cores).

    `settings` are Spark settings that win over ours.
    """
    existing = existing_session()
    if existing is not None:
        return existing
    master = checked_master(master) if master else default_master()
    refuse_unreachable(master)
    java = find_java()
    config = {**session_settings(master, java), **(settings or {})}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in config.items():
        builder = builder.config(name, value)
    # It logs a trace for a connection that ends with its process, besides raising the error.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _environment(_variables(master, java)):
        try:
            return builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise _start_failure(master, error) from error


def existing_session() -> SparkSession | None:
    """Of any thread: `getActiveSession` alone knows only its own."""
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def default_master() -> str:
    # Spelled out instead of `local[*]`: the number that `doctor` shows is the one that is used.
    # A plain `local[N]` gives up when the first task fails.
    return f"local[{usable_cores()},{TASK_ATTEMPTS}]"


def checked_master(master: str) -> str:
    """`master` itself; nonsense is refused here, before a JVM fills the screen with its trace."""
    if not MASTER_FORMS.fullmatch(master):
        raise UsageError(
            f"--master {master} is not a Spark master",
            hint="use for example local[4], spark://host:7077, k8s://https://host:6443 or yarn",
        )
    return master


def is_local(master: str) -> bool:
    """Driver and executors on this machine, in one JVM (`local[2]`) or several."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def local_cores(master: str) -> int:
    """How many tasks such a local master runs at the same time."""
    numbers = re.findall(r"\d+|\*", master)
    if master.startswith("local-cluster"):
        workers, cores, _ = map(int, numbers)
        return max(1, workers * cores)
    if not numbers:
        return 1
    return usable_cores() if numbers[0] == "*" else int(numbers[0])


def standalone_hosts(master: str) -> list[tuple[str, int]]:
    """Host and port of each Master of a standalone cluster; none for other kinds of clusters."""
    if not master.startswith("spark://"):
        return []
    found = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host:
            host, port = address, str(MASTER_PORT)
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"--master {master}: {port!r} is not a port")
        found.append((host.strip("[]"), int(port)))
    return found


def is_loopback(master: str) -> bool:
    """A standalone cluster on this machine: nothing of it needs a network."""
    hosts = [host for host, _ in standalone_hosts(master)]
    return bool(hosts) and all(h in ("localhost", "::1") or h.startswith("127.") for h in hosts)


def refuse_unreachable(master: str) -> None:
    """Spark asks a Master that does not answer for a minute, then fails in the middle of a job."""
    problems = []
    for host, port in standalone_hosts(master):
        try:
            with socket.create_connection((host, port), MASTER_ANSWER_SECONDS):
                return  # one of several is enough: the others stand by
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    if problems:
        raise EnvironmentProblem(
            f"no Spark master answers at {'; '.join(problems)}",
            hint="check the address, and that the Master runs and can be reached from here",
        )


def session_settings(master: str, java: Java) -> dict[str, str]:
    """Every setting of a session that we start, each with its reason."""
    settings = {
        # Meaning: a filter gives what Spark's WHERE gives with these two.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Arrow between the JVM and Python: the batch size that the prototypes were measured
        # with; Spark's own 10,000 pays the cost per batch more often.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A second copy of a task could finish late and put back a part that was since replaced.
        "spark.speculation": "false",
        # Workers keep compiled kernels and the mapped index from one task to the next.
        "spark.python.worker.reuse": "true",
        # LZ4 Parquet crashes Spark's reader under a pushed-down filter; zstd is also smaller.
        "spark.sql.parquet.compression.codec": "zstd",
        # Silence: no web server, no progress bar drawn over ours, only errors in the log.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(_driver_options(java)),
    }
    if is_local(master):
        partitions = usable_cores() * SHUFFLE_PARTITIONS_PER_CORE
        settings |= {
            "spark.driver.memory": f"{heap_bytes(available_memory()) // MIB}m",
            "spark.sql.shuffle.partitions": str(partitions),
        }
    if is_local(master) or is_loopback(master):
        settings |= {
            # Loopback: works without a network and is not reachable from outside.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return settings


def heap_bytes(available: int) -> int:
    """How much of the available memory the driver's heap may take."""
    if available < AVAILABLE_MEMORY_MIN:
        raise TooLittleMemory(
            f"Spark needs {AVAILABLE_MEMORY_MIN // MIB} MiB of free memory, "
            f"{available // MIB} MiB are available",
            hint="close other programs, raise the container's limit, or use --master",
        )
    return max(HEAP_MIN, min(HEAP_MAX, int(available * HEAP_SHARE)))


def _driver_options(java: Java) -> tuple[str, ...]:
    return (
        # As a URI, so that a folder with spaces in its name needs no quoting.
        f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "-Duser.timezone=UTC",
        *java.options,
    )


def _variables(master: str, java: Java) -> dict[str, str]:
    variables = {
        "JAVA_HOME": str(launcher_home(java)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master):
        # Otherwise workers take the system's Python, which has neither us nor pyarrow.
        variables["PYSPARK_PYTHON"] = sys.executable
    else:
        # On a cluster the administrator may know better where Python is.
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if is_local(master) or is_loopback(master):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set while Spark starts, then put back: the process is not ours alone."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start_failure(master: str, error: Exception) -> EnvironmentProblem:
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return EnvironmentProblem(
        f"Spark did not start on {master}: {first_line}",
        hint="`crossroads doctor --spark` shows what is wrong",
    )
