"""The mixed workload: shop offers, and subscriptions with every kind of predicate.

Equalities, ranges, prefixes, suffixes, OR and NOT; 10% of the subscriptions have `contains` or
RLIKE beside a predicate an index can use, 1% have only `contains`, 0.1% only RLIKE. Every column
of the events but the identity has NULLs.

A title reads `brand style material thing number`: `skeavix compact steel kettle 1702`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.lab.workloads.words import (
    MATERIALS,
    PLACES,
    STYLES,
    THINGS,
    TLD_SHARES,
    TLDS,
    names,
    pick,
)
from crossroads.lab.workloads.workload import (
    Floats,
    Stream,
    Template,
    Workload,
    block_bounds,
    check_at_least,
    generator,
    zipf_ranks,
)

SCHEMA = """\
name = "offers"
id = ["id"]

[attributes]
id = { type = "bigint", min = 1 }
title = { type = "string" }
category = { type = "string" }
brand = { type = "string" }
seller = { type = "string" }
price = { type = "double", min = 0, max = 10000 }
rating = { type = "double", min = 1, max = 5 }
stock = { type = "int", min = 0, max = 100000 }
listed = { type = "date", min = "2020-01-01", max = "2024-12-31" }
used = { type = "boolean" }
"""

EVENT_SCHEMA = pa.schema(
    [("id", pa.int64())]
    + [(name, pa.string()) for name in ("title", "category", "brand", "seller")]
    + [("price", pa.float64()), ("rating", pa.float64()), ("stock", pa.int32())]
    + [("listed", pa.date32()), ("used", pa.bool_())]
)

NULL_SHARE = 0.03  # of each nullable column of the events
BRANDS, SELLERS = 2_000, 5_000
CATEGORY_SKEW, BRAND_SKEW, SELLER_SKEW = 0.4, 0.5, 0.5  # Zipf exponents
NUMBERS = 10_000  # model numbers at the end of a title
PRICE_LEVEL, PRICE_SPREAD, PRICE_MAX = 40.0, 1.2, 10_000.0
STOCK_LEVEL, STOCK_SPREAD, STOCK_MAX = 60.0, 1.6, 100_000
FIRST_DAY = np.datetime64("2020-01-01", "D")
DAYS = 1827  # to the end of 2024
PREFIX_LETTERS_MIN = 4  # shorter ones would match a large share of all titles
SUFFIX_LETTERS_MIN = 7  # `.com` alone would match a third of all sellers


def mixed(seed: int = 0, events: int = 100_000, subscriptions: int = 100_000) -> Workload:
    check_at_least("seed", seed, 0)
    shop = Shop.draw(seed)
    return Workload(
        name="mixed",
        seed=seed,
        schema_toml=SCHEMA,
        event_count=events,
        subscription_count=subscriptions,
        templates=tuple(kind.template for kind in KINDS),
        draw_events=lambda: _offers(seed, shop, events),
        draw_parameters=lambda rng, kind, size: [
            column for draw in KINDS[kind].draws for column in draw(shop, rng, size)
        ],
    )


@dataclass(frozen=True, slots=True)
class Shop:
    """What offers and subscriptions share. Popular names come first."""

    categories: pa.Array
    brands: pa.Array
    sellers: pa.Array

    @classmethod
    def draw(cls, seed: int) -> Shop:
        rng = generator(seed, Stream.WORLD)
        tlds = rng.choice(len(TLDS), size=SELLERS, p=np.array(TLD_SHARES) / sum(TLD_SHARES))
        sellers = [
            f"{name}.{TLDS[tld]}" for name, tld in zip(names(rng, SELLERS), tlds, strict=True)
        ]
        return cls(
            categories=pa.array([f"{place}/{thing}" for thing in THINGS for place in PLACES]),
            brands=pa.array(names(rng, BRANDS)),
            sellers=pa.array(sellers),
        )

    def category(self, rng: np.random.Generator, size: int) -> pa.Array:
        return pick(self.categories, zipf_ranks(rng, len(self.categories), size, CATEGORY_SKEW))

    def brand(self, rng: np.random.Generator, size: int) -> pa.Array:
        return pick(self.brands, zipf_ranks(rng, len(self.brands), size, BRAND_SKEW))

    def seller(self, rng: np.random.Generator, size: int) -> pa.Array:
        return pick(self.sellers, zipf_ranks(rng, len(self.sellers), size, SELLER_SKEW))


# -- events ------------------------------------------------------------------------------------


def _offers(seed: int, shop: Shop, events: int) -> Iterator[pa.RecordBatch]:
    for block, (start, stop) in enumerate(block_bounds(events)):
        rng = generator(seed, Stream.EVENTS, block)
        size = stop - start
        brand = zipf_ranks(rng, BRANDS, size, BRAND_SKEW)
        days = FIRST_DAY + rng.integers(DAYS, size=size)
        columns = [
            _titles(rng, pick(shop.brands, brand)),
            shop.category(rng, size),
            pick(shop.brands, brand),
            shop.seller(rng, size),
            pa.array(_dollars(rng.standard_normal(size))),
            pa.array(np.round(np.clip(rng.normal(4.0, 0.7, size), 1, 5), 1)),
            pa.array(_stocks(rng, size)),
            pa.array(days),
            pa.array(rng.random(size) < 0.25),
        ]
        blanks = rng.random((len(columns), size)) < NULL_SHARE
        columns = [
            pc.if_else(pa.array(blank), pa.scalar(None, column.type), column)
            for blank, column in zip(blanks, columns, strict=True)
        ]
        yield pa.record_batch(
            [pa.array(np.arange(start + 1, stop + 1)), *columns], schema=EVENT_SCHEMA
        )


def _titles(rng: np.random.Generator, brands: pa.Array) -> pa.Array:
    words = [_word(rng, of, len(brands)) for of in (STYLES, MATERIALS, THINGS)]
    number = pc.cast(pa.array(rng.integers(NUMBERS, size=len(brands))), pa.string())
    return pc.binary_join_element_wise(brands, *words, number, " ")


def _word(rng: np.random.Generator, of: list[str], size: int) -> pa.Array:
    return pick(pa.array(of), rng.integers(len(of), size=size))


def _dollars(deviations: Floats) -> Floats:
    """The price that many standard deviations above the median, to the cent."""
    dollars = PRICE_LEVEL * np.exp(PRICE_SPREAD * deviations)
    return np.rint(np.clip(dollars, 0.01, PRICE_MAX) * 100.0) / 100.0


def _stocks(rng: np.random.Generator, size: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    pieces = STOCK_LEVEL * np.exp(STOCK_SPREAD * rng.standard_normal(size))
    return np.minimum(pieces, STOCK_MAX).astype(np.int32)


# -- subscriptions -----------------------------------------------------------------------------

# The columns of one or more parameters that belong together, such as the two ends of a range.
Draw = Callable[[Shop, np.random.Generator, int], list[pa.Array]]


def _category(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [shop.category(rng, size)]


def _brand(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [shop.brand(rng, size)]


def _seller(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [shop.seller(rng, size)]


def _bargain(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """A price that about a fifth of the offers undercut."""
    return [pa.array(_dollars(rng.normal(-1.0, 0.6, size)))]


def _price_range(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """About a tenth of the offers."""
    middle, half = rng.standard_normal(size), rng.uniform(0.02, 0.3, size)
    return [pa.array(_dollars(middle + sign * half)) for sign in (-1, 1)]


def _stock_range(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    middle, half = rng.standard_normal(size), rng.uniform(0.02, 0.3, size)
    ends = (STOCK_LEVEL * np.exp(STOCK_SPREAD * (middle + sign * half)) for sign in (-1, 1))
    return [pa.array(np.minimum(end, STOCK_MAX).astype(np.int32)) for end in ends]


def _stock(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [pa.array(_stocks(rng, size))]


def _rating(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [pa.array(rng.integers(40, 50, size=size) / 10.0)]


def _day(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """Within the last year of the listings."""
    return [pa.array(FIRST_DAY + rng.integers(DAYS - 365, DAYS, size=size))]


def _prefix(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """The beginning of a title, cut anywhere."""
    titles = _titles(rng, shop.brand(rng, size)).to_pylist()
    lengths = rng.integers(PREFIX_LETTERS_MIN, 18, size=size)
    cut = zip(titles, lengths, strict=True)
    return [pa.array([title[:length].rstrip() for title, length in cut])]


def _prefix_pattern(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [pc.binary_join_element_wise(*_prefix(shop, rng, size), "%", "")]


def _suffix(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """The end of a seller's address, cut anywhere."""
    sellers = shop.seller(rng, size).to_pylist()
    lengths = rng.integers(SUFFIX_LETTERS_MIN, 14, size=size)
    cut = zip(sellers, lengths, strict=True)
    return [pa.array([seller[-length:] for seller, length in cut])]


def _phrase(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """Two words that stand side by side in some titles."""
    words = (_word(rng, MATERIALS, size), _word(rng, THINGS, size))
    return [pc.binary_join_element_wise(*words, " ")]


def _material(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """One word: beside another predicate a phrase would match next to nothing."""
    return [_word(rng, MATERIALS, size)]


def _phrase_pattern(shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    return [pc.binary_join_element_wise("%", *_phrase(shop, rng, size), "%", "")]


def _expression(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """`steel (kettle|mug) [3-9]`, `slim .*mug 1[0-9]`: alternatives, gaps and classes of digits."""
    one, other = (_word(rng, THINGS, size) for _ in range(2))
    digit = pc.cast(pa.array(rng.integers(1, 9, size=size)), pa.string())
    choice = pc.binary_join_element_wise(
        _word(rng, MATERIALS, size), " (", one, "|", other, ") [", digit, "-9]", ""
    )
    gap = pc.binary_join_element_wise(
        _word(rng, STYLES, size), " .*", one, " ", digit, "[0-9]{2}", ""
    )
    return [pc.if_else(pa.array(rng.random(size) < 0.5), choice, gap)]


def _loose_expression(_shop: Shop, rng: np.random.Generator, size: int) -> list[pa.Array]:
    """`(oak|steel) .* [3-9]`: for use beside another predicate."""
    words = (_word(rng, MATERIALS, size), "|", _word(rng, MATERIALS, size))
    digit = pc.cast(pa.array(rng.integers(1, 9, size=size)), pa.string())
    return [pc.binary_join_element_wise("(", *words, ") .* [", digit, "-9]", "")]


@dataclass(frozen=True, slots=True)
class Kind:
    """A template, and what draws its parameters, in order."""

    share: float
    text: str
    draws: tuple[Draw, ...]

    @property
    def template(self) -> Template:
        return Template(self.text, self.share)


KINDS = (
    # Indexable as they stand: 88.9%.
    Kind(0.14, "category = :p1 AND price <= :p2", (_category, _bargain)),
    Kind(0.14, "brand = :p1 AND price BETWEEN :p2 AND :p3", (_brand, _price_range)),
    Kind(
        0.10,
        "price BETWEEN :p1 AND :p2 AND rating >= :p3 AND stock BETWEEN :p4 AND :p5",
        (_price_range, _rating, _stock_range),
    ),
    Kind(0.10, "startswith(title, :p1) AND price <= :p2", (_prefix, _bargain)),
    Kind(0.05, "title LIKE :p1 AND NOT used", (_prefix_pattern,)),
    Kind(0.09, "endswith(seller, :p1) AND rating >= :p2", (_suffix, _rating)),
    Kind(
        0.09,
        "brand = :p1 OR (category = :p2 AND price < :p3)",
        (_brand, _category, _bargain),
    ),
    Kind(
        0.08,
        "category IN (:p1, :p2, :p3) AND NOT (price > :p4 OR used)",
        (_category, _category, _category, _bargain),
    ),
    Kind(
        0.05,
        "NOT (category <> :p1 OR stock < :p2) AND listed >= :p3",
        (_category, _stock, _day),
    ),
    Kind(0.029, "brand = :p1 AND rating IS NULL", (_brand,)),
    Kind(0.02, "seller = :p1", (_seller,)),
    # A pattern beside something indexable: 10%.
    Kind(0.04, "category = :p1 AND contains(title, :p2)", (_category, _material)),
    Kind(0.03, "brand = :p1 AND title RLIKE :p2", (_brand, _loose_expression)),
    Kind(0.02, "price BETWEEN :p1 AND :p2 AND title LIKE :p3", (_price_range, _phrase_pattern)),
    Kind(0.01, "endswith(seller, :p1) AND contains(title, :p2)", (_suffix, _material)),
    # Nothing but a pattern: 1% and 0.1%.
    Kind(0.01, "contains(title, :p1)", (_phrase,)),
    Kind(0.001, "title RLIKE :p1", (_expression,)),
)
