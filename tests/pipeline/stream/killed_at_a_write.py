"""Run by test_subscriptionlog_kill: take up changes, killed (-9) at the n-th touch of the disk.

    killed_at_a_write.py ROOT        in ROOT/0, ROOT/1, … is what a kill at the n-th one left

A child is forked for every n, after the parent has compiled and warmed up everything once, until
one child gets through. Python's audit events tell before a file is opened, renamed or removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from crossroads.model.schema import Schema
from crossroads.pipeline.stream.subscriptionlog import SubscriptionLog

SCHEMA = Schema.from_mapping({"id": "n", "attributes": {"n": "bigint", "price": "double"}})
NOW = 1_700_000_000_000
TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"}


def files(source: Path) -> None:
    """First a version that the kills find, then what they interrupt."""
    source.mkdir(parents=True)
    (source / "a.csv").write_text("id,subscriber,filter\nx,ann,price > 4\ny,bo,TRUE\n")


def more_files(source: Path) -> None:
    (source / "b.csv").write_text("id,subscriber,filter\nz,cy,price < 9\nbad,cy,price <\n")
    (source / "c.csv").write_text("op,id\npause,x\nremove,y\nremove,nobody\n")


def take_up(root: Path) -> None:
    log = SubscriptionLog.open(root / "changes", SCHEMA, root / "state")
    log.release(log.current)
    log.poll(NOW)


def die_at(touch: int, state: Path) -> None:
    left = touch

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in TOUCHES and str(arguments[0]).startswith(str(state)):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(count)


def main(root: Path) -> None:
    warm = root / "warm"
    files(warm / "changes")
    take_up(warm)
    more_files(warm / "changes")
    take_up(warm)
    shutil.rmtree(warm)
    survived, number = False, 0
    while not survived:
        here = root / str(number)
        files(here / "changes")
        take_up(here)
        more_files(here / "changes")
        child = os.fork()
        if child == 0:
            die_at(number, here / "state")
            take_up(here)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        survived = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        assert survived or os.WIFSIGNALED(status), status
        number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
