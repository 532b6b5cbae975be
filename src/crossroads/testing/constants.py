"""Constants as text: every way in which Spark SQL lets one write a value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from hypothesis import strategies as st

from crossroads.model.literals import quote_text
from crossroads.model.types import Kind, Type, Value
from crossroads.model.values import text_of
from crossroads.testing import pools

_NUMBERS = frozenset({Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL})
_TEXTS = frozenset({Kind.STRING, Kind.PATH, Kind.URL})
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})
# Attributes of which kinds may stand on the other side of a comparison.
COMPARABLE_KINDS: dict[Kind, frozenset[Kind]] = {
    **dict.fromkeys(_NUMBERS, _NUMBERS),
    **dict.fromkeys(_TEXTS, _TEXTS),
    **dict.fromkeys(_TIMES, _TIMES),
    Kind.BOOLEAN: frozenset({Kind.BOOLEAN}),
}

_NUMBER_TEXTS = (
    *("0", "1", "2", "3", "5", "7", "-1", "- 3", "10", "007"),
    *("1L", "-3L", "2147483647", "-2147483648", "2147483648", "-2147483649"),
    *("9007199254740991", "9007199254740992", "9007199254740993", "9007199254740993L"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    *("1.0", "2.5", "2.50", "-0.5", ".5", "3.", "0.01", "0.005", "-0.0", "999.99", "0.1"),
    *("2.5BD", "3BD", "1e2BD", "25e-1BD", "99999999999999999999"),
    *("1D", "2.5D", "-0.0D", "0.1D", "1e0", "25e-1", "1E-7", "5e-324", "1e-400"),
    *("9007199254740993D", "9.223372036854775807e18", "-9.3e18", "1.7976931348623157e308"),
)


def constants(type_: Type) -> st.SearchStrategy[str]:
    """A literal that may be compared with an attribute of that type; NULL now and then."""
    return st.integers(0, 12).flatmap(lambda n: _known(type_) if n else st.just("NULL"))


def _known(type_: Type) -> st.SearchStrategy[str]:
    match type_.kind:
        case Kind.BOOLEAN:
            return st.sampled_from(("TRUE", "FALSE", "true"))
        case Kind.INT | Kind.BIGINT | Kind.DOUBLE | Kind.DECIMAL:
            return st.sampled_from(_NUMBER_TEXTS)
        case Kind.DATE:
            # Text is read as what it is compared with: a date here.
            return st.one_of(_dates(quoted_too=True), _timestamps(quoted_too=False))
        case Kind.TIMESTAMP:
            return st.one_of(_dates(quoted_too=False), _timestamps(quoted_too=True))
    return st.sampled_from(TextConstants.whole(pools.pool(type_))).flatmap(quoted)


class TextConstants:
    """Texts worth comparing with the texts of a pool."""

    @staticmethod
    def whole(pool: Sequence[Value]) -> list[str]:
        return [str(text) for text in pool]

    @staticmethod
    def pieces(pool: Sequence[Value]) -> list[str]:
        """Beginnings, ends and middles, by characters."""
        found = {"": None, "zz": None}
        for text in map(str, pool):
            for piece in (text, text[:1], text[:2], text[-1:], text[-2:], text[1:-1]):
                found[piece] = None
        return list(found)


def quoted(text: str) -> st.SearchStrategy[str]:
    """Ways to write the same string literal."""
    doubled = text.replace("\\", "\\\\")
    ways = [
        quote_text(text),
        "'" + doubled.replace("'", "''") + "'",
        '"' + doubled.replace('"', '""') + '"',
    ]
    if text:
        ways.append("'" + "".join(f"\\U{ord(char):08X}" for char in text) + "'")
    return st.sampled_from(ways)


def patterns(pool: Sequence[Value], escape: str) -> st.SearchStrategy[str]:
    """LIKE patterns made of pieces of the pool and wildcards, wildcards in text escaped."""
    special = ("%", "_", escape)
    pieces = [
        "".join(escape + char if char in special else char for char in piece)
        for piece in TextConstants.pieces(pool)
    ]
    part = st.one_of(st.sampled_from(pieces), st.sampled_from(("%", "%", "_")))
    return st.lists(part, max_size=4).map("".join)


def _dates(*, quoted_too: bool) -> st.SearchStrategy[str]:
    def written(day: date) -> list[str]:
        plain = f"'{text_of(day)}'"
        short = f"'{day.year:04}-{day.month}-{day.day}'"
        return [f"DATE {plain}", f"date{plain}", *([plain, short] if quoted_too else [])]

    return st.sampled_from(pools.DATES).flatmap(lambda day: st.sampled_from(written(day)))


def _timestamps(*, quoted_too: bool) -> st.SearchStrategy[str]:
    def written(moment: datetime) -> list[str]:
        plain = f"'{text_of(moment)}'"
        zoned = f"'{text_of(moment)}Z'"
        found = [f"TIMESTAMP {plain}", f"timestamp{plain}", f"TIMESTAMP {zoned}"]
        return [*found, *([plain, zoned] if quoted_too else [])]

    return st.sampled_from(pools.TIMESTAMPS).flatmap(
        lambda moment: st.sampled_from(written(moment))
    )
