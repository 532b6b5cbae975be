"""What `crossroads stream` shows of itself: on stderr, drawn for a terminal and plain elsewhere.

Notifications on the terminal have it for themselves: then, too, only the start, warnings and the
end are told.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Self

import typer

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from crossroads.pipeline.stream.job import Running
    from crossroads.pipeline.stream.request import StreamRequest
    from crossroads.pipeline.stream.watching import BatchDone

REFRESHES_PER_SECOND = 2
SHOW_CURSOR = b"\x1b[?25h\n"  # drawing hides it
STDERR = 2
TERMINAL = ("-", "console:")


class Screen:
    """A watcher. `silent`: stderr belongs to somebody else."""

    wants_counts = False

    def __init__(
        self, request: StreamRequest, *, as_json: bool = False, silent: bool = False
    ) -> None:
        self._as_json = as_json
        self._silent = silent
        self._is_beside = request.output in TERMINAL  # notifications are on stdout
        self._state = "starting"
        self._running: Running | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        if console.is_terminal and not self._silent and not self._is_beside:
            self._live = Live(
                console=console,
                get_renderable=self.drawn,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    # -- told by the stream ------------------------------------------------------------------------

    def started(self, running: Running) -> None:
        from crossroads.pipeline.stream.sinkurls import promise_of

        self._running, self._state = running, "running"
        source, sink = running.batches.source, running.batches.sink
        self._say(f"stream from {source.name} to {sink.name}: {promise_of(sink)}")

    def batch(self, done: BatchDone, counts: dict[str, int] | None) -> None:
        """Drawn from the totals, when it is time."""

    def version(self, version: int, what: dict[str, Any]) -> None:
        if rejected := what["counts"]["rejected"]:
            self.warning(f"{what['file']}: {rejected:,} rows rejected; see rejected_subscriptions/")

    def warning(self, text: str) -> None:
        self._say(f"warning: {text}")

    def stopping(self, reason: str) -> None:
        self._state = "finishing the batch"
        self._say(f"{reason}: the batch at work is finished first; once more leaves at once")

    def abandon(self) -> None:
        if self._live is not None:
            os.write(STDERR, SHOW_CURSOR)

    # -- shown -------------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        if self._silent:
            return
        # Nobody may be listening any more: that is no reason to stop.
        with contextlib.suppress(OSError):
            if self._live is not None:
                self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                typer.echo(line, err=True)

    def drawn(self) -> Text:
        """One line, as it is now."""
        from rich.text import Text

        facts = [(self._state, "")] if self._running is None else self._facts(self._running)
        line = Text(no_wrap=True, overflow="ellipsis")
        for value, name in facts:
            line.append("   " if line else "").append(value, "bold").append(f" {name}".rstrip())
        return line

    def _facts(self, running: Running) -> list[tuple[str, str]]:
        events, told = running.totals.rates()
        sums, last = running.totals.sums, running.totals.last
        log = running.following.log
        facts = [
            (self._working(running), ""),
            (f"{events:,.0f}", "events/s"),
            (f"{told:,.0f}", "notifications/s"),
            (_lag(last), "lag"),
            (f"{log.living:,}", f"subscriptions (version {log.current})"),
        ]
        if sums["rejected"]:
            facts.append((f"{sums['rejected']:,}", "rejected"))
        return facts

    def _working(self, running: Running) -> str:
        last = running.totals.last
        if self._state != "running":
            return self._state
        return "waiting for events" if last is None else f"batch {last.batch:,}"

    def end(self, summary: dict[str, Any]) -> None:
        """What was done; on stdout unless the notifications are there."""
        if self._as_json:
            import json

            typer.echo(json.dumps(summary), err=self._is_beside)
        elif not self._silent:
            self._print(summary)

    def _print(self, summary: dict[str, Any]) -> None:
        from rich.console import Console

        console = Console(stderr=self._is_beside)
        parts = [f"ended ({summary['ended']}): {summary['batches']:,} batches"]
        parts += [
            f"{summary[name]:,} {name}"
            for name in ("events", "notifications", "rejected", "repeated")
            if name in summary
        ]
        console.print(", ".join(parts), markup=False, highlight=False, soft_wrap=True)


def _lag(last: BatchDone | None) -> str:
    return "no" if last is None or last.lag_seconds is None else f"{last.lag_seconds:,.2f} s"
