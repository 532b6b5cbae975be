"""A stream in a process of its own, to be killed: `driver.py SETTINGS.json`.

The settings are those of a StreamRequest. With `dump`, the rows of a JDBC table are written there
when the stream has ended: a database inside the JVM is gone with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from crossroads.pipeline.session import existing_session
from crossroads.pipeline.stream.job import run_stream
from crossroads.pipeline.stream.request import StreamRequest


def main(settings: dict[str, object]) -> None:
    dump = settings.pop("dump", None)
    request = StreamRequest(**settings)  # type: ignore[arg-type]
    run_stream(request)
    if dump is not None:
        spark = existing_session()
        assert spark is not None
        query = "(SELECT event_id, subscription_id, subscription_version FROM notifications) t"
        rows = spark.read.jdbc(str(request.output), query).collect()
        Path(str(dump)).write_text(json.dumps([list(row) for row in rows]))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
