r"""RLIKE: RE2's meaning (an unanchored search) on an allow-listed subset, bounded in size and time.

RE2 never backtracks, so a search takes time linear in the text whatever the pattern says. The
subset is what RE2 and Java's regular expressions both write the same way, so that nobody is
surprised by a pattern that means something else in Spark:

    literals    any character but  \ ^ $ . | ? * + ( ) [ {   and those escaped by \
    characters  \t \n \r \f \a \xHH \x{H..H}      .  (any but a line feed; with (?s) any)
    classes     [abc] [^a-z] \d \D \w \W \s \S (ASCII)   \pL \p{Lu} \P{Nd} (general categories)
    anchors     ^ $ \A \z \b \B
    groups      (...) (?:...) (?<name>...) (?P<name>...)     alternation  a|b
    repetition  * + ? {m} {m,} {m,n}, each also lazy (*?)
    flags       (?i) (?s) (?m), combined, switched off (?-i), or for a group (?i:...)

Refused: lookaround, backreferences, possessive and atomic groups (not regular, or not in RE2);
\v \h \R \Z \Q..\E octal \C and other escapes, [[:alpha:]], a && b in a class, `{` as a literal,
script names, flags U x u d (spelt or meant differently by the two, or splitting code points).

Where both accept a pattern and still differ, RE2 decides, everywhere in Crossroads: `$` is the
very end of the text, `.` stops only at a line feed, \s has no vertical tab, (?i) folds Unicode.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Protocol

import re2

from crossroads.errors import InputError

# A pattern people can still read; also bounds the time of the scan below and of RE2's parser.
REGEX_LENGTH_MAX = 1_000

# Instructions of the compiled program. When RE2's automaton outgrows its memory it falls back to
# stepping through up to all instructions per byte of text, so this bounds the worst case; counted
# repetition multiplies: `.{500}` alone has 4,000.
REGEX_PROGRAM_MAX = 10_000

# Memory RE2 may use per compiled pattern (program and automaton, both directions). Holds any
# program we accept several times over; past it RE2 is slower, never wrong.
REGEX_MEMORY_BYTES = 1 << 20

# Compiled patterns kept per process: at worst REGEX_MEMORY_BYTES each, in practice a few kB.
REGEX_CACHE_SIZE = 1024


class RegexError(InputError, ValueError):
    """An RLIKE pattern we refuse. `position` is a 0-based offset into the pattern, where known."""

    def __init__(
        self, message: str, *, position: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.position = position


class CompiledRegex(Protocol):
    """The part of a compiled google-re2 pattern that we use."""

    @property
    def programsize(self) -> int: ...
    @property
    def reverseprogramsize(self) -> int: ...
    def search(self, text: str | bytes) -> object | None: ...


def regex_options(memory_bytes: int = REGEX_MEMORY_BYTES) -> re2.Options:
    """The options under which every RLIKE pattern runs, alone or in a set."""
    options = re2.Options()
    options.never_capture = True  # only whether it matches is asked; capturing costs time
    options.log_errors = False  # RE2 would print to stderr; we raise instead
    options.max_mem = memory_bytes
    return options


def check_regex(pattern: str) -> None:
    """Raise `RegexError` unless the pattern is in the subset and within the limits."""
    compile_regex(pattern)


@lru_cache(maxsize=REGEX_CACHE_SIZE)
def compile_regex(pattern: str) -> CompiledRegex:
    """The checked, compiled pattern. Thread-safe, as RE2 is."""
    if len(pattern) > REGEX_LENGTH_MAX:
        raise RegexError(
            f"the regular expression has {len(pattern)} characters, {REGEX_LENGTH_MAX} are allowed",
            hint="split it into several RLIKE joined by OR",
        )
    _Scanner(pattern).scan()
    try:
        compiled: CompiledRegex = re2.compile(pattern, regex_options())
    except re2.error as error:
        raise _refused_by_re2(error) from None
    size = max(compiled.programsize, compiled.reverseprogramsize)
    if size > REGEX_PROGRAM_MAX:
        raise _too_large(f"{size} steps, {REGEX_PROGRAM_MAX} are allowed")
    return compiled


def regex_search(pattern: str, text: str) -> bool:
    """The definition of RLIKE: does the pattern match anywhere in the text?"""
    return compile_regex(pattern).search(text) is not None


def _refused_by_re2(error: Exception) -> RegexError:
    detail = error.args[0] if error.args else "unknown reason"
    if isinstance(detail, bytes):
        detail = detail.decode("utf-8", errors="replace")
    if "too large" in detail:
        return _too_large(f"more than {REGEX_PROGRAM_MAX} steps")
    return RegexError(
        f"not a valid regular expression: {_on_one_line(detail)}", hint="RLIKE takes RE2 syntax"
    )


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _too_large(size: str) -> RegexError:
    return RegexError(
        f"the regular expression is too large once compiled: {size}",
        hint="use smaller or fewer counted repetitions {m,n}",
    )


_ESCAPES = frozenset("dDwWsSbBAztnrfa")
_ESCAPES_IN_CLASS = _ESCAPES - frozenset("bBAz")
_PUNCTUATION = frozenset(string.punctuation + " ")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HEX = re.compile(r"x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,6}\})")
_CATEGORY = re.compile(r"[pP](?:[LMNPSZC]|\{[LMNPSZC][a-z]?\})")
_REPETITION = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_GROUP_OPENING = re.compile(r"\?(?::|P?<[A-Za-z][A-Za-z0-9]*>|(?:[ism]+(?:-[ism]+)?|-[ism]+)[:)])")
_GROUPS_REFUSED = (  # first match names the construct
    ("?=", "lookahead (?=...)"),
    ("?!", "negative lookahead (?!...)"),
    ("?<=", "lookbehind (?<=...)"),
    ("?<!", "negative lookbehind (?<!...)"),
    ("?>", "an atomic group (?>...)"),
    ("?P=", "a backreference (?P=...)"),
    ("?#", "a comment (?#...)"),
)


class _Scanner:
    """One pass over the pattern that lets through only the allow-list; RE2 judges the rest.

    Structure (balanced parentheses, an operand before each repetition, sensible ranges) is left to
    RE2's parser: what it must never see is a construct that we do not want to promise.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def scan(self) -> None:
        surrogate = _SURROGATE.search(self.pattern)
        if surrogate is not None:
            raise RegexError("half a surrogate pair is not a character", position=surrogate.start())
        while self.position < len(self.pattern):
            match self.pattern[self.position]:
                case "\\":
                    self._escape(_ESCAPES)
                case "[":
                    self._class()
                case "(":
                    self._group()
                case "*" | "+" | "?" | "{":
                    self._repetition()
                case _:
                    self.position += 1

    def _refuse(self, what: str, hint: str) -> RegexError:
        return RegexError(f"{what} is not supported in RLIKE", position=self.position, hint=hint)

    def _escape(self, letters: frozenset[str]) -> None:
        escaped = self.pattern[self.position + 1 : self.position + 2]
        if not escaped:
            raise RegexError(
                "the regular expression ends with a backslash",
                position=self.position,
                hint="write \\\\ for the character itself",
            )
        if escaped in letters or escaped in _PUNCTUATION:
            self.position += 2
            return
        longer = _HEX.match(self.pattern, self.position + 1) or _CATEGORY.match(
            self.pattern, self.position + 1
        )
        if longer is None:
            what = (
                f"a backreference \\{escaped}"
                if escaped in "123456789"
                else f"\\{_on_one_line(escaped)}"
            )
            raise self._refuse(
                what, "see the list of supported escapes: \\d \\w \\s \\b \\p{L} ..."
            )
        self.position = longer.end()

    def _class(self) -> None:
        opening = self.position
        self.position += 1
        if self.pattern.startswith("^", self.position):
            self.position += 1
        if self.pattern.startswith("]", self.position):
            raise self._refuse("a class that starts with ]", "write \\] for the character itself")
        while self.position < len(self.pattern):
            match self.pattern[self.position]:
                case "]":
                    self.position += 1
                    return
                case "\\":
                    self._escape(_ESCAPES_IN_CLASS)
                case "[":
                    raise self._refuse("[ inside a class", "write \\[ for the character itself")
                case "&" if self.pattern.startswith("&&", self.position):
                    raise self._refuse("&& inside a class", "write \\& for the character itself")
                case _:
                    self.position += 1
        raise RegexError("the class is not closed", position=opening, hint="add the missing ]")

    def _group(self) -> None:
        after = self.position + 1
        if not self.pattern.startswith("?", after):
            self.position = after
            return
        opening = _GROUP_OPENING.match(self.pattern, after)
        if opening is None:
            for start, name in _GROUPS_REFUSED:
                if self.pattern.startswith(start, after):
                    raise self._refuse(name, "split the test into several predicates")
            raise self._refuse(
                f"the group or flag ({_on_one_line(self.pattern[after : after + 3])}",
                "groups are (...) (?:...) (?<name>...), flags are i, s and m",
            )
        self.position = opening.end()

    def _repetition(self) -> None:
        if self.pattern[self.position] == "{":
            counted = _REPETITION.match(self.pattern, self.position)
            if counted is None:
                raise self._refuse("{ as a plain character", "write \\{ for the character itself")
            end = counted.end()
        else:
            end = self.position + 1
        if self.pattern.startswith("?", end):
            end += 1
        self.position = end
        if self.pattern[end : end + 1] in ("*", "+", "?") or _REPETITION.match(self.pattern, end):
            kind = (
                "a possessive repetition"
                if self.pattern[end] == "+"
                else "a repetition of a repetition"
            )
            raise self._refuse(kind, "group it: (?:...)*")
