"""What our own campaigns test, by name. A planted bug is part of the subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from crossroads.errors import UsageError
from crossroads.overlay.chord.planted import ALL as CHORD_BUGS
from crossroads.scheme.cbps.planted import ALL as CBPS_BUGS
from crossroads.testing.cbpsnetwork import cbps
from crossroads.testing.chordnetwork import chord
from crossroads.testing.outcome import Outcome
from crossroads.testing.overlays import OverlayUnderTest, run_overlay_case
from crossroads.testing.schemes import SchemeUnderTest, run_scheme_case

# name → how it is made with a planted bug ("": none), and which bugs there are
OVERLAYS: Mapping[str, tuple[Callable[[str], OverlayUnderTest], frozenset[str]]] = {
    "chord": (chord, CHORD_BUGS),
}
SCHEMES: Mapping[str, tuple[Callable[[str], SchemeUnderTest], frozenset[str]]] = {
    "cbps": (cbps, CBPS_BUGS),
}
NAMES = {"overlay": tuple(OVERLAYS), "scheme": tuple(SCHEMES)}


@dataclass(frozen=True, slots=True)
class Subject:
    """Names only, so that it can be sent to another process."""

    kind: str  # overlay, scheme
    name: str
    bug: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" with {self.bug}" if self.bug else "")

    @property
    def bugs(self) -> frozenset[str]:
        """Those that can be planted in it."""
        known = OVERLAYS if self.kind == "overlay" else SCHEMES
        return known[self.name][1]

    def with_bug(self, bug: str) -> Subject:
        if bug not in self.bugs:
            hint = f"known: {', '.join(sorted(self.bugs))}"
            raise UsageError(f"{self} has no bug {bug!r}", hint=hint)
        return replace(self, bug=bug)

    def run(self, seed: int) -> Outcome:
        if self.kind == "overlay":
            return run_overlay_case(OVERLAYS[self.name][0](self.bug), seed)
        return run_scheme_case(SCHEMES[self.name][0](self.bug), seed)


def subjects(*, overlay: str | None, scheme: str | None) -> list[Subject]:
    """Those asked for; all of them, if none is."""
    asked = {"overlay": overlay, "scheme": scheme}
    found = []
    for kind, name in asked.items():
        if name is None:
            continue
        if name not in NAMES[kind]:
            known = ", ".join(NAMES[kind])
            raise UsageError(f"no {kind} is called {name!r}", hint=f"known: {known}")
        found.append(Subject(kind, name))
    return found or [Subject(kind, name) for kind, names in NAMES.items() for name in names]
