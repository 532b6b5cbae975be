"""The vocabulary of the mixed workload: words of product titles, and names made from syllables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def _split(text: str) -> list[str]:
    return text.split()


STYLES = _split("""
compact classic foldable wireless portable slim heavy light silent smart retro modern rugged quick
deluxe mini large double single magnetic digital analog manual electric thermal outdoor indoor
travel kids family studio garden marine alpine urban nordic vintage premium basic solid
""")

MATERIALS = _split("""
steel oak bamboo cotton linen leather ceramic glass copper brass aluminium titanium carbon rubber
silicone wool felt cork marble granite walnut beech maple nylon canvas enamel iron silver plastic
paper
""")

THINGS = _split("""
kettle teapot pan pot knife fork spoon bowl plate mug bottle flask jar basket lamp lantern torch
candle chair stool bench table desk shelf drawer mirror clock radio speaker headphones keyboard
mouse monitor camera tripod lens drone phone charger cable adapter battery router printer scanner
tent backpack suitcase wallet belt jacket coat shirt scarf gloves boots sandals umbrella blanket
pillow mattress towel curtain carpet hammer saw drill wrench ladder rope shovel rake hose bicycle
helmet skateboard kayak paddle racket football puzzle guitar violin drum easel brush notebook pen
""")

PLACES = ("home", "garden", "hobby", "office")

TLDS = ("com", "de", "fr", "it", "nl", "pl", "co.uk", "org", "net", "shop")
TLD_SHARES = (0.34, 0.16, 0.1, 0.08, 0.07, 0.06, 0.07, 0.04, 0.04, 0.04)

ONSETS = _split("b br c ch d dr f fl g gr h j k kr l m n p pr qu r s sh sk st t tr v w z")
VOWELS = _split("a e i o u ai ea io oo")
ENDS = ["", *_split("n r l s x m nd rt ck th")]


def names(rng: np.random.Generator, size: int) -> list[str]:
    """Distinct lower-case names such as `braino` or `skeavix`: two or three syllables."""
    found: dict[str, None] = {}  # a dict keeps the order of drawing, a set would not
    while len(found) < size:
        count = size - len(found)
        onsets = rng.integers(len(ONSETS), size=(count, 3))
        vowels = rng.integers(len(VOWELS), size=(count, 3))
        ends = rng.integers(len(ENDS), size=count)
        syllables = rng.integers(2, 4, size=count)
        for row in range(count):
            body = (
                ONSETS[onsets[row, at]] + VOWELS[vowels[row, at]] for at in range(syllables[row])
            )
            found["".join(body) + ENDS[ends[row]]] = None
    return list(found)


def pick(words: pa.Array, at: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """The words at these places."""
    return words.take(pa.array(at))
