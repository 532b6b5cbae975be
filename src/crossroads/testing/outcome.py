"""What came of one case, and the command that plays it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

TWICE = 3  # cases that are run a second time, to see that a run is its seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    subject: str  # as the campaign names it: --overlay chord
    planted: str  # a bug that was planted on purpose, or nothing
    seed: int
    out_of_contract: tuple[str, ...]  # why the law need not hold
    violations: tuple[str, ...]
    digest: str  # of the trace
    messages: int

    @property
    def failed(self) -> bool:
        return bool(self.violations) and not self.out_of_contract

    @property
    def replay(self) -> str:
        planted = f" --planted {self.planted}" if self.planted else ""
        module = "python -m crossroads.testing.campaign"
        return f"{module} {self.subject}{planted} --from {self.seed} --seeds 1"

    def __str__(self) -> str:
        if self.failed:
            return "\n  ".join([f"seed {self.seed} breaks the law:", *self.violations, self.replay])
        contract = f"out of contract: {'; '.join(self.out_of_contract)}, " * bool(
            self.out_of_contract
        )
        return f"seed {self.seed}: {contract}{self.messages} messages, {self.digest}"


def check_outcomes(run: Callable[[int], Outcome], seeds: Iterable[int]) -> None:
    """Raises AssertionError for the first case that breaks the law, or is not its seed."""
    for count, seed in enumerate(seeds):
        outcome = run(seed)
        if outcome.failed:
            raise AssertionError(str(outcome))
        if count < TWICE and run(seed) != outcome:
            raise AssertionError(f"seed {seed} gave two different runs; {outcome.replay}")
