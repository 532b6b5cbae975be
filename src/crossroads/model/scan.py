"""Text → shape and literals. The **shape** of a filter is its text with every literal taken out.

Subscription sets repeat few shapes, so each distinct shape is parsed once (`parse`), and a million
filters cost a scan each (`shapes`). It also keeps sqlglot away from literals: escapes and number
types must be Spark's to the letter, and positions must survive.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum

from crossroads.errors import FilterError

SLOT = re.compile(r"_L(\d+)_")


class LiteralKind(StrEnum):
    NUMBER = "number"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class LiteralText:
    """A literal as written: `text` includes quotes, but not the word DATE or TIMESTAMP."""

    kind: LiteralKind
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """`shape` has `_Lk_` where literal k stood."""

    shape: str
    literals: tuple[LiteralText, ...]
    _shape_marks: tuple[int, ...]
    _text_marks: tuple[int, ...]

    def original(self, position: int) -> int:
        """Where in the text a position of the shape comes from."""
        at = bisect_right(self._shape_marks, position) - 1
        return self._text_marks[at] + position - self._shape_marks[at]


# Comments end where Spark ends them: a backslash carries a line comment on. Spark nests the other
# kind; such a comment is refused as one that is never closed.
_STRING = r"'(?:[^'\\]|\\.|'')*'" + r'|"(?:[^"\\]|\\.|"")*"'
_TOKEN = re.compile(
    rf"""
      (?P<blank>\s+ | --(?:\\\n|[^\r\n])* | /\*(?:(?!/\*|\*/).)*\*/)
    | (?P<moment>(?:DATE|TIMESTAMP)\b)\s*(?P<when>{_STRING})
    | (?P<prefixed>[A-Za-z_][A-Za-z0-9_]*(?=['"]))
    | (?P<string>{_STRING})
    | (?P<name>`(?:[^`]|``)*` | [^\W\d]\w*)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\w*)
    | (?P<open>['"`]|/\*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
# Words after which a string literal follows without a blank: LIKE'x%' is fine, r'x' is not.
_MAY_PRECEDE_STRING = {"LIKE", "RLIKE", "REGEXP", "ESCAPE", "AND", "OR", "NOT", "BETWEEN", "IN"}


def scan(text: str) -> Scanned:
    pieces: list[str] = []
    literals: list[LiteralText] = []
    shape_marks, text_marks = [0], [0]
    length = 0
    after_value = False  # does a value end here, so that a sign would be an operator?
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        piece = found[0]
        if kind == "blank":
            piece = " "
        elif kind in ("string", "number", "when"):
            literals.append(_literal(found))
            # Strings stay strings: ESCAPE, for one, takes nothing else.
            mark = "'" if kind == "string" else " "
            piece = f"{mark}_L{len(literals) - 1}_{mark}"
        else:
            _refuse_odd(found)
            if piece == "+" and not after_value:
                raise FilterError("a number takes no plus sign", position=found.start())
        if kind != "blank":
            named = kind in ("name", "prefixed") and piece.upper() not in _MAY_PRECEDE_STRING
            after_value = named or kind in ("string", "number", "when") or piece == ")"
        if piece != found[0]:
            if kind != "blank":  # a position inside the placeholder means the literal's start
                shape_marks.append(length + (kind != "string"))
                text_marks.append(literals[-1].start)
            shape_marks.append(length + len(piece))
            text_marks.append(found.end())
        pieces.append(piece)
        length += len(piece)
    return Scanned("".join(pieces), tuple(literals), tuple(shape_marks), tuple(text_marks))


def _literal(found: re.Match[str]) -> LiteralText:
    if found["when"] is not None:
        return LiteralText(LiteralKind(found["moment"].lower()), found["when"], found.start("when"))
    if found["string"] is not None:
        return LiteralText(LiteralKind.STRING, found["string"], found.start())
    return LiteralText(LiteralKind.NUMBER, found["number"], found.start())


def _refuse_odd(found: re.Match[str]) -> None:
    if found["open"] is not None:
        raise FilterError("a quote or comment is never closed", position=found.start())
    if found["other"] == ";":
        raise FilterError(
            "a filter is one condition: ';' has no place in it", position=found.start()
        )
    word = found["prefixed"]
    if word is not None and word.upper() not in _MAY_PRECEDE_STRING:
        raise FilterError(
            f"{word!r} before a string is not supported",
            position=found.start(),
            expected="a plain string, DATE '…' or TIMESTAMP '…'",
        )
    if SLOT.fullmatch(found[0].strip("`")):
        raise FilterError(f"no attribute {found[0]!r}", position=found.start())
