"""Runs, packed codes and dictionaries: the loops against readers of a few lines each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossroads.pipeline import hybrid


def unpacked(data: bytes, width: int, count: int) -> list[int]:
    """All bits are one number, the first code lowest."""
    number = int.from_bytes(data, "little")
    return [number >> width * at & (1 << width) - 1 for at in range(count)]


@given(st.integers(1, 32), st.data())
def test_packing_at_every_width(width: int, data: st.DataObject) -> None:
    top = min(2**width, 2**31) - 1  # codes are int32
    codes = data.draw(st.lists(st.integers(0, top) | st.just(top), max_size=70))
    size = hybrid.packed_bytes(len(codes), width)
    out = np.full(size // 4 + 2, 0xFFFFFFFF, np.uint32)
    hybrid.pack(np.array(codes, np.int32), width, out)
    filled = [*codes, *[0] * (-len(codes) % 8)]
    assert size * 8 == len(filled) * width
    assert unpacked(out.tobytes()[:size], width, len(filled)) == filled


def test_the_example_of_the_format() -> None:
    """The numbers 0 to 7 in three bits each, from its description of the encoding."""
    out = np.zeros(2, np.uint32)
    hybrid.pack(np.arange(8, dtype=np.int32), 3, out)
    assert out.tobytes()[:3] == bytes([0b10001000, 0b11000110, 0b11111010])


@pytest.mark.parametrize(("size", "width"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_the_width_of_a_dictionary(size: int, width: int) -> None:
    assert hybrid.width_of(size) == width


@given(
    st.lists(st.integers(1, 2**31 - 1) | st.integers(1, 200), max_size=20),
    st.integers(0, 2**24),
)
def test_runs(counts: list[int], first: int) -> None:
    width = hybrid.width_of(first + len(counts))
    code_bytes = (width + 7) // 8
    out = np.zeros(len(counts) * (hybrid.RUN_HEAD_BYTES_MAX + code_bytes), np.uint8)
    size = hybrid.write_runs(np.array(counts, np.int64), first, width, out)
    at, found = 0, []
    while at < size:
        head = shift = 0
        while out[at] >= 0x80:
            head |= (int(out[at]) & 0x7F) << shift
            shift, at = shift + 7, at + 1
        head |= int(out[at]) << shift
        code = int.from_bytes(out[at + 1 : at + 1 + code_bytes].tobytes(), "little")
        at += 1 + code_bytes
        assert head & 1 == 0
        found.append((code, head >> 1))
    assert found == [(first + at, count) for at, count in enumerate(counts)]


@given(st.lists(st.text(max_size=300), min_size=1, max_size=20), st.data())
def test_texts(texts: list[str], data: st.DataObject) -> None:
    raw = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, raw)])
    chosen = np.array(data.draw(st.lists(st.integers(0, len(raw) - 1))), np.int32)
    out = np.zeros(hybrid.texts_bytes(offsets, chosen), np.uint8)
    hybrid.write_texts(offsets, np.frombuffer(b"".join(raw), np.uint8), chosen, out)
    expected = [len(raw[at]).to_bytes(4, "little") + raw[at] for at in chosen.tolist()]
    assert out.tobytes() == b"".join(expected)


@given(st.lists(st.integers(0, 30)))
def test_renumbering_is_unique_and_leaves_the_table_as_it_was(listed: list[int]) -> None:
    codes = np.array(listed, np.int32)
    place = np.full(31, -1, np.int32)
    used = hybrid.gather_distinct(codes, place)
    assert used.tolist() == list(dict.fromkeys(listed))
    used.sort()
    found = hybrid.renumber(codes, used, place)
    expected, places = np.unique(codes, return_inverse=True)
    assert (used.tolist(), found.tolist()) == (expected.tolist(), places.tolist())
    assert (place == -1).all()
    assert hybrid.gather(used, found).tolist() == listed
