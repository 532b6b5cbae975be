"""Many patterns at once equal each pattern alone."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.matching import automaton
from crossroads.matching.automaton import ContainsAutomaton, RegexSet, _RegexGroup
from crossroads.model.regex import compile_regex, regex_search

strings = st.text(alphabet="ab\x00é😀", max_size=9)
# Short ones over few letters: they overlap, repeat, and are prefixes and suffixes of each other.
needle_lists = st.lists(st.text(alphabet="ab\x00é😀", max_size=5), max_size=25)


def buffers(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return np.frombuffer(b"".join(texts), dtype=np.uint8), offsets


def per_text(offsets: np.ndarray, ids: np.ndarray) -> list[list[int]]:
    """Sorted, not a set: a needle reported twice must show."""
    return [sorted(ids[a:b].tolist()) for a, b in pairwise(offsets)]


def contained(needles: list[bytes], texts: list[bytes]) -> list[list[int]]:
    """The definition."""
    return [[i for i, needle in enumerate(needles) if needle in text] for text in texts]


@pytest.mark.parametrize("dense_bytes", [0, 200, automaton.DENSE_BYTES_MAX])
@given(needle_list=needle_lists, text_list=st.lists(strings, max_size=8))
def test_hits_are_the_needles_contained(
    dense_bytes: int, needle_list: list[str], text_list: list[str]
) -> None:
    """With every state in the table, with some, and with the root alone."""
    needles = [needle.encode() for needle in needle_list]
    texts = [text.encode() for text in text_list]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automaton, "DENSE_BYTES_MAX", dense_bytes)
        built = ContainsAutomaton.build(needles)
    assert per_text(*built.hits(*buffers(texts))) == contained(needles, texts)


@given(st.lists(st.binary(max_size=3), max_size=40), st.lists(st.binary(max_size=30), max_size=5))
def test_any_bytes_will_do(needles: list[bytes], texts: list[bytes]) -> None:
    built = ContainsAutomaton.build(needles)
    assert per_text(*built.hits(*buffers(texts))) == contained(needles, texts)


def test_all_256_bytes_as_needles() -> None:
    needles = [bytes([byte]) for byte in range(256)]
    built = ContainsAutomaton.build(needles)
    texts = [bytes(range(256)), b"", b"\x00\xff"]
    assert per_text(*built.hits(*buffers(texts))) == contained(needles, texts)


def test_one_text_may_contain_every_needle() -> None:
    """Far more hits than the buffer has room for at first."""
    needles = [b"a" * length for length in range(300)] + [b"a"] * 300
    texts = [b"b", b"a" * 400, b"", b"a" * 20]
    built = ContainsAutomaton.build(needles)
    assert per_text(*built.hits(*buffers(texts))) == contained(needles, texts)


def test_the_empty_needle_repeated_fills_the_buffer() -> None:
    needles = [b""] * 500
    assert per_text(*ContainsAutomaton.build(needles).hits(*buffers([b"", b"x"]))) == (
        contained(needles, [b"", b"x"])
    )


def test_many_words_and_long_texts() -> None:
    dice = np.random.default_rng(7)
    needles = [bytes(dice.integers(97, 103, size)) for size in dice.integers(1, 9, 2_000)]
    texts = [bytes(dice.integers(97, 104, size)) for size in dice.integers(0, 300, 60)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automaton, "DENSE_BYTES_MAX", 4_000)
        built = ContainsAutomaton.build(needles)
    assert built.dense.shape[0] < built.label.size
    assert per_text(*built.hits(*buffers(texts))) == contained(needles, texts)


def test_saved_and_memory_mapped(tmp_path: Path) -> None:
    needles = [b"he", b"she", b"his", b"hers", b"", b"he"]
    built = ContainsAutomaton.build(needles)
    for name, array in built.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in built.arrays()}
    opened = ContainsAutomaton.from_arrays(mapped)
    texts = [b"ushers", b"", b"this"]
    assert per_text(*opened.hits(*buffers(texts))) == contained(needles, texts)
    assert opened.needle_count == len(needles)
    assert opened.nbytes == built.nbytes


def test_texts_of_a_sliced_column() -> None:
    data, offsets = buffers([b"xx", b"abc", b"b"])
    built = ContainsAutomaton.build([b"x", b"b", b"ca", b"cb"])
    assert per_text(*built.hits(data, offsets[1:])) == [[1], [1]]


def test_no_texts() -> None:
    hit_offsets, ids = ContainsAutomaton.build([b"a"]).hits(*buffers([]))
    assert hit_offsets.tolist() == [0]
    assert ids.size == 0


regexes = st.lists(
    st.sampled_from(
        ["a", "^a", "b$", "a.*b", "(?i)A", "é|b", "[^a]", "", r"\bab\b", "(a|b){2,3}", "^$", "😀",
         r"\x00", "(?s)^.$", "a{2}", r"\pL"]
    ),
    max_size=12,
)  # fmt: skip


def searched(patterns: list[str], values: list[str]) -> list[list[int]]:
    """The definition."""
    return [[i for i, p in enumerate(patterns) if regex_search(p, value)] for value in values]


@given(regexes, st.lists(strings, max_size=6))
def test_a_set_is_its_patterns_one_by_one(patterns: list[str], values: list[str]) -> None:
    assert per_text(*RegexSet(patterns).hits(values)) == searched(patterns, values)


def test_many_patterns_are_split_into_several_sets() -> None:
    patterns = [f"w{i}(x|y)*z" for i in range(3 * automaton.SET_PATTERNS_MAX + 1)]
    values = ["w1z w70xyz w192z", "w7yyyz", "", "w0q"]
    assert per_text(*RegexSet(patterns).hits(values)) == searched(patterns, values)


# Each needs about 2^100 states as a deterministic automaton.
EXPLOSIVE = [f"(a|b)*a(a|b){{{size}}}c" for size in range(100, 112)]
DICE = np.random.default_rng(11)
EXPLOSIVE_VALUES = ["".join(DICE.choice(["a", "b"], 140)) + end for end in ("c", "", "cc", "b")]


@pytest.mark.parametrize("memory_bytes", [5_000, 20_000, 60_000, automaton.SETS_MEMORY_BYTES])
def test_exact_when_the_automaton_outgrows_its_memory(memory_bytes: int) -> None:
    patterns = [*EXPLOSIVE, "c$", "^b"]
    together = RegexSet(patterns, memory_bytes=memory_bytes)
    assert per_text(*together.hits(EXPLOSIVE_VALUES)) == searched(patterns, EXPLOSIVE_VALUES)


def test_memory_decides_how_patterns_are_grouped() -> None:
    """The cases above do take different paths: alone without a set, in small sets, in one."""
    tiny, small, ample = (
        RegexSet(EXPLOSIVE, memory_bytes=memory)._groups()
        for memory in (5_000, 60_000, automaton.SETS_MEMORY_BYTES)
    )
    assert all(group.together is None for group in tiny)
    assert 1 < len(small) < len(EXPLOSIVE)
    assert len(ample) == 1


def test_a_set_that_fails_while_searching_is_not_believed() -> None:
    """RE2 answers "nothing matched" when it runs out of memory in the middle of a search.

    No pattern is known that gets there after a set was compiled, so RE2's part is played here.
    """

    class OutOfMemory:
        def Match(self, text: str | bytes) -> list[int] | None:
            return None

    group = _RegexGroup((4, 9), (compile_regex("a"), compile_regex("b")), OutOfMemory())
    assert group.matching(b"xbx") == [9]


def test_values_may_be_utf8_bytes() -> None:
    assert per_text(*RegexSet(["é$"]).hits(["é".encode(), b"e"])) == [[0], []]


def test_only_the_patterns_are_pickled() -> None:
    original = RegexSet(["a", "b+"])
    original.hits(["a"])
    copy = pickle.loads(pickle.dumps(original))
    assert copy.patterns == ("a", "b+")
    assert per_text(*copy.hits(["bb", "ab"])) == [[1], [0, 1]]
