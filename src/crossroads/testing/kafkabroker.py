"""A real Kafka broker in one Java process on loopback: for tests, and for trying things out.

    with KafkaBroker(folder, broker_jars(), java) as broker:
        broker.create_topic("quotes", partitions=3)
        ...  # broker.servers is what clients connect to

`kill` is kill -9; `start` then goes on with the same data at the same address.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from crossroads.errors import EnvironmentProblem

START_SECONDS = 120.0  # a JVM on a busy machine; five on an idle one
STOP_SECONDS = 20.0
PORTS_TRIED = 3  # a port that was free may be taken before the broker has it
# Started often and for little: a small heap and a compiler that does not try hard.
JAVA_OPTIONS = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""
# The last two: after a kill nobody is let in until the session of the killed one has ended.


class KafkaBroker:
    """One broker that is its own controller (KRaft). `folder` is its alone."""

    def __init__(self, folder: Path, jars: Path, java: Path) -> None:
        self.folder = folder
        self._java = [str(java), *JAVA_OPTIONS, "-cp", f"{jars}/*"]
        self._settings = folder / "server.properties"
        self._log = folder / "broker.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for attempt in range(1, PORTS_TRIED + 1):
            self._choose_ports()
            try:
                if attempt == 1:
                    self._format()
                self.start()
                return self
            except EnvironmentProblem:
                self.kill()
                if attempt == PORTS_TRIED:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Until it answers; with the data and the address that it had before."""
        assert self._process is None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)], stdout=log, stderr=log
            )
        self._wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create_topic(self, name: str, partitions: int = 1) -> None:
        admin = self.admin()  # named: a client that nobody holds gives up what it was asked
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(START_SECONDS)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _choose_ports(self) -> None:
        with socket.socket() as one, socket.socket() as other:
            for each in (one, other):
                each.bind(("127.0.0.1", 0))
            self.port, controller = one.getsockname()[1], other.getsockname()[1]
        data = self.folder / "data"
        self._settings.write_text(SETTINGS.format(port=self.port, controller=controller, data=data))

    def _format(self) -> None:
        """A cluster's storage is prepared once, under an id of its own."""
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        done = subprocess.run(
            [
                *self._java,
                *("kafka.tools.StorageTool", "format"),
                # Joined: an id may begin with a dash.
                *(f"--cluster-id={cluster}", f"--config={self._settings}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EnvironmentProblem(f"Kafka's storage could not be prepared: {done.stderr[-300:]}")

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        admin = self.admin()
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue  # not yet
        tail = self._log.read_text(errors="replace")[-300:].replace("\n", " ")
        raise EnvironmentProblem(f"the Kafka broker did not start: {tail}")
