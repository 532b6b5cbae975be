"""Prefixes and zones, on the examples of PUB-2-SUB."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from crossroads.keyspace import (
    Prefix,
    designated,
    in_zone,
    meets,
    newcomer,
    prefixes_of_range,
    zone,
)


def prefixes(*texts: str) -> list[Prefix]:
    return [Prefix.of(text) for text in texts]


def test_P1_addresses_follow_the_order_of_arrival():
    """Fig. 1: the children of the root are 2, 3, 4; node 18 is the third child of node 8."""
    found: list[Prefix] = []
    for _ in range(3):
        found.append(newcomer(Prefix.of(""), found))
    assert [str(one) for one in found] == ["1", "01", "001"]
    node_8, below_8 = Prefix.of("011"), prefixes("0111", "01101")
    assert str(newcomer(node_8, below_8)) == "011001"


def test_P1_the_zone_of_node_11():
    """'00101' itself, '001010', and all strings that begin with '0010100'."""
    node_11, children = Prefix.of("00101"), prefixes("001011", "0010101")
    strings = ["".join(bits) for length in range(10) for bits in product("01", repeat=length)]
    owned = [text for text in strings if in_zone(Prefix.of(text), node_11, children)]
    assert owned == [
        text for text in strings if text in ("00101", "001010") or text.startswith("0010100")
    ]
    assert zone(node_11, children, 7) == [(0b0010100, 0b0010101)]


def test_P2_the_newcomer_takes_the_shortest_free_address():
    taken = prefixes("10011", "100101", "10010001")
    assert str(newcomer(Prefix.of("1001"), taken)) == "1001001"


def test_P3_the_zones_that_a_query_meets():
    """Fig. 2, k = 7: Q = ['0110001', '0110101'] is stored at nodes 8, 17 and 18, nowhere else."""
    tree = {
        "": ["1", "01", "001"],
        "1": [], "01": ["011"], "001": ["00101"], "00101": [],
        "011": ["0111", "01101", "011001"],
        "0111": [], "01101": [], "011001": [],
    }  # fmt: skip
    low, end = 0b0110001, 0b0110101 + 1
    storing = {
        address
        for address, children in tree.items()
        if meets(zone(Prefix.of(address), prefixes(*children), 7), low, end)
    }
    assert storing == {"011", "01101", "011001"}  # nodes 8, 17, 18
    owners = {
        f"{key:07b}": str(designated(Prefix(key, 7), prefixes(*tree))) for key in range(low, end)
    }
    assert owners == {
        "0110001": "011", "0110010": "011001", "0110011": "011001",
        "0110100": "01101", "0110101": "01101",
    }  # fmt: skip


def test_the_zones_of_a_tree_share_the_keys_out():
    """Property 1 of the document with "= ∅" (ERRATA 6), and property 2."""
    tree = {"": ["1", "01"], "1": ["11"], "01": [], "11": ["111", "1101"], "111": [], "1101": []}
    owned = [
        key
        for address, children in tree.items()
        for low, end in zone(Prefix.of(address), prefixes(*children), 6)
        for key in range(low, end)
    ]
    assert sorted(owned) == list(range(64))


@given(st.integers(0, 10).flatmap(
    lambda bits: st.tuples(st.just(bits), st.integers(0, 1 << bits), st.integers(0, 1 << bits))
))  # fmt: skip
def test_a_range_is_the_fewest_prefixes(drawn):
    bits, *ends = drawn
    low, end = sorted(ends)
    found = list(prefixes_of_range(low, end, bits))
    assert [key for one in found for key in range(*one.range(bits))] == list(range(low, end))
    # Fewest: no two of them are halves of one, and each is as long as it must be.
    for one in found:
        if one.length:
            wider = Prefix(one.value >> 1, one.length - 1).range(bits)
            assert not (low <= wider[0] and wider[1] <= end)


def test_prefixes_read_and_show():
    assert str(Prefix.of("0010")) == "0010" and str(Prefix.of("")) == ""
    assert Prefix.of("01").begins(Prefix.of("0111")) and not Prefix.of("01").begins(Prefix.of("0"))
    assert Prefix.of("").range(3) == (0, 8) and Prefix.of("101").range(3) == (5, 6)
