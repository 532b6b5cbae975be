"""Many filters at once: each distinct shape is parsed once, its literals become columns.

A `FilterTable` holds, per shape, one typed tree and a column per literal. The index is built from
these columns without ever making a million trees. What does not fit (rare constructs, literals that
need thought) is parsed one by one and kept as `singles`; what is wrong is in `errors`, by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import FilterError, UsageError
from crossroads.model.filter import (
    Attr,
    Cast,
    Compare,
    Constant,
    Filter,
    In,
    IsNull,
    Like,
    Literal,
    Operand,
    Predicate,
    RLike,
    TextTest,
    Truth,
    operands,
    predicates,
)
from crossroads.model.like import LikePatternError, parse_like
from crossroads.model.literals import number as read_number
from crossroads.model.literals import unquote
from crossroads.model.parse import FILTER_LENGTH_MAX, parse
from crossroads.model.regex import RegexError, check_regex
from crossroads.model.scan import LiteralKind, LiteralText, scan
from crossroads.model.scankernel import NUMBER, TEXT, cut_texts, same_shape, scan_texts
from crossroads.model.schema import Schema
from crossroads.model.types import DOUBLE, Kind, Type, to_key
from crossroads.model.values import canonical

Ints = npt.NDArray[np.int64]

GROUP_ROWS_MIN = 4  # fewer filters of one shape are not worth columns
TEMPLATE_TRIES = 16  # rows parsed in search of a good one, before a shape is taken to be wrong


@dataclass(frozen=True)
class Numbers:
    """Plain numbers: `mantissa / 10**scale`, exactly."""

    mantissa: Ints
    scale: npt.NDArray[np.uint8]

    def take(self, rows: Ints) -> Numbers:
        return Numbers(self.mantissa[rows], self.scale[rows])


@dataclass(frozen=True)
class Doubles:
    """Numbers that are doubles already (from typed columns)."""

    values: npt.NDArray[np.float64]

    def take(self, rows: Ints) -> Doubles:
        return Doubles(self.values[rows])


@dataclass(frozen=True)
class Texts:
    values: pa.Array  # of strings, without NULL

    def take(self, rows: Ints) -> Texts:
        return Texts(self.values.take(pa.array(rows)))


@dataclass(frozen=True)
class Moments:
    """Keys (see `types`) of dates or timestamps."""

    type: Type
    keys: Ints

    def take(self, rows: Ints) -> Moments:
        return Moments(self.type, self.keys[rows])


Slot = Numbers | Doubles | Texts | Moments


@dataclass(frozen=True)
class ShapeGroup:
    """Filters that differ in their literals only.

    `template` is the tree of one of them; a literal's `source` names its slot. `rows` are places in
    the table, and row i of each slot is the literal of filter `rows[i]`.
    """

    template: Filter
    rows: Ints
    slots: tuple[Slot, ...]

    def take(self, chosen: Ints) -> ShapeGroup:
        return ShapeGroup(
            self.template, self.rows[chosen], tuple(slot.take(chosen) for slot in self.slots)
        )


@dataclass(frozen=True)
class FilterTable:
    schema: Schema
    size: int
    groups: tuple[ShapeGroup, ...] = ()
    singles: dict[int, Filter] = field(default_factory=dict)
    errors: dict[int, FilterError] = field(default_factory=dict)


def read_filters(texts: pa.Array | pa.ChunkedArray, schema: Schema) -> FilterTable:
    """Type-check a column of filter texts. Errors are collected by row, never raised."""
    column = _contiguous(texts)
    data, offsets = _buffers(column)
    shapes, counts, first, kinds, spans, mantissas, scales = scan_texts(data, offsets)
    plain = (counts >= 0) & (np.diff(offsets) <= FILTER_LENGTH_MAX)
    if column.null_count:
        plain &= ~np.asarray(column.is_null())
    table = _Builder(schema, column)
    table.one_by_one(np.flatnonzero(~plain))
    for rows in _equal_runs(np.flatnonzero(plain), shapes):
        while rows.size:
            # Of one hash, and (but for a collision) of one shape.
            same = same_shape(data, offsets, first, kinds, spans, rows, rows[0])
            chosen, rows = rows[same], rows[~same]
            literals = [
                _slot(data, first[chosen] + k, kinds, spans, mantissas, scales)
                for k in range(first[chosen[0] + 1] - first[chosen[0]])
            ]
            table.shape(chosen, literals)
    return table.done()


def filters_from_columns(template: str, columns: pa.Table, schema: Schema) -> FilterTable:
    """Subscriptions that exist as typed columns: `"symbol = :s AND open BETWEEN :low AND :high"`.

    Each `:name` outside quotes takes the column of that name, in any order; NULLs are not allowed.
    """
    text, parameters = _filled_in(template, columns)
    filter_ = parse(text, schema)
    rows = np.arange(columns.num_rows, dtype=np.int64)
    written = scan(text).literals
    # A constant of the template is a column as well, of one value: whatever reads columns then
    # reads every literal alike.
    constants = np.zeros(rows.size, np.int64)
    slots = tuple(
        parameters[literal.start] if literal.start in parameters else _constant(literal, constants)
        for literal in written
    )
    group = ShapeGroup(filter_, rows, slots)
    leaves = list(predicates(filter_))
    named = {literal.source[0] for leaf in leaves for literal in _literals(leaf) if literal.source}
    lost = any(at not in named for at, one in enumerate(written) if one.start in parameters)
    if lost or not all(_columnar(leaf, group) for leaf in leaves):
        raise UsageError(f"{template!r} cannot be used with columns: write filters as text")
    good, slots = _converted(group, leaves, [literal.kind for literal in written])
    if not good.all():
        raise UsageError(
            f"row {int(np.argmin(good))} has an empty text or a pattern that is refused",
            hint="write those filters as text",
        )
    group = ShapeGroup(filter_, rows, slots)
    return FilterTable(schema, columns.num_rows, (group,) if rows.size else ())


# -- the pieces --------------------------------------------------------------------------------


class _Builder:
    def __init__(self, schema: Schema, texts: pa.Array) -> None:
        self.schema = schema
        self.texts = texts
        self.groups: list[ShapeGroup] = []
        self.singles: dict[int, Filter] = {}
        self.errors: dict[int, FilterError] = {}

    def done(self) -> FilterTable:
        return FilterTable(
            self.schema, len(self.texts), tuple(self.groups), self.singles, self.errors
        )

    def one_by_one(self, rows: Ints) -> None:
        for row, text in zip(
            rows.tolist(), self.texts.take(pa.array(rows)).to_pylist(), strict=True
        ):
            try:
                self.singles[row] = parse(text or "", self.schema)
            except FilterError as error:
                self.errors[row] = error

    def shape(self, rows: Ints, literals: list[Slot]) -> None:
        found = self.template(rows) if rows.size >= GROUP_ROWS_MIN else None
        if found is None:
            self.one_by_one(rows)  # each with its own error, or right after all
            return
        template, example = found
        group = ShapeGroup(template, rows, tuple(literals))
        leaves = list(predicates(template))
        if not all(_columnar(leaf, group) for leaf in leaves):
            self.one_by_one(rows)
            return
        written = scan(self.texts[int(rows[example])].as_py()).literals
        good, slots = _converted(group, leaves, [literal.kind for literal in written])
        good &= _alike_elsewhere(group, leaves, example)
        self.one_by_one(rows[~good])
        chosen = np.flatnonzero(good)
        if chosen.size:
            self.groups.append(ShapeGroup(template, rows, slots).take(chosen))

    def template(self, rows: Ints) -> tuple[Filter, int] | None:
        """The tree of the first row that has one, and its place."""
        for at, row in enumerate(rows[:TEMPLATE_TRIES].tolist()):
            try:
                return parse(self.texts[row].as_py(), self.schema), at
            except FilterError:
                continue
        return None


def _contiguous(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if isinstance(column, pa.ChunkedArray):  # over 2 GiB of text: 64-bit offsets hold it
        column = pa.chunked_array(texts).cast(pa.large_string()).combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def _buffers(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    column = column.cast(pa.large_string())
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    flat = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return flat, ends


def _equal_runs(rows: Ints, shapes: npt.NDArray[np.uint64]) -> Iterator[Ints]:
    if not rows.size:
        return
    order = rows[np.argsort(shapes[rows], kind="stable")]
    breaks = np.flatnonzero(np.diff(shapes[order])) + 1
    yield from np.split(order, breaks)


def _slot(
    data: npt.NDArray[np.uint8],
    at: Ints,
    kinds: npt.NDArray[np.uint8],
    spans: Ints,
    mantissas: Ints,
    scales: npt.NDArray[np.uint8],
) -> Slot:
    if kinds[at[0]] == NUMBER:
        return Numbers(mantissas[at], scales[at])
    assert kinds[at[0]] == TEXT
    offsets, cut = cut_texts(data, spans[at, 0] + 1, spans[at, 1] - 1)  # without the quotes
    return Texts(
        pa.Array.from_buffers(
            pa.large_string(), at.size, [None, pa.py_buffer(offsets), pa.py_buffer(cut)]
        )
    )


# What a colon may stand in without naming a parameter: strings, quoted names, comments.
_QUOTED = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|(?P<colon>:)""",
    re.DOTALL,
)


def _filled_in(template: str, columns: pa.Table) -> tuple[str, dict[int, Slot]]:
    """The text with a literal for each parameter, and where (by the literal) each slot belongs."""
    names = sorted(filter(None, columns.column_names), key=len, reverse=True)
    parameters: dict[int, Slot] = {}
    text, done = "", 0
    for found in _QUOTED.finditer(template):
        if found["colon"] is None:
            continue
        used = template[found.end() :]
        name = next((one for one in names if re.match(rf"{re.escape(one)}(?!\w)", used)), None)
        if name is None:
            raise UsageError(f"no column for {':' + used[:20]!r} in {template!r}")
        column = _contiguous(columns[name])
        if column.null_count:
            raise UsageError(f"column {name!r} has NULLs: a parameter must have a value")
        slot, example = _typed_slot(column, name)
        text += template[done : found.start()] + " "  # apart from a word before it
        parameters[len(text) + max(example.find("'"), 0)] = slot  # DATE '…' starts at its quote
        text, done = text + example, found.end() + len(name)
    return text + template[done:], parameters


def _constant(literal: LiteralText, rows: Ints) -> Slot:
    if literal.kind is not LiteralKind.NUMBER:
        texts = pa.array([unquote(literal.text)], pa.large_string())
        return Texts(texts).take(rows)
    data, offsets = _buffers(pa.array([literal.text]))
    _, counts, _, _, _, mantissas, scales = scan_texts(data, offsets)
    if counts[0] == 1:
        return Numbers(mantissas, scales).take(rows)
    value = read_number(literal.text).value
    if isinstance(value, float):
        return Doubles(np.array([value])).take(rows)
    raise UsageError(
        f"the number {literal.text} cannot stand beside columns",
        hint="write it with at most 15 digits and no suffix, or write filters as text",
    )


def _typed_slot(column: pa.Array, name: str) -> tuple[Slot, str]:
    """The slot of a typed column, and a literal of that type to stand in the text."""
    kind = column.type
    if pa.types.is_integer(kind):
        values = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return Numbers(values, np.zeros(len(values), np.uint8)), "1"
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if not np.isfinite(values).all():
            raise UsageError(f"column {name!r} has values that are not finite")
        return Doubles(values), "1.0D"
    if pa.types.is_date(kind):
        keys = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        return Moments(Type(Kind.DATE), keys.to_numpy(zero_copy_only=False)), "DATE '2000-01-01'"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Texts(column.cast(pa.large_string())), "'x'"
    raise UsageError(f"column {name!r} of type {kind} cannot be a parameter")


def _columnar(predicate: Predicate, group: ShapeGroup) -> bool:
    """Can the predicate be compiled from columns of literals?"""
    match predicate:
        case Constant() | Truth() | IsNull(Attr()):
            return True
        case Compare(_, left, Literal() as right):
            return _pairs_up(left, right, group)
        case Compare(_, Literal() as left, right):
            return _pairs_up(right, left, group)
        case In(operand, options):
            return all(_pairs_up(operand, option, group) for option in options)
        case TextTest(_, Attr() as attr, Literal() as literal):
            return _pairs_up(attr, literal, group)
        case Like(Attr(), literal, _) | RLike(Attr(), literal):
            return literal.source is not None
    return False


def _pairs_up(operand: Operand, literal: Literal, group: ShapeGroup) -> bool:
    attr = operand.operand if isinstance(operand, Cast) else operand
    if not isinstance(attr, Attr):
        return False
    if literal.source is None:
        return not isinstance(operand, Cast)  # NULL, TRUE, FALSE: the same in every row
    slot = group.slots[literal.source[0]]
    match slot:
        case Numbers():
            return attr.type.is_number and not attr.type.wide
        case Doubles():
            return attr.type == DOUBLE
        case Texts():
            return attr.type.is_text or (attr.type.is_time and not isinstance(operand, Cast))
        case Moments(type_):
            return attr.type == type_


def _alike_elsewhere(
    group: ShapeGroup, leaves: list[Predicate], example: int
) -> npt.NDArray[np.bool_]:
    """Which rows agree with the example in the literals that are not in its tree.

    The tree holds what such a literal meant in the example: the character of an ESCAPE.
    """
    named = {literal.source[0] for leaf in leaves for literal in _literals(leaf) if literal.source}
    alike = np.ones(group.rows.size, np.bool_)
    for number, slot in enumerate(group.slots):
        if number in named:
            continue
        match slot:
            case Numbers(mantissa, scale):
                alike &= (mantissa == mantissa[example]) & (scale == scale[example])
            case Texts(values):
                alike &= np.asarray(pc.equal(values, values[example]))
    return alike


def _literals(leaf: Predicate) -> Iterator[Literal]:
    sides: tuple[Operand, ...] = operands(leaf)
    match leaf:
        case In(_, options):
            sides += options
        case Like(_, pattern, _) | RLike(_, pattern):
            sides += (pattern,)
    return (side for side in sides if isinstance(side, Literal))


def _converted(
    group: ShapeGroup, leaves: list[Predicate], written: list[LiteralKind]
) -> tuple[npt.NDArray[np.bool_], tuple[Slot, ...]]:
    """Texts that stand for moments are read, patterns are checked; rows that fail are not good."""
    good = np.ones(group.rows.size, np.bool_)
    slots = list(group.slots)
    for leaf in leaves:
        for literal in _literals(leaf):
            if not (literal.source and literal.type.is_time):
                continue
            number = literal.source[0]
            slot = slots[number]
            if isinstance(slot, Texts):
                slots[number], fine = _moments(slot, literal.type, written[number])
                good &= fine
        if isinstance(leaf, TextTest) and isinstance(leaf.right, Literal) and leaf.right.source:
            sought = slots[leaf.right.source[0]]
            assert isinstance(sought, Texts)
            # Everything starts with, ends with and contains "": no range of values says so.
            good &= np.asarray(pc.greater(pc.binary_length(sought.values), 0))
        if isinstance(leaf, Like | RLike):
            assert leaf.pattern.source is not None
            slot = slots[leaf.pattern.source[0]]
            assert isinstance(slot, Texts)
            good &= _patterns_fine(slot, leaf)
    return good, tuple(slots)


def _moments(
    slot: Texts, type_: Type, written: LiteralKind
) -> tuple[Moments, npt.NDArray[np.bool_]]:
    """Texts read as moments of that type; `DATE '…'` is a date first, whatever it meets."""
    first = type_ if written is LiteralKind.STRING else Type(Kind(written))
    encoded = slot.values.dictionary_encode()
    keys = np.zeros(len(encoded.dictionary), np.int64)
    fine = np.ones(len(encoded.dictionary), np.bool_)
    for at, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            keys[at] = to_key(type_, canonical(type_, canonical(first, text)))
        except ValueError:
            fine[at] = False
    index = encoded.indices.to_numpy(zero_copy_only=False)
    return Moments(type_, keys[index]), fine[index]


def _patterns_fine(slot: Texts, leaf: Like | RLike) -> npt.NDArray[np.bool_]:
    encoded = slot.values.dictionary_encode()
    fine = np.ones(len(encoded.dictionary), np.bool_)
    for at, pattern in enumerate(encoded.dictionary.to_pylist()):
        try:
            if isinstance(leaf, Like):
                parse_like(pattern, leaf.escape)
            else:
                check_regex(pattern)
        except (LikePatternError, RegexError):
            fine[at] = False
    index: Ints = encoded.indices.to_numpy(zero_copy_only=False)
    return fine[index]
