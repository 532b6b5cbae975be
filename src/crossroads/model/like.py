r"""Spark's LIKE (UTF8_BINARY collation): parsed, normalised, classified, and its plain meaning.

    %    any run of characters, also empty, also with line breaks
    _    exactly one character (a Unicode code point, not a byte)
    \    the escape character (another one with ESCAPE): makes `%`, `_` or itself a plain character

An escape before anything else, or at the end, is an error, as in Spark. The escape is looked at
first, so `ESCAPE '%'` leaves a pattern without the "any run" wildcard.

The normal form: neighbouring literals are joined, and a run of wildcards is written as all its
ONEs followed by at most one MANY (`%_%_` means "at least two characters", so do `__%` and `_%_`).
Two patterns with the same parts are therefore the same pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from crossroads.errors import InputError

ESCAPE_DEFAULT = "\\"


class LikePatternError(InputError, ValueError):
    """A LIKE pattern that Spark refuses too. `position` is a 0-based offset into the pattern."""

    def __init__(
        self, message: str, *, position: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.position = position


class Wildcard(Enum):
    """What a pattern may hold besides literal text."""

    ONE = "_"
    MANY = "%"


Part = str | Wildcard

_WILDCARDS: dict[str, Part] = {wildcard.value: wildcard for wildcard in Wildcard}
_RUNS = re.compile("[%_]|[^%_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A parsed pattern in normal form; made by `parse_like` only."""

    parts: tuple[Part, ...]

    @property
    def equals(self) -> str | None:
        """The only text that matches, when the pattern has no wildcard."""
        if not self.parts:
            return ""
        only = self.parts[0]
        return only if len(self.parts) == 1 and isinstance(only, str) else None

    @property
    def prefix(self) -> str:
        """Every match starts with this (the whole text of a pattern without wildcards)."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def suffix(self) -> str:
        """Every match ends with this (the whole text of a pattern without wildcards)."""
        return self.parts[-1] if self.parts and isinstance(self.parts[-1], str) else ""

    @property
    def contains(self) -> str | None:
        """x when the pattern is exactly %x% with x not empty."""
        match self.parts:
            case (Wildcard.MANY, str(needle), Wildcard.MANY):
                return needle
        return None

    @property
    def is_prefix_only(self) -> bool:
        """Exactly x% with x not empty: `startswith(prefix)` says all."""
        match self.parts:
            case (str(), Wildcard.MANY):
                return True
        return False

    @property
    def is_suffix_only(self) -> bool:
        """Exactly %x with x not empty: `endswith(suffix)` says all."""
        match self.parts:
            case (Wildcard.MANY, str()):
                return True
        return False

    @property
    def literals(self) -> tuple[str, ...]:
        """The literal stretches in order: every match contains each of them."""
        return tuple(part for part in self.parts if isinstance(part, str))

    @property
    def min_length(self) -> int:
        """No text of fewer characters (code points) matches."""
        return sum(
            len(part) if isinstance(part, str) else int(part is Wildcard.ONE) for part in self.parts
        )

    @property
    def matches_everything(self) -> bool:
        """Exactly %: true for every text that is not NULL."""
        return self.parts == (Wildcard.MANY,)

    def matches(self, text: str) -> bool:
        """The definition. No backtracking: the leftmost place of each segment is always best."""
        head, *rest = _segments(self.parts)
        if not rest:
            return len(text) == len(head) and _fits(head, text, 0)
        *middles, tail = rest
        start, end = len(head), len(text) - len(tail)
        if start > end or not _fits(head, text, 0) or not _fits(tail, text, end):
            return False
        for segment in middles:
            while start + len(segment) <= end and not _fits(segment, text, start):
                start += 1
            if start + len(segment) > end:
                return False
            start += len(segment)
        return True

    def to_text(self, escape: str = ESCAPE_DEFAULT) -> str:
        """A pattern text that parses back to the same parts."""
        special = {"%", "_", escape}
        pieces = []
        for part in self.parts:
            if isinstance(part, Wildcard):
                if part.value == escape:
                    raise LikePatternError(f"{escape!r} is both the escape and a wildcard here")
                pieces.append(part.value)
            else:
                pieces.append("".join(escape + c if c in special else c for c in part))
        return "".join(pieces)


def parse_like(pattern: str, escape: str = ESCAPE_DEFAULT) -> LikePattern:
    """The normal form of a pattern text, or `LikePatternError` where Spark would raise."""
    # Spark takes one UTF-16 unit as the escape, so characters beyond U+FFFF cannot be one.
    if len(escape) != 1 or escape > "\uffff":
        raise LikePatternError(
            f"the ESCAPE of a LIKE must be one character, not {escape!r}",
            hint="write for example ESCAPE '/'",
        )
    surrogate = None if pattern.isascii() else _SURROGATE.search(pattern)
    if surrogate is not None:
        raise LikePatternError(
            "half a surrogate pair is not a character", position=surrogate.start()
        )
    if escape in pattern:
        return LikePattern(_normalised(_tokens(pattern, escape)))
    # The usual case, in runs: sets hold a great many patterns, and few of them escape anything.
    runs = _RUNS.findall(pattern)
    return LikePattern(_normalised(_WILDCARDS.get(run, run) for run in runs))


def _tokens(pattern: str, escape: str) -> Iterator[Part]:
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            escaped = pattern[position + 1 : position + 2]
            if not escaped:
                raise LikePatternError(
                    f"the LIKE pattern ends with its escape character {escape!r}",
                    position=position,
                    hint=f"write {escape * 2!r} for the character itself",
                )
            if escaped not in ("%", "_", escape):
                raise LikePatternError(
                    f"the escape character {escape!r} cannot stand before {escaped!r}",
                    position=position,
                    hint=f"it may stand only before '%', '_' and {escape!r}",
                )
            yield escaped
            position += 2
            continue
        yield _WILDCARDS.get(character, character)
        position += 1


def _normalised(tokens: Iterable[Part]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for token in tokens:
        last = parts[-1] if parts else None
        if isinstance(token, str) and isinstance(last, str):
            parts[-1] = last + token
        elif token is Wildcard.ONE and last is Wildcard.MANY:
            parts.insert(-1, token)
        elif not (token is Wildcard.MANY and last is Wildcard.MANY):
            parts.append(token)
    return tuple(parts)


# A segment is what stands between two MANYs: one entry per character, None for ONE.
Segment = list[str | None]


def _segments(parts: tuple[Part, ...]) -> list[Segment]:
    segments: list[Segment] = [[]]
    for part in parts:
        if part is Wildcard.MANY:
            segments.append([])
        elif part is Wildcard.ONE:
            segments[-1].append(None)
        else:
            assert isinstance(part, str)
            segments[-1].extend(part)
    return segments


def _fits(segment: Segment, text: str, start: int) -> bool:
    return all(want is None or text[start + i] == want for i, want in enumerate(segment))
