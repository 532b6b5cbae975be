"""What a workload is: a schema, a stream of event blocks, and subscriptions made from templates.

Rule: every block of rows draws from a random stream of its own, named by (seed, stream, block).
A block therefore comes out the same whether the rest was drawn or not, text and typed columns of
the subscriptions are two views of the same draws, and memory is bounded by one block.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.errors import UsageError

BLOCK_ROWS = 65_536  # large enough for vectorised drawing, small enough to hold several at once
ROWS_MAX = 10**12  # beyond this a size is a slip of the keyboard
SUBSCRIPTIONS_PER_SUBSCRIBER = 5  # on average; a few subscribers hold many, most hold one or two
SUBSCRIBER_SKEW = 0.6  # Zipf exponent of that

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SUBSCRIPTION_SCHEMA = pa.schema(
    [("id", pa.string()), ("subscriber", pa.string()), ("filter", pa.string())]
)


class Stream(IntEnum):
    """The independent random streams of one seed."""

    WORLD = 0  # what events and subscriptions share: symbols, brands, their popularity
    EVENTS = 1
    SUBSCRIPTIONS = 2


@dataclass(frozen=True, slots=True)
class Template:
    """A filter with named parameters `:p1`, `:p2`, … and how often it is picked."""

    text: str
    share: float

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"p{number + 1}" for number in range(len(set(_PARAMETER.findall(self.text)))))


@dataclass(frozen=True, slots=True)
class TypedTemplate:
    """All subscriptions of one template: columns `id, subscriber, p1, p2, …`, in order of id."""

    text: str
    columns: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload at one size and seed. Nothing is drawn until it is asked for; asking again
    draws the same again."""

    name: str
    seed: int
    schema_toml: str
    event_count: int
    subscription_count: int
    templates: tuple[Template, ...]
    draw_events: Callable[[], Iterator[pa.RecordBatch]]
    # (random generator, which template, how many) → one Arrow array per parameter
    draw_parameters: Callable[[np.random.Generator, int, int], Sequence[pa.Array]]

    def __post_init__(self) -> None:
        check_at_least("seed", self.seed, 0)
        for what, count in (
            ("events", self.event_count),
            ("subscriptions", self.subscription_count),
        ):
            check_at_least(what, count, 1)
            if count > ROWS_MAX:
                raise UsageError(f"{what} must be at most {ROWS_MAX:,}, got {count:,}")
        assert math.isclose(sum(template.share for template in self.templates), 1.0)

    def event_batches(self) -> Iterator[pa.RecordBatch]:
        """Events in blocks of bounded size."""
        return self.draw_events()

    def subscription_batches(self) -> Iterator[pa.RecordBatch]:
        """Subscriptions as people write them (`id, subscriber, filter`), in blocks."""
        for parts in self._subscription_blocks():
            texts = pa.concat_arrays(
                [render(self.templates[part.template].text, part.parameters) for part in parts]
            )
            rows = np.concatenate([part.rows for part in parts])
            back = pa.array(np.argsort(rows))  # from grouped by template to the order drawn
            columns = [
                pa.concat_arrays([part.ids for part in parts]),
                pa.concat_arrays([part.subscribers for part in parts]),
                texts,
            ]
            yield pa.record_batch(
                [column.take(back) for column in columns], schema=SUBSCRIPTION_SCHEMA
            )

    def events(self) -> pa.Table:
        return pa.Table.from_batches(self.event_batches())

    def subscriptions(self) -> pa.Table:
        return pa.Table.from_batches(self.subscription_batches())

    def typed_templates(self) -> list[TypedTemplate]:
        """The same subscriptions as typed columns; templates nobody drew are left out."""
        blocks: dict[int, list[pa.RecordBatch]] = {}
        for parts in self._subscription_blocks():
            for part in parts:
                names = ["id", "subscriber", *self.templates[part.template].parameters]
                arrays = [part.ids, part.subscribers, *part.parameters]
                blocks.setdefault(part.template, []).append(pa.record_batch(arrays, names=names))
        return [
            TypedTemplate(self.templates[number].text, pa.Table.from_batches(blocks[number]))
            for number in sorted(blocks)
        ]

    def _subscription_blocks(self) -> Iterator[list[_Part]]:
        shares = np.array([template.share for template in self.templates])
        digits = len(str(self.subscription_count))
        subscribers = max(1, self.subscription_count // SUBSCRIPTIONS_PER_SUBSCRIBER)
        for block, (start, stop) in enumerate(block_bounds(self.subscription_count)):
            rng = generator(self.seed, Stream.SUBSCRIPTIONS, block)
            picked = rng.choice(len(shares), size=stop - start, p=shares / shares.sum())
            holder = zipf_ranks(rng, subscribers, stop - start, SUBSCRIBER_SKEW) + 1
            parts = []
            for number in range(len(shares)):
                rows = np.flatnonzero(picked == number)
                if rows.size:
                    parts.append(
                        _Part(
                            number,
                            rows,
                            numbered("s", rows + start + 1, digits),
                            numbered("u", holder[rows], len(str(subscribers))),
                            list(self.draw_parameters(rng, number, rows.size)),
                        )
                    )
            yield parts


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one block that use one template."""

    template: int
    rows: Ints
    ids: pa.Array
    subscribers: pa.Array
    parameters: list[pa.Array]


# -- drawing -----------------------------------------------------------------------------------


def generator(seed: int, stream: Stream, block: int = 0) -> np.random.Generator:
    """The random generator of one block; PCG64 by name, because numpy may change its default."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(stream), block))
    return np.random.Generator(np.random.PCG64(sequence))


def block_bounds(rows: int) -> Iterator[tuple[int, int]]:
    """Half-open row ranges of the blocks of a table."""
    for start in range(0, rows, BLOCK_ROWS):
        yield start, min(start + BLOCK_ROWS, rows)


def zipf_ranks(rng: np.random.Generator, ranks: int, size: int, exponent: float) -> Ints:
    """Ranks 0..ranks-1, rank r about as likely as (r + 1) ** -exponent.

    The density x ** -exponent on [1, ranks + 1) inverted and rounded down: no table, whatever the
    number of ranks. Against the exact law only the first few ranks are a little less likely.
    """
    uniform = rng.random(size)
    end = ranks + 1.0
    if exponent == 1.0:
        drawn = end**uniform
    else:
        power = 1.0 - exponent
        drawn = (1.0 + uniform * (end**power - 1.0)) ** (1.0 / power)
    return np.minimum(drawn.astype(np.int64) - 1, ranks - 1)


def check_at_least(what: str, value: float, least: float) -> None:
    if not value >= least:
        raise UsageError(f"{what} must be at least {least}, got {value}")


# -- text --------------------------------------------------------------------------------------

_PARAMETER = re.compile(r":p\d+\b")


def numbered(prefix: str, numbers: Ints, digits: int) -> pa.Array:
    """`s00042`: padded, so that order of text is order of number."""
    text = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), digits, "0")
    return pc.binary_join_element_wise(prefix, text, "")


def render(template: str, parameters: Sequence[pa.Array]) -> pa.Array:
    """The filters as text: each `:pN` replaced by the literal of that row's parameter."""
    pieces: list[pa.Array | str] = []
    end = 0
    for found in _PARAMETER.finditer(template):
        pieces += [template[end : found.start()], literals(parameters[int(found[0][2:]) - 1])]
        end = found.end()
    pieces.append(template[end:])
    return pc.binary_join_element_wise(*pieces, "")


def literals(values: pa.Array) -> pa.Array:
    """Values as Spark SQL literals. Refuses text that a quoted literal would have to escape."""
    text = pc.cast(values, pa.string())
    if pa.types.is_string(values.type):
        assert not pc.any(pc.match_substring_regex(values, r"['\\]")).as_py(), "needs escaping"
        return pc.binary_join_element_wise("'", text, "'", "")
    if pa.types.is_date(values.type):
        return pc.binary_join_element_wise("DATE '", text, "'", "")
    return text
