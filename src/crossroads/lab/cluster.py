"""A standalone Spark cluster on this machine: a real Master and real Workers on loopback.

    with Cluster(folder) as cluster:
        cluster.start_worker()
        cluster.wait_for_workers(1)
        ... crossroads match --master {cluster.master} ...

For tests and experiments that need what one process cannot show: executors elsewhere, a worker that
dies, a folder that only the driver sees. Every Worker leads a session of its own, so that it can be
stopped or killed with all that it started (executors, Python workers) and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crossroads.errors import EnvironmentProblem
from crossroads.pipeline.java import find_java, launcher_home

HOST = "127.0.0.1"
START_SECONDS_MAX = 120  # a cold JVM on a busy machine
PAUSE_SECONDS = 0.02  # between looks at what another process does
WORKER_CORES = 1  # two workers on a small machine
WORKER_MEMORY = "1536m"  # an executor's heap of 1 GiB, Spark's default, and room for what is off it
_DAEMON_MEMORY = "256m"  # of Master and Worker themselves, which only keep lists
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE = re.compile(r"service 'MasterUI' on port (\d+)")


class Daemon:
    """A Spark process that leads a session of its own, and all that it has started since."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )

    def processes(self) -> list[int]:
        """All living ones of its session, also when it is gone itself."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    status = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(status[3]) == self.process.pid and status[0] != "Z":
                        found.append(int(entry.name))
        return found

    def signal(self, number: int) -> None:
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self) -> None:
        """kill -9 of the whole session, until nothing of it is left."""
        for _ in looks():
            self.signal(signal.SIGKILL)
            if not self.processes():
                break
        self.process.wait()


class Cluster(AbstractContextManager["Cluster"]):
    """A Master and the Workers that were started for it. Not for sharing between threads."""

    def __init__(self, folder: Path) -> None:
        """`folder` takes logs and the scratch files of executors."""
        self.folder = folder
        self.workers: list[Daemon] = []
        self._started = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        words = _spark_class("master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        self._daemon = Daemon(words, self.folder / "master.log")
        try:
            self.master, self._page = self._addresses()
        except BaseException:
            self._daemon.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in list(self.workers):
            self.kill_worker(worker)
        self._daemon.kill()

    def start_worker(self, hidden: Sequence[Path] = ()) -> Daemon:
        """One more Worker. In place of the `hidden` folders it sees empty ones (`can_hide`)."""
        self._started += 1
        work = self.folder / f"worker-{self._started}"
        work.mkdir()
        words = _spark_class(
            "worker.Worker",
            *("--host", HOST, "--port", "0", "--webui-port", "0"),
            *("--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY),
            *("--work-dir", str(work), self.master),
        )
        worker = Daemon(_hiding(hidden, words), self.folder / f"{work.name}.log")
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker: Daemon) -> None:
        worker.kill()
        self.workers.remove(worker)

    def wait_for_workers(self, count: int) -> None:
        """Until the Master counts exactly so many living Workers."""
        for _ in looks():
            if self.status()["aliveworkers"] == count:
                return
            for worker in self.workers:
                if worker.process.poll() is not None:
                    raise EnvironmentProblem(f"a Worker ended: {_last_line(worker.log)}")
        raise EnvironmentProblem(f"there are no {count} Workers after {START_SECONDS_MAX} s")

    def status(self) -> dict[str, Any]:
        """What the Master's page says, as JSON: workers, running and finished applications."""
        with urllib.request.urlopen(f"{self._page}/json/", timeout=START_SECONDS_MAX) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def _addresses(self) -> tuple[str, str]:
        """Both are chosen by the system and told in the log, one after the other."""
        for _ in looks():
            said = self._daemon.log.read_text(errors="replace")
            master, page = _MASTER.search(said), _PAGE.search(said)
            if master and page:
                return master[1], f"http://{HOST}:{page[1]}"
            if self._daemon.process.poll() is not None:
                break
        raise EnvironmentProblem(
            f"a Spark Master did not start: {_last_line(self._daemon.log)}",
            hint=f"its log is {self._daemon.log}",
        )


def looks() -> Iterator[None]:
    """Pauses between looks at something, until it has taken too long."""
    for _ in range(int(START_SECONDS_MAX / PAUSE_SECONDS)):
        yield
        select.select([], [], [], PAUSE_SECONDS)


def can_hide() -> bool:
    """Whether this machine lets us hide a folder from a process (Linux, with mount namespaces)."""
    if shutil.which("unshare") is None or not Path("/proc").is_dir():
        return False
    tried = subprocess.run(
        _hiding([Path(__file__).parent], ["true"]), capture_output=True, check=False
    )
    return tried.returncode == 0


def _hiding(folders: Sequence[Path], words: Sequence[str]) -> list[str]:
    """The command in a mount namespace of its own, an empty file system over each folder."""
    if not folders:
        return list(words)
    mounts = [f"mount -t tmpfs none {shlex.quote(str(folder))}" for folder in folders]
    script = " && ".join([*mounts, shlex.join(["exec", *words])])
    # As root of a user namespace: it then works without being root, where that is permitted.
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script]


def _spark_class(name: str, *words: str) -> list[str]:
    import pyspark

    home = Path(pyspark.__file__).parent
    return [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]


def _environment() -> dict[str, str]:
    java = find_java()
    return {
        **os.environ,
        "JAVA_HOME": str(launcher_home(java)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        # A second way to submit applications, on a port that is always the same.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        # Executors find the package where this process does, installed or not.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def _last_line(log: Path) -> str:
    return (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
