"""What others need to test their own parts against ours: strategies for schemas, events, filters,
and the contracts of a mapping, an overlay and a scheme.

`check_mapping` needs hypothesis, which the package itself does not: install it beside crossroads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossroads.testing.mappings import check_mapping
    from crossroads.testing.overlays import OverlayUnderTest, check_overlay
    from crossroads.testing.schemes import SchemeUnderTest, check_scheme

__all__ = [
    "OverlayUnderTest",
    "SchemeUnderTest",
    "check_mapping",
    "check_overlay",
    "check_scheme",
]

# Loaded when asked for: a campaign over a hundred thousand networks needs neither hypothesis nor
# Arrow.
_HOMES = {
    "OverlayUnderTest": "overlays",
    "SchemeUnderTest": "schemes",
    "check_mapping": "mappings",
    "check_overlay": "overlays",
    "check_scheme": "schemes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
