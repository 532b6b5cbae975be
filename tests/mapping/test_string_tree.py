"""`string-tree` as a mapping: the law, alone = in bulk, what is fitted to a sample, refusals."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossroads.errors import UsageError
from crossroads.mapping.axes import hashed_axis, linear_axis, text_axis
from crossroads.mapping.boxtable import boxes_of_table
from crossroads.mapping.positions import positions_of
from crossroads.mapping.spec import MappingSpec
from crossroads.mapping.string_tree import BITS, StringTree
from crossroads.mapping.tnodes import Tnode
from crossroads.model.atoms import Dimension
from crossroads.model.parse import parse
from crossroads.model.schema import Schema
from crossroads.model.shapes import read_filters
from crossroads.model.types import BIGINT, INT, STRING
from crossroads.testing.axes import axes
from crossroads.testing.mappings import check_mapping
from crossroads.testing.strategies import event_lists, event_table, filter_lists, schemas

SCHEMA = Schema.from_mapping(
    {"id": "k", "attributes": {"k": "bigint", "x": "int", "s": "string", "code": "string"}}
)
X = linear_axis("x", INT, 0, 999, 10)
CODE = hashed_axis("code", STRING, 16)
# The first 24 bits of a text, so that the digits of base 256 are its first three bytes.
FORWARDS = text_axis(Dimension("s"), STRING, 0, 2**64 - 1, 24)
BACKWARDS = text_axis(Dimension("s", True), STRING, 0, 2**64 - 1, 24)


def fitted(schema, chosen, texts, events=(), *, bits=BITS, **options):
    boxes = boxes_of_table(read_filters(pa.array(texts, pa.string()), schema), chosen)
    sample = positions_of(event_table(schema, list(events)), chosen)
    parameters = StringTree.fit_parameters(chosen, boxes, sample, **options)
    spec = MappingSpec("string-tree", schema.hash, bits, tuple(chosen), parameters)
    return StringTree(spec, schema)


@settings(max_examples=60)
@given(st.data())
def test_the_contract_on_any_axes(data):
    schema = data.draw(schemas(max_attributes=3))
    chosen = data.draw(axes(schema))
    texts = data.draw(filter_lists(schema))
    events = data.draw(event_lists(schema, min_size=1, max_size=6))
    options = {
        "base": data.draw(st.sampled_from([2, 3, 16, 256])),
        "replicas": data.draw(st.integers(1, 3)),
        "relocation": data.draw(st.booleans()),
        "slack": data.draw(st.sampled_from([0, 8])),
        "bits": data.draw(st.sampled_from([3, 40, 62])),
    }
    # Fitted to some of them: others may need levels and axes that are not in use.
    mapping = fitted(schema, chosen, texts[: data.draw(st.integers(0, 2))], events, **options)
    check_mapping(mapping, texts, events, another_process=False)


def tnodes_of(mapping, text):
    """The axis and the Tnodes of the only box of a filter."""
    boxes = boxes_of_table(read_filters(pa.array([text]), mapping.schema), mapping.spec.axes)
    (box,) = boxes.of(0)
    return mapping.core.tnodes_of(box)


def test_equality_is_the_last_tnode_of_a_path():
    mapping = fitted(SCHEMA, [X], [], base=10)
    assert tnodes_of(mapping, "x = 123") == (0, [Tnode(2, 123)])
    assert mapping.core.forests[0].path(123)[-1] == Tnode(2, 123)


def test_a_range_and_a_comparison_are_cut_into_tnodes():
    mapping = fitted(SCHEMA, [X], [], base=10, slack=0)
    assert tnodes_of(mapping, "x BETWEEN 298 AND 400") == (
        0,
        [Tnode(2, 298), Tnode(2, 299), Tnode(0, 3), Tnode(2, 400)],
    )
    assert tnodes_of(mapping, "x >= 600") == (0, [Tnode(0, n) for n in (6, 7, 8, 9)])


def test_a_prefix_and_a_suffix_are_one_tnode_each_and_containment_is_the_better_of_them():
    mapping = fitted(SCHEMA, [FORWARDS, BACKWARDS], [], base=256)
    assert tnodes_of(mapping, "startswith(s, 'ab')") == (
        0,
        [Tnode(1, int.from_bytes(b"ab", "big"))],
    )
    assert tnodes_of(mapping, "endswith(s, 'ab')") == (1, [Tnode(1, int.from_bytes(b"ba", "big"))])
    assert tnodes_of(mapping, "s LIKE 'a%bc'") == (1, [Tnode(1, int.from_bytes(b"cb", "big"))])
    assert tnodes_of(mapping, "s LIKE 'abc%d'") == (0, [Tnode(2, int.from_bytes(b"abc", "big"))])


def test_an_event_meets_its_prefixes_and_its_suffixes():
    mapping = fitted(SCHEMA, [FORWARDS, BACKWARDS], [], base=256)
    keys = set(mapping.event_keys({"k": 1, "x": 1, "s": "abcabc", "code": None}))
    for text in ("startswith(s, 'ab')", "endswith(s, 'bc')", "s LIKE 'a%c'", "s = 'abcabc'"):
        found = mapping.subscription_keys(parse(text, SCHEMA))
        assert any(key in range_ for key in keys for range_ in found.ranges), text
    for text in ("startswith(s, 'ac')", "endswith(s, 'ab')"):
        found = mapping.subscription_keys(parse(text, SCHEMA))
        assert not any(key in range_ for key in keys for range_ in found.ranges), text


# S1 of the document, as filters and events. Its digits are bits; here they are the bytes of a text.
S1 = {"SubID1": "s = '010'", "SubID2": "s = '00'", "prefix": "startswith(s, '00')"}


def s1_mapping():
    return fitted(SCHEMA, [FORWARDS], [], base=256)


def tnode(label: bytes):
    """By its label: one digit per byte, so its depth is one less than its length."""
    return Tnode(len(label) - 1, int.from_bytes(label, "big"))


def waiting_for(text):
    """Who of S1 shares a key with the event of that string."""
    mapping = s1_mapping()
    keys = mapping.event_keys({"k": 1, "x": 1, "s": text, "code": None})
    found = {name: mapping.subscription_keys(parse(asked, SCHEMA)) for name, asked in S1.items()}
    return {
        name for name, one in found.items() for key in keys if any(key in r for r in one.ranges)
    }


def test_S1_example_1_each_string_is_stored_at_the_tnode_of_its_name():
    """A text that ends early has zeros for the rest: '00' is a leaf too, and no prefix."""
    mapping = s1_mapping()
    assert tnodes_of(mapping, S1["SubID1"]) == (0, [tnode(b"010")])
    assert tnodes_of(mapping, S1["SubID2"]) == (0, [tnode(b"00\0")])
    for name in ("SubID1", "SubID2"):
        (one,) = mapping.subscription_keys(parse(S1[name], SCHEMA)).ranges
        assert one.high == one.low + 1


def test_S1_example_2_event_010_walks_to_the_tnode_where_the_equal_subscription_is():
    mapping = s1_mapping()
    path = [tnode(b"0"), tnode(b"01"), tnode(b"010")]
    keys = mapping.event_keys({"k": 1, "x": 1, "s": "010", "code": None})
    assert sorted(mapping.core.key(0, one, 0) for one in path) == list(keys)
    assert waiting_for("010") == {"SubID1"}


def test_S1_example_3_prefix_00_is_matched_by_event_001():
    """And equality with '00' is not, though '00' is on the way (ERRATA 12)."""
    assert tnodes_of(s1_mapping(), S1["prefix"]) == (0, [tnode(b"00")])
    assert waiting_for("001") == {"prefix"}
    assert waiting_for("00") == {"SubID2", "prefix"}
    assert waiting_for("011") == set()


def test_relocation_is_fitted_unless_it_is_not_wanted():
    """Without it, as in the document, equal labels of two attributes share a key."""
    other = linear_axis("k", BIGINT, 0, 999, 10)
    moved, plain = (
        fitted(SCHEMA, [X, other], [], base=10, relocation=wanted) for wanted in (True, False)
    )
    assert plain.spec.parameters["offsets"] == [0, 0]
    assert len(set(moved.spec.parameters["offsets"])) == 2
    by_x, by_k = (parse(f"{name} = 123", SCHEMA) for name in ("x", "k"))
    assert plain.subscription_keys(by_x) == plain.subscription_keys(by_k)
    assert moved.subscription_keys(by_x) != moved.subscription_keys(by_k)


def test_only_axes_and_levels_that_sampled_boxes_use_cost_an_event_a_key():
    texts = [f"code = 'c{n}' AND x >= {n}" for n in range(100)]
    events = [{"k": n, "x": n, "s": None, "code": f"c{n % 100}"} for n in range(1000)]
    mapping = fitted(SCHEMA, [X, CODE], texts, events, base=16)
    assert mapping.spec.parameters["levels"] == [[], [3]]  # all by the leaf of their code
    assert len(mapping.event_keys(events[0])) == 1
    found = mapping.subscription_keys(parse("x >= 5", SCHEMA))
    assert found.root and not found.ranges


def test_the_side_that_takes_in_fewest_sampled_events_is_chosen():
    rng = np.random.default_rng(5)
    values = rng.integers(0, 1000, 2000).tolist()
    events = [
        {"k": n, "x": x, "s": None, "code": "hot" if n % 2 else f"c{n}"}
        for n, x in enumerate(values)
    ]
    texts = ["code = 'hot' AND x BETWEEN 10 AND 60", "code = 'c4' AND x BETWEEN 10 AND 60"]
    mapping = fitted(SCHEMA, [X, CODE], texts, events)
    assert [tnodes_of(mapping, text)[0] for text in texts] == [0, 1]


@pytest.mark.parametrize("text", ["TRUE", "contains(s, 'a')", "x > 5 OR k > 3", "k = 1"])
def test_what_has_no_side_stands_at_the_root(text):
    mapping = fitted(SCHEMA, [X, CODE], [])
    found = mapping.subscription_keys(parse(text, SCHEMA))
    assert found.root and not found.ranges


def test_replicas_store_a_subscription_several_times_and_an_event_looks_once():
    one, three = (fitted(SCHEMA, [X], [], base=10, replicas=n) for n in (1, 3))
    filter_ = parse("x = 123", SCHEMA)
    event = {"k": 1, "x": 123, "s": None, "code": None}
    assert len(one.subscription_keys(filter_).ranges) == 1
    assert len(three.subscription_keys(filter_).ranges) == 3
    assert len(one.event_keys(event)) == len(three.event_keys(event)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": 1}, "base must be 2 to 65,536, not 1"),
        ({"replicas": 0}, "replicas must be 1 to 64, not 0"),
        ({"slack": -1}, "slack must be 0"),
    ],
)
def test_impossible_parameters_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        fitted(SCHEMA, [X], [], **options)
