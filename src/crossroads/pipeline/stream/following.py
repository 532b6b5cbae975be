"""Following the subscriptions in a thread of its own: a change never delays an event."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crossroads.pipeline.output import write_rejects
from crossroads.pipeline.stream.foldersink import emptied
from crossroads.pipeline.stream.subscriptionlog import Committed, SubscriptionLog
from crossroads.pipeline.stream.watching import Watcher

REJECTED_SUBSCRIPTIONS = "rejected_subscriptions"


class Following:
    def __init__(
        self,
        log: SubscriptionLog,
        watchers: Sequence[Watcher],
        rejects: Path,
        format: str,  # noqa: A002 (of the rejects)
    ) -> None:
        self.log = log
        self.watchers = watchers
        self.rejects = rejects / REJECTED_SUBSCRIPTIONS
        self.format = format
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    def take_up(self) -> None:
        for committed in self.log.poll(time.time_ns() // 1_000_000):
            self._write_rejects(committed)
            for watcher in self.watchers:
                watcher.version(committed.version, committed.entry.to_json())
        for warning in self.log.drain_warnings():
            for watcher in self.watchers:
                watcher.warning(warning)

    @contextmanager
    def running(self, every_ms: int) -> Iterator[None]:
        thread = threading.Thread(
            target=self._follow, args=(every_ms / 1000,), name="subscriptions", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _follow(self, every_seconds: float) -> None:
        while not self._stopping.wait(every_seconds):
            try:
                self.take_up()
            except BaseException as error:  # told by whoever waits for the stream
                self._failure = error
                return

    def _write_rejects(self, committed: Committed) -> None:
        """Once: under the number of the change."""
        if not committed.rejects:
            return
        target = self.rejects / f"change={committed.entry.number:09d}"
        if target.is_dir():
            return
        beside = emptied(target.with_name(f".{target.name}"))
        write_rejects(beside, committed.rejects, self.format)
        beside.rename(target)
