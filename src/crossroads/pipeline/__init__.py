"""The data pipeline on Spark. For programs: `match` and `check_subscriptions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossroads.pipeline.api import check_subscriptions, match
    from crossroads.pipeline.frames import schema_from_frame

__all__ = ["check_subscriptions", "match", "schema_from_frame"]


def __getattr__(name: str) -> Any:
    """On first use: much of the pipeline works without pyspark, which takes a while to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crossroads.pipeline import api, frames

    return getattr(frames if name == "schema_from_frame" else api, name)
