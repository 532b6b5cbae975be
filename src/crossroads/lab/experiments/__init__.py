"""The experiments by id, in the order of the documents. Loaded when asked for."""

from __future__ import annotations

import difflib
from importlib import import_module

from crossroads.errors import UsageError
from crossroads.lab.experiment import Experiment

_MODULES = {
    "C5": "c05_hops",
    "C6": "c06_mappings",
    "C7": "c07_expiry",
    "C8": "c08_growth",
    "C9": "c09_memory",
    "C10": "c10_notifications",
    "C11": "c11_discretization",
}
EXPERIMENTS: tuple[str, ...] = tuple(_MODULES)


def experiment_of(name: str) -> Experiment:
    """`C6`, in any case."""
    module = _MODULES.get(name.upper())
    if module is None:
        close = difflib.get_close_matches(name.upper(), EXPERIMENTS, n=1, cutoff=0.3)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(
            f"there is no experiment {name!r}{meant}",
            hint=f"there are {', '.join(EXPERIMENTS)}: crossroads lab list",
        )
    found = import_module(f"{__name__}.{module}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found
