"""One automaton for many patterns at once: substrings (ContainsAutomaton) and RLIKE (RegexSet).

Substrings: which of N needles does each text contain?
Aho and Corasick's automaton over UTF-8 bytes (a needle is contained in a text exactly when its
bytes are, because UTF-8 never mistakes the middle of a character for its beginning).

Layout. States are the nodes of the trie of all needles, numbered breadth-first, so that
  - the children of a state are consecutive states in the order of their bytes: the trie needs only
    the first child and the byte `label` of each state (17 bytes per state with the links below);
  - a state's failure link points to a smaller number, and the small numbers are the shallow, hot
    states. Those, as many as fit into DENSE_BYTES_MAX, also have a row in a table that answers
    every byte class with the next state at once. Deeper states search their few children and
    follow failure links until a child or a dense state is reached: amortised constant per byte.
So memory is bounded by 17 bytes per needle byte plus DENSE_BYTES_MAX, whatever the needles.

Needles given twice share a `word`; a word lists the ids of all its needles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import re2
from numba import njit
from numpy.typing import NDArray

from crossroads.matching.strings import Bytes, Int64s
from crossroads.model.compiled import frozen
from crossroads.model.regex import CompiledRegex, compile_regex, regex_options

Int32s = NDArray[np.int32]

# The table of the hot states: about the size of a second-level cache, where it has to live.
DENSE_BYTES_MAX = 8 << 20

# One state may be needed per byte, and the table holds twice a state in an int32.
NEEDLE_BYTES_MAX = 2**30 - 2

# Room for hits before the buffer is doubled; small, because one event is a batch too.
HITS_AT_FIRST = 64

# Patterns per RE2 set. Measured on 1,000 mixed patterns: below 32 the calls dominate, above 256 the
# joint automaton has too many states to stay in its memory; 64 to 128 is flat.
SET_PATTERNS_MAX = 64

# Memory for the automata of all sets of one RegexSet together, shared out evenly; and the bounds of
# a share: RE2's own default, and what a set needs to be of any use.
SETS_MEMORY_BYTES = 256 << 20
SET_MEMORY_BYTES_MAX = 8 << 20
SET_MEMORY_BYTES_MIN = 256 << 10

NONE = -1

# Columns of `nodes`, kept side by side because a step needs them together.
FIRST_CHILD = 0  # the children of s are FIRST_CHILD of s up to FIRST_CHILD of s + 1
FAILURE = 1  # the longest proper suffix of the state that is a state too
REPORT = 2  # nearest state on the failure path, itself included, that ends a word; never the
#             root, whose empty word belongs to every text
WORD = 3  # the word that ends here, or NONE


@dataclass(frozen=True, slots=True, eq=False)
class ContainsAutomaton:
    """Immutable; any number of threads may match with it. Arrays may be read-only memory maps."""

    nodes: Int32s  # (states + 1, 4): the columns named above; the last row closes FIRST_CHILD
    label: Bytes  # (states): the byte that leads from the parent to the state
    byte_class: Bytes  # (256): 0 for bytes of no needle; needles use the other classes
    dense: Int32s  # (dense states, classes): 2 * next state + whether it reports
    word_offsets: Int32s  # (words + 1): ids of word w are word_ids[word_offsets[w] : ...[w + 1]]
    word_ids: Int32s

    @classmethod
    def build(cls, needles: Sequence[bytes]) -> ContainsAutomaton:
        """The automaton of the needles; a needle's id is its place in the sequence."""
        order = sorted(range(len(needles)), key=needles.__getitem__)
        words: list[bytes] = []
        word_offsets: list[int] = []
        for place, needle in enumerate(order):
            if not words or words[-1] != needles[needle]:
                words.append(needles[needle])
                word_offsets.append(place)
        word_offsets.append(len(order))
        lengths = np.array([len(word) for word in words], dtype=np.int64)
        offsets = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] > NEEDLE_BYTES_MAX:
            raise ValueError(f"needles of {offsets[-1]} bytes; at most {NEEDLE_BYTES_MAX} fit")
        data = np.frombuffer(b"".join(words), dtype=np.uint8)

        nodes, label = _trie(data, offsets)
        byte_class, classes = _byte_classes(data)
        rows = min(label.size, max(1, DENSE_BYTES_MAX // (4 * classes)))
        dense = np.zeros((rows, classes), dtype=np.int32)
        _links(nodes, label, byte_class, dense)
        _flag_reports(nodes, dense)
        return cls(
            nodes=frozen(nodes),
            label=frozen(label),
            byte_class=frozen(byte_class),
            dense=frozen(dense),
            word_offsets=frozen(np.array(word_offsets, dtype=np.int32)),
            word_ids=frozen(np.array(order, dtype=np.int32)),
        )

    @property
    def needle_count(self) -> int:
        return int(self.word_ids.size)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What to save."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ContainsAutomaton:
        """The automaton that `arrays` came from; nothing is copied."""
        return cls(**{field.name: frozen(arrays[field.name]) for field in fields(cls)})

    def hits(self, data: Bytes, offsets: Int32s | Int64s) -> tuple[Int64s, Int32s]:
        """Per text the distinct ids of the needles it contains: (hit_offsets, needle_ids).

        Text i is data[offsets[i] : offsets[i + 1]], as in an Arrow string array; the ids of text i
        are needle_ids[hit_offsets[i] : hit_offsets[i + 1]], in no particular order.
        """
        texts = offsets.size - 1
        data, starts = frozen(data), frozen(offsets.astype(np.int64, copy=False))
        seen_in = np.zeros(self.word_offsets.size, dtype=np.int64)
        hit_offsets = np.zeros(texts + 1, dtype=np.int64)
        ids = np.empty(max(texts, HITS_AT_FIRST), dtype=np.int32)
        done = 0
        while True:
            done = _scan(
                data,
                starts,
                self.nodes,
                self.label,
                self.byte_class,
                self.dense,
                self.word_offsets,
                self.word_ids,
                seen_in,
                done,
                hit_offsets,
                ids,
            )
            if done == texts:
                return hit_offsets, ids[: hit_offsets[texts]]
            # The text that did not fit is scanned again from its beginning, with nothing seen.
            seen_in.fill(0)
            ids = np.concatenate((ids, np.empty(ids.size, dtype=np.int32)))


class _Set(Protocol):
    """The part of `re2.Set` that we use."""

    def Match(self, text: str | bytes) -> list[int] | None: ...  # noqa: N802 - RE2's name


@dataclass(frozen=True, slots=True)
class _RegexGroup:
    """Some patterns with their joint automaton, or without one where it does not fit."""

    ids: tuple[int, ...]
    alone: tuple[CompiledRegex, ...]
    together: _Set | None

    def matching(self, text: bytes) -> list[int]:
        found = self.together.Match(text) if self.together is not None else None
        if found is None:
            # Out of memory: RE2's answer is then "no match", which only the sentinel tells from a
            # true one. A single pattern cannot fail, RE2 has a slower engine without automaton.
            return [i for i, regex in zip(self.ids, self.alone, strict=True) if regex.search(text)]
        return [self.ids[place] for place in found if place < len(self.ids)]


def _regex_groups(numbered: list[tuple[int, str]], memory_bytes: int) -> list[_RegexGroup]:
    """One group if its automaton fits into the memory, else those of the two halves."""
    together = re2.Set.SearchSet(regex_options(memory_bytes))
    for _, pattern in numbered:
        together.Add(pattern)
    together.Add("")  # the sentinel: matches every text, so an empty answer is never true
    try:
        together.Compile()
    except re2.error:
        if len(numbered) > 1:
            middle = len(numbered) // 2
            return [
                *_regex_groups(numbered[:middle], memory_bytes),
                *_regex_groups(numbered[middle:], memory_bytes),
            ]
        together = None
    ids, patterns = zip(*numbered, strict=True)
    return [_RegexGroup(ids, tuple(map(compile_regex, patterns)), together)]


class RegexSet:
    """Many RLIKE patterns searched together by RE2; equals one-by-one search on everything.

    Only the pattern texts are the state (they are what is saved and pickled); the automata are
    built at the first use. Any number of threads may match with it.
    """

    def __init__(self, patterns: Sequence[str], *, memory_bytes: int = SETS_MEMORY_BYTES) -> None:
        self.patterns = tuple(patterns)
        self.memory_bytes = memory_bytes
        self._built: list[_RegexGroup] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpickled, (self.patterns, self.memory_bytes))

    def hits(self, values: Sequence[str | bytes]) -> tuple[Int64s, Int32s]:
        """Per value the ids (places in `patterns`) of the patterns that match: (offsets, ids).

        Ids are in no particular order. `bytes` are taken as UTF-8, which saves encoding them.
        """
        groups = self._groups()
        offsets = np.zeros(len(values) + 1, dtype=np.int64)
        ids: list[int] = []
        for place, value in enumerate(values):
            text = value.encode() if isinstance(value, str) else value
            for group in groups:
                ids.extend(group.matching(text))
            offsets[place + 1] = len(ids)
        return offsets, np.array(ids, dtype=np.int32)

    def _groups(self) -> list[_RegexGroup]:
        if self._built is None:
            numbered = list(enumerate(self.patterns))
            starts = range(0, len(numbered), SET_PATTERNS_MAX)
            share = self.memory_bytes // max(1, len(starts))
            share = min(max(share, SET_MEMORY_BYTES_MIN), SET_MEMORY_BYTES_MAX, self.memory_bytes)
            self._built = [
                group
                for start in starts
                for group in _regex_groups(numbered[start : start + SET_PATTERNS_MAX], share)
            ]
        return self._built


def _unpickled(patterns: tuple[str, ...], memory_bytes: int) -> RegexSet:
    return RegexSet(patterns, memory_bytes=memory_bytes)


def _byte_classes(data: Bytes) -> tuple[Bytes, int]:
    """Bytes of no needle share class 0, all others get their own."""
    used = np.flatnonzero(np.bincount(data, minlength=256))
    byte_class = np.zeros(256, dtype=np.uint8)
    if used.size == 256:
        # No byte is left for class 0, and it must stay so: 256 classes are all a uint8 can name.
        return np.arange(256, dtype=np.uint8), 256
    byte_class[used] = np.arange(1, used.size + 1, dtype=np.uint8)
    return byte_class, int(used.size) + 1


@njit(cache=True)
def _trie(data: Bytes, offsets: Int64s) -> tuple[Int32s, Bytes]:
    """Breadth-first trie of sorted distinct words: a state is a run of words with equal prefix."""
    words = offsets.size - 1
    most = data.size + 1
    nodes = np.empty((most + 1, 4), np.int32)
    label = np.zeros(most, np.uint8)
    run_start = np.empty(most, np.int32)
    run_end = np.empty(most, np.int32)
    run_start[0], run_end[0] = 0, words
    states = 1
    state = 0
    depth = 0
    depth_end = 1  # states below this number have at most this depth
    while state < states:
        if state == depth_end:
            depth += 1
            depth_end = states
        nodes[state, FIRST_CHILD] = states
        nodes[state, FAILURE] = 0
        nodes[state, REPORT] = NONE
        nodes[state, WORD] = NONE
        position = run_start[state]
        end = run_end[state]
        if position < end and offsets[position + 1] - offsets[position] == depth:
            nodes[state, WORD] = position  # the shortest sorts first, and words are distinct
            position += 1
        while position < end:
            byte = data[offsets[position] + depth]
            start = position
            while position < end and data[offsets[position] + depth] == byte:
                position += 1
            label[states] = byte
            run_start[states], run_end[states] = start, position
            states += 1
        state += 1
    nodes[states] = NONE
    nodes[states, FIRST_CHILD] = states
    return nodes[: states + 1].copy(), label[:states].copy()


@njit(cache=True)
def _child(nodes: Int32s, label: Bytes, state: int, byte: int) -> int:
    low = nodes[np.uintp(state), FIRST_CHILD]
    end = nodes[np.uintp(state + 1), FIRST_CHILD]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if label[np.uintp(middle)] < byte:
            low = middle + 1
        else:
            high = middle
    if low < end and label[np.uintp(low)] == byte:
        return int(low)
    return NONE


@njit(cache=True)
def _links(nodes: Int32s, label: Bytes, byte_class: Bytes, dense: Int32s) -> None:
    """Fills in failure, report and `dense`. One pass: links lead to smaller states."""
    states = label.size
    for state in range(states):
        failure = nodes[state, FAILURE]
        if state > 0:
            ends_word = nodes[state, WORD] != NONE
            nodes[state, REPORT] = state if ends_word else nodes[failure, REPORT]
        for child in range(nodes[state, FIRST_CHILD], nodes[state + 1, FIRST_CHILD]):
            if state > 0:
                suffix = failure
                found = _child(nodes, label, suffix, label[child])
                while found == NONE and suffix > 0:
                    suffix = nodes[suffix, FAILURE]
                    found = _child(nodes, label, suffix, label[child])
                nodes[child, FAILURE] = max(found, 0)
        if state < dense.shape[0]:
            # A failing state does what its failure state does, whose row is complete already.
            if state > 0:
                dense[state] = dense[failure]
            for child in range(nodes[state, FIRST_CHILD], nodes[state + 1, FIRST_CHILD]):
                dense[state, byte_class[label[child]]] = child


@njit(cache=True)
def _flag_reports(nodes: Int32s, dense: Int32s) -> None:
    """Entries become 2 * state + 1 where the state reports something, else 2 * state."""
    for state in range(dense.shape[0]):
        for column in range(dense.shape[1]):
            following = dense[state, column]
            dense[state, column] = 2 * following + (nodes[following, REPORT] != NONE)


@njit(cache=True)
def _scan(
    data: Bytes,
    offsets: Int64s,
    nodes: Int32s,
    label: Bytes,
    byte_class: Bytes,
    dense: Int32s,
    word_offsets: Int32s,
    word_ids: Int32s,
    seen_in: Int64s,
    text: int,
    hit_offsets: Int64s,
    ids: Int32s,
) -> int:
    """Scans from `text` on until all are done or `ids` is full; returns the first text not done.

    `seen_in[w]` is 1 + the last text that word w was reported for. Neither calls nor growing
    arrays in here: numba would count references for every byte, ten times the cost of the step.
    Indices are unsigned so that it does not test for negative ones.
    """
    empty_word = nodes[0, WORD]
    while text < offsets.size - 1:
        count = hit_offsets[text]
        if empty_word != NONE:
            first, last = word_offsets[empty_word], word_offsets[empty_word + 1]
            if count + last - first > ids.size:
                return text
            ids[count : count + last - first] = word_ids[first:last]
            count += last - first
        state = 0
        for position in range(offsets[text], offsets[text + 1]):
            byte = data[np.uintp(position)]
            entry = NONE
            while state >= dense.shape[0]:
                low = nodes[np.uintp(state), FIRST_CHILD]
                end = nodes[np.uintp(state + 1), FIRST_CHILD]
                while low < end and label[np.uintp(low)] < byte:
                    low += 1
                if low < end and label[np.uintp(low)] == byte:
                    entry = 2 * low + 1
                    break
                state = nodes[np.uintp(state), FAILURE]
            if entry == NONE:
                entry = dense[np.uintp(state), np.uintp(byte_class[byte])]
            state = entry >> 1
            if entry & 1 == 0:
                continue
            ending = nodes[np.uintp(state), REPORT]
            # Whoever reported `ending` before in this text also reported the rest of its path.
            while ending != NONE and seen_in[nodes[ending, WORD]] != text + 1:
                word = nodes[ending, WORD]
                seen_in[word] = text + 1
                first, last = word_offsets[word], word_offsets[word + 1]
                if count + last - first > ids.size:
                    return text
                for i in range(first, last):
                    ids[np.uintp(count)] = word_ids[np.uintp(i)]
                    count += 1
                ending = nodes[nodes[ending, FAILURE], REPORT]
        text += 1
        hit_offsets[text] = count
    return text
