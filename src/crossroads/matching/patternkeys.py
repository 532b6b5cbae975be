"""Candidates that the text of an event finds: by which of its checks, and by which pattern."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from crossroads.model.filter import Attr, Literal, RLike, TextTest
from crossroads.model.normal import Check
from crossroads.model.shapes import ShapeGroup, Texts


@dataclass
class PatternKeys:
    """Candidates of one attribute that a text pattern finds."""

    needles: list[bytes] = field(default_factory=list)
    needle_candidates: list[int] = field(default_factory=list)
    regexes: list[str] = field(default_factory=list)
    regex_candidates: list[int] = field(default_factory=list)

    def add(self, key: Check, patterns: list[str], candidates: list[int]) -> None:
        if isinstance(key.predicate, RLike):
            self.regexes += patterns
            self.regex_candidates += candidates
        else:
            self.needles += [text.encode() for text in patterns]
            self.needle_candidates += candidates


def pattern_key(checks: Iterable[Check]) -> Check | None:
    """The check by which a candidate can be found in the text: the longest contains, else RLIKE."""
    wanted = [check for check in checks if check.wanted]
    contains = [
        check
        for check in wanted
        if isinstance(check.predicate, TextTest) and check.predicate.op == "contains"
        if isinstance(check.predicate.left, Attr) and _is_text(check.predicate.right)
    ]
    if contains:
        return max(contains, key=lambda check: (len(pattern_of(check)), pattern_of(check)))
    regexes = [
        check
        for check in wanted
        if isinstance(check.predicate, RLike) and isinstance(check.predicate.operand, Attr)
    ]
    return max(regexes, key=pattern_of, default=None)


def _is_text(operand: object) -> bool:
    return isinstance(operand, Literal) and isinstance(operand.value, str)


def attribute_of(key: Check) -> str:
    match key.predicate:
        case TextTest(_, Attr(name, _), _) | RLike(Attr(name, _), _):
            return name
    raise AssertionError(key)


def pattern_of(key: Check) -> str:
    return str(_pattern(key).value)


def patterns_of(key: Check, group: ShapeGroup) -> list[str]:
    """The pattern of each row."""
    literal = _pattern(key)
    assert literal.source is not None
    slot = group.slots[literal.source[0]]
    assert isinstance(slot, Texts)
    texts: list[str] = slot.values.to_pylist()
    return texts


def _pattern(key: Check) -> Literal:
    match key.predicate:
        case TextTest(_, _, Literal() as literal) | RLike(_, literal):
            return literal
    raise AssertionError(key)
