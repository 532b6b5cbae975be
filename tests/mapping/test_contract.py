"""Every mapping keeps the contract, fitted to anything; and whoever breaks it is found out."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from tests.mapping import planted

from crossroads.mapping.fit import MAPPINGS, fit
from crossroads.model.schema import Schema
from crossroads.testing import check_mapping


@pytest.mark.parametrize("name", MAPPINGS)
def test_the_contract(name):
    check_mapping(lambda schema, sample: fit(name, schema, sample))


NUMBERS = {"type": "int", "min": 0, "max": 99}
SCHEMA = Schema.from_mapping(
    {"name": "planted", "id": "k", "attributes": {"k": "bigint", "x": NUMBERS, "y": NUMBERS}}
)
TEXTS = [
    "x BETWEEN 3 AND 7",
    "x = 5 OR x IS NULL",
    "x IS NULL AND y = 2",
    "TRUE",
    "x > 5 AND x < 3",
]
EVENTS = [{"k": k, "x": x, "y": y} for k, (x, y) in enumerate([(7, 2), (4, 5), (None, 2), (99, 9)])]

# The mapping that each would be, and what is said of it.
MISTAKES = {
    planted.WithoutNull: ("attribute-split", "but they share no key"),
    planted.WithoutTheLastKey: ("attribute-split", "but they share no key"),
    planted.RootAndRanges: ("attribute-split", "what stands at the root has no ranges besides"),
    planted.TwiceTheStride: ("attribute-split", "a key off the stride"),
    planted.BeyondTheKeys: ("attribute-split", "a key outside the key space"),
    planted.NotOfItsSpec: ("attribute-split", "made again from its spec, a mapping has other keys"),
    planted.PythonsHash: ("attribute-split", "other keys in another process"),
    planted.OtherColumnsOfEvents: ("attribute-split", "columns: other keys of event"),
    planted.OtherColumnsOfSubscriptions: ("attribute-split", "columns: others stand at the root"),
    planted.SaidToHaveOneKey: ("selective-attribute", "one_key, but an event has 2 keys"),
    planted.Descending: ("selective-attribute", "keys of an event must ascend"),
}
# One takes a process to find, and drawn events rarely lie at odd places within a range.
ON_GIVEN_DATA_ONLY = {planted.PythonsHash, planted.TwiceTheStride}
OPTIONS = {"attribute-split": {"attributes": ["x"], "hash": "identity"}, "selective-attribute": {}}


def made(kind, name):
    mapping = kind(fit(name, SCHEMA, bits=40, **OPTIONS[name]).spec, SCHEMA)
    if kind is planted.NotOfItsSpec:
        mapping.moved = 5
    return mapping


def test_what_was_planted_in_is_right_by_itself():
    check_mapping(made(planted.ByOne, "attribute-split"), TEXTS, EVENTS, another_process=False)


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_found_on_given_data(kind):
    name, said = MISTAKES[kind]
    with pytest.raises(AssertionError, match=said):
        check_mapping(made(kind, name), TEXTS, EVENTS)


@pytest.fixture
def first_failure():
    """Hypothesis takes the first failing example as it is: found is found, however large."""
    before = settings.get_current_profile_name()
    settings.register_profile(
        "first failure",
        settings.get_profile(before),
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        max_examples=100,
    )
    settings.load_profile("first failure")
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("first_failure")
@pytest.mark.parametrize("kind", [kind for kind in MISTAKES if kind not in ON_GIVEN_DATA_ONLY])
def test_a_mistake_is_found_on_drawn_data(kind):
    name, _ = MISTAKES[kind]

    def make(schema, sample):
        mapping = kind(fit(name, schema, sample, bits=40).spec, schema)
        if kind is planted.NotOfItsSpec:
            mapping.moved = 5
        return mapping

    with pytest.raises(AssertionError):
        check_mapping(make, another_process=False)


def test_what_would_not_be_looked_at_is_refused():
    mapping = made(planted.ByOne, "attribute-split")
    for given in ({"filter_texts": TEXTS}, {"events": EVENTS}):
        with pytest.raises(TypeError, match="give filters and events, or neither"):
            check_mapping(mapping, **given)
    with pytest.raises(TypeError, match="not for a function that fits one"):
        check_mapping(lambda schema, sample: mapping, TEXTS, EVENTS)
