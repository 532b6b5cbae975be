"""The stated hash is splitmix64's, alone and compiled."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.mapping.mixing import mix, mix_64


def test_known_values():
    """The first outputs of splitmix64 from the states 0 and 1."""
    assert mix(0) == 0xE220A8397B1DCDAF
    assert mix(1) == 0x910A2DEC89025CC1


@given(st.integers(0, 2**64 - 1))
def test_compiled_and_plain_agree(number):
    assert int(mix_64(np.uint64(number))) == mix(number)
