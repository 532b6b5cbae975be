"""Seeded random filters whose constants come from given events: for proofs too large to shrink.

    drawn = SeededFilters(schema, events, seed=7)
    [drawn.filter() for _ in range(100_000)]

Where `strategies` looks for the strange with few values, this looks like what people ask: mostly
conjunctions of ranges and equalities, at quantiles of real columns, with every operator of the
language among them. Each filter comes twice, as in `strategies`: our text and Spark's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from crossroads.model.schema import Attribute, Schema
from crossroads.model.show import show_name
from crossroads.model.types import Kind
from crossroads.testing.strategies import FilterText

CONSTANTS_PER_ATTRIBUTE = 250  # quantiles: filters share constants, as those of people do
_COMPARISONS = ("=", "<=>", "<>", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


class SeededFilters:
    """Of numbers, dates and texts; attributes of other types are left out of the filters."""

    def __init__(self, schema: Schema, events: pa.Table, seed: int) -> None:
        self.random = random.Random(seed)
        self.constants = {
            attribute.name: found
            for attribute in schema.attributes
            if (found := _quantiles(events[attribute.name]))
        }
        usable = [a for a in schema.attributes if a.name in self.constants]
        self.numbers = [a for a in usable if a.type.is_number]
        self.texts = [a for a in usable if a.type.is_text]
        self.dates = [a for a in usable if a.type.kind is Kind.DATE]
        self.attributes = [*self.numbers, *self.texts, *self.dates]

    def filter(self) -> FilterText:
        kind = self.random.random()
        if kind < 0.6:
            return self._conjunction()
        if kind < 0.8:
            parts = [self._conjunction() for _ in range(self.random.randint(2, 3))]
            return _join(" OR ".join("({})" for _ in parts), *parts)
        return self._tree(3)

    def _conjunction(self) -> FilterText:
        parts = [self._predicate() for _ in range(self.random.choice((1, 2, 2, 3, 3, 4)))]
        return _join(" AND ".join("{}" for _ in parts), *parts)

    def _tree(self, depth: int) -> FilterText:
        if depth == 0 or self.random.random() < 0.2:
            return self._predicate()
        word = self.random.choice(("AND", "OR", "NOT"))
        if word == "NOT":
            return _join("NOT ({})", self._tree(depth - 1))
        return _join(f"({{}}) {word} ({{}})", self._tree(depth - 1), self._tree(depth - 1))

    # -- predicates ----------------------------------------------------------------------------

    def _predicate(self) -> FilterText:
        choices: list[tuple[Callable[[], FilterText], int]] = [
            (self._comparison, 10),
            (self._between, 4),
            (self._membership, 3),
            (self._null_test, 1),
            (self._constant_truth, 1),
        ]
        if self.texts:
            choices += [(self._text_equality, 5), (self._text_test, 3), (self._like, 3)]
            choices += [(self._rlike, 1)]
        if len(self.numbers) > 1:
            choices += [(self._two_attributes, 2), (self._calculation, 2)]
        made = [one for one, _ in choices]
        return self.random.choices(made, [weight for _, weight in choices])[0]()

    def _comparison(self) -> FilterText:
        attribute = self.random.choice(self.attributes)
        constant = "NULL" if self.random.random() < 0.02 else self._constant(attribute)
        sides = [_name(attribute), _same(constant)]
        if self.random.random() < 0.2:
            sides.reverse()
        return _join(f"{{}} {self.random.choice(_COMPARISONS)} {{}}", *sides)

    def _text_equality(self) -> FilterText:
        attribute = self.random.choice(self.texts)
        return _join("{} = {}", _name(attribute), _same(self._constant(attribute)))

    def _between(self) -> FilterText:
        attribute = self.random.choice(self.attributes)
        pair = self.random.choices(self.constants[attribute.name], k=2)
        if self.random.random() < 0.95:  # the others are empty, and must be found to be
            pair.sort()
        word = self.random.choice(("BETWEEN", "BETWEEN", "BETWEEN", "NOT BETWEEN"))
        low, high = map(_literal, pair)
        return _join(f"{{}} {word} {low} AND {high}", _name(attribute))

    def _membership(self) -> FilterText:
        attribute = self.random.choice(self.attributes)
        options = [self._constant(attribute) for _ in range(self.random.randint(1, 6))]
        if self.random.random() < 0.1:
            options.append("NULL")
        word = self.random.choice(("IN", "IN", "NOT IN"))
        return _join("{} " + word + " ({})", _name(attribute), _same(", ".join(options)))

    def _null_test(self) -> FilterText:
        test = self.random.choice(("IS NULL", "IS NOT NULL"))
        return _join("{} " + test, _name(self.random.choice(self.attributes)))

    def _constant_truth(self) -> FilterText:
        return _same(self.random.choice(("TRUE", "FALSE", "NULL")))

    def _text_test(self) -> FilterText:
        attribute = self.random.choice(self.texts)
        test = self.random.choice(("startswith", "endswith", "contains"))
        return _join(f"{test}({{}}, {{}})", _name(attribute), _same(_quoted(self._piece())))

    def _like(self) -> FilterText:
        attribute = self.random.choice(self.texts)
        piece, other = self._piece(), self._piece()
        pattern = self.random.choice(
            (f"{piece}%", f"%{piece}", f"%{piece}%", f"_{piece}%", f"{piece}%{other}", f"{piece}_")
        )
        word = self.random.choice(("LIKE", "LIKE", "NOT LIKE"))
        return _join(f"{{}} {word} {{}}", _name(attribute), _same(_quoted(pattern)))

    def _rlike(self) -> FilterText:
        """Only what means the same to RE2 and to Java."""
        attribute = self.random.choice(self.texts)
        piece, other = self._piece(), self._piece()
        pattern = self.random.choice(
            (f"^{piece}", f"{piece}$", f"{piece}|{other}", f"^[{piece}].*[{other}]$", f"{piece}+")
        )
        return _join("{} RLIKE {}", _name(attribute), _same(_quoted(pattern)))

    def _two_attributes(self) -> FilterText:
        one, other = self.random.sample(self.numbers, 2)
        op = self.random.choice(_COMPARISONS)
        return _join(f"{{}} {op} {{}}", _name(one), _name(other))

    def _calculation(self) -> FilterText:
        one, other = map(_name, self.random.sample(self.numbers, 2))
        share = f"{self.random.uniform(-0.2, 0.2):.2f}D"
        times = self.random.choice(("2", "0.5D", "1.1D", "3"))
        ours, spark = self.random.choice(
            (
                (
                    "({0} - {1}) / {1} > {share}",
                    "try_divide(try_subtract({0}, {1}), {1}) > {share}",
                ),
                ("{0} > {1} * {times}", "{0} > try_multiply({1}, {times})"),
                ("{0} + {1} < {times} * {1}", "try_add({0}, {1}) < try_multiply({times}, {1})"),
            )
        )
        return FilterText(
            ours.format(one.text, other.text, share=share, times=times),
            spark.format(one.spark, other.spark, share=share, times=times),
        )

    # -- constants -----------------------------------------------------------------------------

    def _constant(self, attribute: Attribute) -> str:
        return _literal(self.random.choice(self.constants[attribute.name]))

    def _piece(self) -> str:
        """One or two neighbouring characters of a text that occurs."""
        text = self.random.choice(self.constants[self.random.choice(self.texts).name])
        letters = "".join(letter for letter in str(text) if letter.isalnum()) or "a"
        start = self.random.randrange(len(letters))
        return letters[start : start + self.random.choice((1, 1, 2))]


def _quantiles(column: pa.ChunkedArray) -> list[object]:
    """Values that occur, in equal steps of how often; those that are text, numbers or dates."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
        if not pa.types.is_floating(kind):
            return []
        column = column.filter(pc.is_finite(column).fill_null(False))
    known = column.drop_null()
    ordered = known.take(pc.sort_indices(known))
    steps = min(CONSTANTS_PER_ATTRIBUTE, len(ordered))
    places = [step * (len(ordered) - 1) // max(1, steps - 1) for step in range(steps)]
    found: list[object] = ordered.take(pa.array(sorted(set(places)), pa.int64())).to_pylist()
    return found


def _literal(value: object) -> str:
    match value:
        case str():
            return _quoted(value)
        case date():
            return f"DATE'{value.isoformat()}'"
        case float():
            return f"{value!r}D"
    return str(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _name(attribute: Attribute) -> FilterText:
    return FilterText(show_name(attribute.name), f"`{attribute.name}`")


def _same(text: str) -> FilterText:
    return FilterText(text, text)


def _join(template: str, *parts: FilterText) -> FilterText:
    ours: Sequence[str] = [part.text for part in parts]
    spark: Sequence[str] = [part.spark for part in parts]
    return FilterText(template.format(*ours), template.format(*spark))
