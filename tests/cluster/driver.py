"""Runs command lines of `crossroads` one after the other, so that they share a Spark session.

Each line of the input is a JSON object: the `words` of a command, and `limits` of the job to set
before it. Each answer is a line `exit CODE`; what the command itself prints comes before it.
"""

from __future__ import annotations

import json
import sys

from crossroads.cli.main import run
from crossroads.pipeline import job


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        for name, value in asked["limits"].items():
            assert hasattr(job, name), name
            setattr(job, name, value)
        try:
            run(asked["words"])
        except SystemExit as leaving:
            sys.stdout.write(f"exit {leaving.code or 0}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
