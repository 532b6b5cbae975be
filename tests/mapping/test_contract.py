"""Every mapping keeps the contract, fitted to anything."""

from __future__ import annotations

import pytest

from crossroads.mapping.fit import MAPPINGS, fit
from crossroads.testing import check_mapping


@pytest.mark.parametrize("name", MAPPINGS)
def test_the_contract(name):
    check_mapping(lambda schema, sample: fit(name, schema, sample))
