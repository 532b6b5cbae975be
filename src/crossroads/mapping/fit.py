"""Mappings by name: fitted to a schema and a sample, or made again from a spec."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.mapping.axes import AXIS_BITS_MAX, Axis, bits_for
from crossroads.mapping.axischoice import (
    UNSEEN_MAX,
    candidates,
    chosen_for,
    named,
    with_domain,
)
from crossroads.mapping.balance import balanced
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.mapping.contract import Mapping
from crossroads.mapping.positions import positions_of
from crossroads.mapping.sample import Sample
from crossroads.mapping.spec import KEY_BITS_MAX, MappingSpec, check_bits
from crossroads.mapping.usage import AxisPlan
from crossroads.model.atoms import Dimension
from crossroads.model.schema import Schema
from crossroads.model.shapes import FilterTable

__all__ = ["MAPPINGS", "Sample", "check_name", "fit", "mapping_of"]

# In the order of the documents. Loaded when asked for: each brings its own compiled loops.
_CLASSES = {
    "attribute-split": "crossroads.mapping.attribute_split:AttributeSplit",
    "key-space-split": "crossroads.mapping.key_space_split:KeySpaceSplit",
    "selective-attribute": "crossroads.mapping.selective_attribute:SelectiveAttribute",
    "hilbert": "crossroads.mapping.hilbert:Hilbert",
    "zones": "crossroads.mapping.zones:Zones",
    "string-tree": "crossroads.mapping.string_tree:StringTree",
}
MAPPINGS: tuple[str, ...] = tuple(_CLASSES)

SHARED_BITS = 16  # without a sample: what the attributes share
AXIS_BITS = 20  # a millionth of the domain is fine enough for any cut
SHARED_AXIS_BITS_MAX = 16
# Ranges per subscription that finer axes may cost: each is a row to join or a message to send.
RANGES_WANTED = 8.0
FEWER = 0.9  # of the candidates: what one more axis must come down to
EVENTS_TRIED = 1_000
CELLS_TRIED = 128
FILTERS_TRIED = 1_000  # of a sample, to see how many ranges they have with finer and finer axes
_SHARING = ("key-space-split", "hilbert")


def fit(
    name: str,
    schema: Schema,
    sample: Sample | None = None,
    *,
    bits: int | None = None,
    attributes: Sequence[str] | None = None,
    intervals: int | None = None,
    **parameters: Any,
) -> Mapping:
    """The mapping that suits the sample.

    `bits`: m, of a key. `attributes`: to use, instead of those that narrow most. `intervals`:
    positions per axis (CHORD's discretization), fewer where an attribute has fewer values.
    `parameters`: the mapping's own.
    """
    kind = _class(name)
    _check(name, bits, intervals, parameters, kind)
    plans, notes = _plans(name, schema, sample, attributes)
    if sample is None:
        sample = Sample(FilterTable(schema, 0), schema.arrow.empty_table())
    fitting = _Fitting(kind, schema, sample, parameters, notes)
    if name not in _SHARING:
        axis_bits = AXIS_BITS if bits is None else min(AXIS_BITS, bits)
        if name == "selective-attribute" and parameters.get("tagged", True) and bits is not None:
            axis_bits = max(0, min(axis_bits, bits - (len(plans) - 1).bit_length()))
        return fitting.mapping([plan.axis(axis_bits, intervals) for plan in plans], bits)
    if bits is not None or not sample.filters.size:
        return fitting.mapping(_axes(plans, _each(bits, intervals, plans), intervals), bits)
    few = Sample(thinned(sample.filters), _some_rows(sample.events))
    fitting = fitting.by_axes_alone()
    if attributes is not None or not few.events.num_rows:
        return _finest(fitting, plans, few, intervals)
    return _fewest_candidates(fitting, plans, few, intervals)


def _fewest_candidates(
    fitting: _Fitting, plans: Sequence[AxisPlan], few: Sample, intervals: int | None
) -> Mapping:
    """With the first axis, the first two, …: where an event meets the fewest candidates.

    More axes narrow more, but share the bits, and whoever leaves one open has many ranges.
    """
    if intervals is not None:
        plans = plans[: max(1, KEY_BITS_MAX // max(1, bits_for(intervals)))]
    best = _finest(fitting, plans[:1], few, intervals)
    least = _meeting(best, few)
    for count in range(2, len(plans) + 1):
        found = _finest(fitting, plans[:count], few, intervals)
        met = _meeting(found, few)
        if met < FEWER * least:
            best, least = found, met
    return best


def _meeting(mapping: Mapping, few: Sample) -> int:
    """Pairs of a subscription and an event that share a cell, or meet at the root."""
    ranges = mapping.keys_of_subscriptions(few.filters)
    cells = balanced(mapping, few, CELLS_TRIED)
    waiting = cells.cells_of_ranges(ranges).load(cells.count)
    visited = cells.cells_of_keys(mapping.keys_of_events(few.events)).cells
    at_root = int(ranges.root.sum()) * int(few.events.num_rows)
    return int(waiting[visited].sum()) + at_root


def _each(bits: int | None, intervals: int | None, plans: Sequence[AxisPlan]) -> int:
    """Bits of each attribute, where nothing is to be tried."""
    if bits is None and intervals is not None:
        return bits_for(intervals)
    return _shared(SHARED_BITS if bits is None else bits, plans)


def _shared(bits: int, plans: Sequence[AxisPlan]) -> int:
    """Of so many bits, those of each attribute."""
    if bits < len(plans):
        raise UsageError(
            f"m = {bits} bits are too few for {len(plans)} attributes",
            hint="take more bits, or fewer attributes",
        )
    return bits // len(plans)


def _axes(plans: Sequence[AxisPlan], bits: int, intervals: int | None) -> list[Axis]:
    return [plan.axis(min(bits, AXIS_BITS_MAX), intervals) for plan in plans]


def _finest(
    fitting: _Fitting, plans: Sequence[AxisPlan], few: Sample, intervals: int | None
) -> Mapping:
    """As many bits per attribute as sampled subscriptions can bear, unless it is said how many
    positions there should be."""
    if intervals is not None:
        return fitting.mapping(_axes(plans, bits_for(intervals), intervals), None)
    most = min(_shared(KEY_BITS_MAX, plans), SHARED_AXIS_BITS_MAX)
    if len(plans) == 1:
        # On one axis a box is one range, however fine: mostly there is nothing to try.
        finest = fitting.mapping(_axes(plans, most, intervals), None)
        if _bearable(finest, few):
            return finest
    best = fitting.mapping(_axes(plans, 1, intervals), None)
    for bits in range(2, most + 1):
        finer = fitting.mapping(_axes(plans, bits, intervals), None)
        if finer.spec.axes == best.spec.axes or not _bearable(finer, few):
            break
        best = finer
    return best


def _bearable(mapping: Mapping, few: Sample) -> bool:
    ranges = mapping.keys_of_subscriptions(few.filters)
    placed = np.count_nonzero(np.diff(ranges.offsets))
    return bool(ranges.low.size <= RANGES_WANTED * placed)


def thinned(filters: FilterTable) -> FilterTable:
    """A part of the filters, of every shape as much; the others have no keys."""
    step = max(1, -(-filters.size // FILTERS_TRIED))
    groups = tuple(group.take(np.arange(0, group.rows.size, step)) for group in filters.groups)
    singles = dict(list(filters.singles.items())[::step])
    return FilterTable(filters.schema, filters.size, groups, singles)


def _some_rows(events: pa.Table) -> pa.Table:
    step = max(1, -(-events.num_rows // EVENTS_TRIED))
    return events.take(pa.array(np.arange(0, events.num_rows, step)))


class _Fitting:
    """What is the same for all attempts at one mapping."""

    def __init__(
        self,
        kind: type[Mapping],
        schema: Schema,
        sample: Sample,
        parameters: Dict[str, Any],
        notes: Sequence[str],
    ) -> None:
        self.kind = kind
        self.schema = schema
        self.sample = sample
        self.parameters = parameters
        self.notes = tuple(notes)

    def by_axes_alone(self) -> _Fitting:
        """For mappings whose axes say all: nothing of the sample is looked at."""
        nothing = Sample(FilterTable(self.schema, 0), self.schema.arrow.empty_table())
        return _Fitting(self.kind, self.schema, nothing, self.parameters, self.notes)

    def mapping(self, axes: Sequence[Axis], bits: int | None) -> Mapping:
        boxes = boxes_of_table(self.sample.filters, axes)
        positions = positions_of(self.sample.events, axes)
        fitted = self.kind.fit_parameters(axes, boxes, positions, **self.parameters)
        if bits is None:
            bits = self.kind.bits_needed(axes, fitted)
        spec = MappingSpec(self.kind.name, self.schema.hash, bits, tuple(axes), fitted, self.notes)
        return self.kind(spec, self.schema)


def mapping_of(spec: MappingSpec, schema: Schema) -> Mapping:
    if spec.schema != schema.hash:
        raise UsageError(
            f"the mapping {spec.name} was fitted for another schema than {schema.name!r}",
            hint="fit it again for this one",
        )
    return _class(spec.name)(spec, schema)


def _plans(
    name: str, schema: Schema, sample: Sample | None, attributes: Sequence[str] | None
) -> tuple[list[AxisPlan], list[str]]:
    """Axes but for their bits, and what to say about them."""
    notes: list[str] = []
    if attributes is not None:
        plans = named(schema, sample, attributes)
    elif sample is None or not sample.filters.size:
        plans, notes = _unseen(name, schema)
    else:
        plans = chosen_for(name, sample.once(candidates))
        if not plans:
            notes.append("sampled subscriptions constrain no attribute: they are all at the root")
            plans = with_domain(schema)[:1]
    if not plans:
        # There is nothing to divide. A hash keeps the law, and places who asks for the id itself.
        first = schema.attribute(schema.id[0])
        notes.append(f"nothing says where values lie: keys are a hash of `{first.name}`")
        plans = [AxisPlan(Dimension(first.name), first.type, "hashed")]
    return plans, [*notes, *(plan.note for plan in plans if plan.note is not None)]


def _unseen(name: str, schema: Schema) -> tuple[list[AxisPlan], list[str]]:
    """Without sampled subscriptions: attributes with a domain, as many as the mapping can take."""
    plans = with_domain(schema)
    most = UNSEEN_MAX.get(name, len(plans))
    if len(plans) <= most:
        return plans, []
    return plans[:most], [f"{name} uses the first {most} of {len(plans)} attributes with a domain"]


def check_name(name: str) -> None:
    if name not in _CLASSES:
        close = difflib.get_close_matches(name, MAPPINGS, n=1, cutoff=0.4)
        known = ", ".join(MAPPINGS)
        hint = f"did you mean {close[0]}?" if close else f"mappings: {known}"
        raise UsageError(f"there is no mapping {name!r}", hint=hint)


def _class(name: str) -> type[Mapping]:
    check_name(name)
    module, _, kind = _CLASSES[name].partition(":")
    found: type[Mapping] = getattr(import_module(module), kind)
    return found


def _check(
    name: str,
    bits: int | None,
    intervals: int | None,
    parameters: Dict[str, Any],
    kind: type[Mapping],
) -> None:
    if bits is not None:
        check_bits(bits)
    if intervals is not None and intervals < 1:
        raise UsageError(f"intervals must be at least 1, not {intervals}")
    known = [
        one.name
        for one in inspect.signature(kind.fit_parameters).parameters.values()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for given in parameters:
        if given not in known:
            hint = f"it has {', '.join(known)}" if known else "it has none of its own"
            raise UsageError(f"{name} has no parameter {given!r}", hint=hint)
