"""One stream, killed again and again while events and changes keep coming; then compared.

    siege = Siege(folder, sink="sqlite", seed=7)
    result = siege.run(kills)

Each kill has a victim and a point in the life of a batch that is waited for. Driver and JVM take
the stream with them, and it is started again on its checkpoint; a worker it has to survive.
"""

from __future__ import annotations

import random
import select
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kill.attacked import (
    BETWEEN,
    DELIVERED,
    FATAL,
    MATCHING,
    PLANNED,
    SINK,
    STARTING,
    Attacked,
    Looking,
)
from tests.kill.places import Place, place_of, rejected_changes, rejects_in
from tests.kill.world import Told, World

LOOK_SECONDS = 0.002  # between looks at the checkpoint
POINT_SECONDS_MAX = 900.0  # until a batch has come to the point that is waited for
BATCHES_OF_PEACE = 12  # fewer than that, before a kill: Spark compacts its log at every tenth
FILES_AHEAD = 6  # published and not yet in a finished batch
BATCHES_PER_CHANGE = 3  # subscriptions change all the time, but that is not what is tested
STARTS_MAX = 5  # in a row that end by themselves before they have done anything
LAST_SECONDS_MAX = 900.0

DELIVERY = ("exactly-once", "at-least-once")


@dataclass(frozen=True)
class Kill:
    victim: str
    point: str
    delay_ms: int = 0  # after the point was seen
    at_once: bool = False  # from the start on: the replay of a batch counts too
    after: int = 0  # batches that are left in peace first


@dataclass(frozen=True)
class Hit:
    """A kill that was carried out, and what it found."""

    victim: str
    found: str  # the point the batch was at when the stream had ended
    replayed: bool  # a batch has to be done again


@dataclass
class Result:
    sink: str
    hits: list[Hit]
    lives: int
    batches: int
    versions: int
    events: int
    pairs: int
    lost: Told
    extra: Told  # told twice, or never to be told
    rejects_differ: int
    unread: int
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.extra or self.rejects_differ or self.unread or self.problems)


def random_kills(dice: random.Random, count: int) -> list[Kill]:
    """Every point for the fatal ones; a worker is at work only while a batch is matched."""
    kills = []
    for number in range(count):
        victim = ("driver", "java", "worker", "driver", "java", "daemon")[number % 6]
        at_once = dice.random() < 0.4
        if victim in FATAL:
            point = dice.choice((BETWEEN, PLANNED, MATCHING, MATCHING, SINK, SINK, DELIVERED))
            point = STARTING if dice.random() < 0.08 else point
        else:
            point = dice.choice((PLANNED, MATCHING, BETWEEN))
        if point == STARTING:
            delay = dice.randrange(500, 9_000)
        else:
            delay = dice.choice((0, 0, dice.randrange(20), dice.randrange(400)))
        peace = 0 if at_once or point == STARTING else dice.randrange(BATCHES_OF_PEACE)
        kills.append(Kill(victim, point, delay, at_once, peace))
    dice.shuffle(kills)
    return kills


def harmful_kills(dice: random.Random, count: int) -> list[Kill]:
    """After the sink, before Spark knows: what a sink without a memory cannot survive."""
    return [
        Kill(dice.choice(FATAL), dice.choice((SINK, DELIVERED, DELIVERED)), dice.randrange(15))
        for _ in range(count)
    ]


class Siege:
    def __init__(
        self,
        folder: Path,
        sink: str,
        seed: int,
        *,
        delivery: str = "exactly-once",
        tell: Callable[[str], None] = lambda text: None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.sink = sink
        self.delivery = delivery
        self.settings = settings
        self.world = World(folder / "world", seed)
        self.tell = tell
        self._looking = Looking(self.world.checkpoint)
        self._dice = random.Random(seed)
        self._life: Attacked | None = None
        self._lives = 0
        self._changed_at = 0  # batch
        self._hits: list[Hit] = []
        self._problems: list[str] = []

    def run(self, kills: Sequence[Kill]) -> Result:
        with place_of(self.sink, self.folder / "place") as place:
            try:
                for kill in kills:
                    self._carry_out(kill, place)
                self._finish(place)
            finally:
                if self._life is not None:
                    self._life.stop()
            return self._compared(place)

    # -- kills ---------------------------------------------------------------------------------

    def _carry_out(self, kill: Kill, place: Place) -> None:
        life = self._living(place)
        self._await(kill, place)
        life = self._living(place)
        victim = life.kill(kill.victim)
        if victim is None:
            self._problems.append(f"there was no {kill.victim} to kill")
            return
        found, replayed = kill.point, False
        if victim in FATAL:
            life.await_end()
            self._life = None
            state = self._looking.state()
            found = state if self._looking.worked_since(life.started_ns) else STARTING
            replayed = state != BETWEEN
        self._hits.append(Hit(victim, found, replayed))
        self.world.change(time.time_ns() // 1_000_000)
        self.tell(f"{self.sink}: kill {len(self._hits)}: {victim}, {found}")

    def _await(self, kill: Kill, place: Place) -> None:
        """Until the point is reached, feeding the stream; then for the delay."""
        if kill.point == STARTING:
            self._pause(kill.delay_ms / 1000)
        peaceful = self._looking.newest + kill.after
        since_ns = self._life.started_ns if kill.at_once and self._life else time.time_ns()
        until = time.monotonic() + POINT_SECONDS_MAX
        while time.monotonic() < until:
            life = self._living(place)
            self._feed()
            reached = kill.point == STARTING or self._looking.reached(kill.point, since_ns)
            if reached and self._looking.newest >= peaceful and life.find(kill.victim) is not None:
                if kill.point != STARTING:
                    self._pause(kill.delay_ms / 1000)
                return
            self._pause(LOOK_SECONDS)
        self._problems.append(f"no batch was seen {kill.point} within {POINT_SECONDS_MAX:g} s")

    def _living(self, place: Place) -> Attacked:
        """The stream, started if it is not running."""
        if self._life is not None and self._life.ended() is None:
            return self._life
        if self._life is not None:
            code = self._life.ended()
            self._problems.append(f"it ended by itself with {code}: {self._life.said()}")
            if len(self._problems) >= STARTS_MAX:
                raise AssertionError("\n".join(self._problems))
        self._life = self._started(place)
        return self._life

    def _started(self, place: Place, **more: Any) -> Attacked:
        self._lives += 1
        settings = {
            "schema": self.world.folder / "schema.toml",
            "subscriptions": self.world.changes,
            "events": str(self.world.events),
            "output": place.output,
            "checkpoint": self.world.checkpoint,
            "rejects": self.folder / "rejects",
            "trigger_ms": 50,
            "delivery": self.delivery,
            "batch_bytes": 2_500,  # a few files: a backlog is several batches
            "alone_bytes": 1_200,  # one of them: some batches are the driver's, some the workers'
            "duplicate_window_ms": 3_600_000,
            "spark_settings": {
                "spark.driver.memory": "600m",
                "spark.sql.streaming.minBatchesToRetain": "100000",  # the comparison reads them
            },
            **self.settings,
            **more,
        }
        return Attacked(settings, self.folder / f"life-{self._lives:03d}.log")

    def _feed(self) -> None:
        """So much that there is always something to do, and not more."""
        self._looking.look()
        batches = self._looking.newest
        if len(self.world.files) < max(0, batches) + FILES_AHEAD:  # a batch has a file at least
            self.world.publish()
        if batches >= self._changed_at + BATCHES_PER_CHANGE:
            self._changed_at = batches
            self.world.change(time.time_ns() // 1_000_000)

    def _finish(self, place: Place) -> None:
        """Everything that is there, undisturbed; then the stream ends by itself."""
        if self._life is not None:
            self._life.kill("driver")
            self._life.await_end()
        for _ in range(STARTS_MAX):
            self._life = self._started(place, available_now=True, **place.last)
            code = self._life.process.wait(LAST_SECONDS_MAX)
            if code == 0:
                return
            self._problems.append(f"the last run failed: {self._life.said()}")
        raise AssertionError("\n".join(self._problems))

    def _pause(self, seconds: float) -> None:
        select.select([], [], [], seconds)

    # -- what came of it -----------------------------------------------------------------------

    def _compared(self, place: Place) -> Result:
        expected, told = self.world.expected(), place.read()
        rejects = rejects_in(self.folder / "rejects")
        wrong = (rejects - expected.rejects) + (expected.rejects - rejects)
        changes = set(range(2, len(self.world.tables))) ^ rejected_changes(self.folder / "rejects")
        return Result(
            sink=self.sink,
            hits=self._hits,
            lives=self._lives,
            batches=expected.batches,
            versions=len(self.world.tables) - 1,
            events=expected.events,
            pairs=sum(expected.told.values()),
            lost=expected.told - told,
            extra=told - expected.told,
            rejects_differ=wrong.total() + len(changes),
            unread=len(expected.unread),
            problems=self._problems,
        )


def counted(hits: Sequence[Hit]) -> Counter[tuple[str, str]]:
    return Counter((hit.victim, hit.found) for hit in hits)
