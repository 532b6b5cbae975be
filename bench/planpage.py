"""docs/plans.md: predicted beside measured, and how good the planner's choice was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.pipeline.prices import PRICES, Prices

CHOICE_TARGET, RANK_TARGET = 1.5, 0.8
QUIET = 0.1  # of the machine, used by others during a run: more is a disturbance


def rank_correlation(predicted: list[float], measured: list[float]) -> float:
    """Spearman's: equal values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(predicted), _ranks(measured))[0, 1])


def _ranks(values: list[float]) -> npt.NDArray[np.float64]:
    given = np.array(values)
    below, equal = (given[:, None] > given).sum(axis=1), (given[:, None] == given).sum(axis=1)
    found: npt.NDArray[np.float64] = below + equal / 2
    return found


def correlation_of(plans: list[dict[str, Any]]) -> float:
    """Of all that were run. Beyond the time at which plans are stopped nothing is known of them, so
    nothing beyond it is compared: neither what was stopped nor what was foreseen to be."""
    run = [one for one in plans if one["predicted"] is not None and _took(one) is not None]
    limit = max([one["stopped"] for one in run if one["stopped"]], default=float("inf"))
    return rank_correlation(
        [min(one["predicted"], limit) for one in run],
        [min(_took(one) or 0.0, limit) for one in run],
    )


def _took(one: dict[str, Any]) -> float | None:
    found: float | None = one["seconds"] or one["stopped"]
    return found


def page(
    results: list[dict[str, Any]],
    unseen: Mapping[str, float],
    loads: Mapping[str, Mapping[str, Any]],
) -> str:
    """`unseen`: by workload the rank correlation with prices fitted without it; `loads`: of tasks,
    for all workloads, whether or not they were measured."""
    seeds = ", ".join(sorted({str(one["seed"]) for one in results}))
    lines = [
        "# Plans: predicted and measured",
        "",
        f"Made by `make bench-plans` (seed {seeds}); do not edit. Seconds of the job without the",
        "start of Spark, on two cores; a plan is stopped at ten times the best. Plans within twice",
        "the best are medians of three runs, the others ran once. The choice is what `auto` takes.",
        "Rank correlation (Spearman's) is of all plans that ran; times beyond the stop are equal.",
        "The prices were fitted to these very runs: the last column has the rank correlation with",
        "prices fitted to the other workloads only.",
        "",
        f"| workload | planner's choice | best plan | choice / best (≤ {CHOICE_TARGET}) | "
        f"rank correlation (≥ {RANK_TARGET}) | with prices of the other workloads |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        done = [one for one in result["plans"] if one["seconds"] is not None]
        choice = result["plans"][0]
        best = min(done, key=lambda one: float(one["seconds"]))
        ratio = (choice["seconds"] or float("inf")) / best["seconds"]
        lines.append(
            f"| {result['workload']} | {_name(choice)} {_seconds(choice['seconds'])} s | "
            f"{_name(best)} {_seconds(best['seconds'])} s | {ratio:.2f} | "
            f"{correlation_of(result['plans']):.2f} | {unseen[result['workload']]:.2f} |"
        )
    missing = [name for name in loads if name not in unseen]
    if missing:
        lines += ["", f"Not measured yet: {', '.join(missing)}."]
    for result in results:
        lines += _workload(result)
    return "\n".join([*lines, *_small(results), *_skew(loads), *_prices()]) + "\n"


def _workload(result: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"## {result['workload']}",
        "",
        f"{result['rows'][0]:,} subscriptions, {result['rows'][1]:,} events.{_disturbed(result)}",
        "",
        "| plan | cells | predicted, s | measured, s | runs | |",
        "|---|---|---|---|---|---|",
    ]
    for one in result["plans"]:
        lines.append(
            f"| {_name(one)} | {one['cells'] or ''} | {_seconds(one['predicted'])} | "
            f"{_seconds(one['seconds'])} | {one['runs'] or ''} | {one['note'] or ''} |"
        )
    return lines


def _small(results: list[dict[str, Any]]) -> list[str]:
    """What large jobs cost says little about the least that a job takes."""
    lines = [
        "",
        "## Small jobs",
        "",
        "A hundredth of each workload, predicted and measured (medians of three), in seconds.",
        "",
        "| workload | plan | predicted | measured |",
        "|---|---|---|---|",
    ]
    for result in results:
        for one in result["small"]:
            lines.append(
                f"| {result['workload']} | {_name(one)} | {_seconds(one['predicted'])} | "
                f"{_seconds(one['seconds'])} |"
            )
    return lines


def _disturbed(result: dict[str, Any]) -> str:
    most = max((one["disturbed"] for one in result["plans"]), default=0.0)
    if most <= QUIET:
        return ""
    return f" Others used up to {most:.0%} of the machine during these runs."


def _skew(loads: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "",
        "## Hot cells",
        "",
        "Events of the busiest task over the mean of all tasks of plan `keyed`, as its placement",
        "puts all events of a tenth of the workload: each cell in one task, or hot cells shared.",
        "",
        "| workload | mapping | a task per cell | hot cells shared |",
        "|---|---|---|---|",
    ]
    for name, by_mapping in loads.items():
        for mapping, load in by_mapping.items():
            lines.append(f"| {name} | {mapping} | {load['before']} | {load['after']} |")
    return lines


def _prices() -> list[str]:
    """What they are, and how to have others."""
    return [
        "",
        "## Prices",
        "",
        "Predicted seconds are amounts of work, counted on a sample, times these prices",
        "(`pipeline/prices.py` says what each is of), in nanoseconds on one core of the machine of",
        "this page. Another machine is faster or slower in all of them, more or less; the order of",
        "plans depends on their proportions. To calibrate for other machines: `make bench-plans`,",
        "then `python -m bench.plans --fit`, which prints prices fitted to what was measured; put",
        "them into `pipeline/prices.py`, and `--fit` again writes this page with them.",
        "",
        "| " + " | ".join(one.name for one in fields(Prices)) + " |",
        "|" + "---|" * len(fields(Prices)),
        "| " + " | ".join(f"{getattr(PRICES, one.name):,.3g}" for one in fields(Prices)) + " |",
    ]


def _name(one: dict[str, Any]) -> str:
    return str(one["plan"] if one["mapping"] is None else f"{one['plan']}/{one['mapping']}")


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
