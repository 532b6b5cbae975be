"""Whole nodes: CB-pub/sub on Chord."""

from __future__ import annotations

from crossroads.node import Dice
from crossroads.overlay.chord import Chord, ChordConfig, Peer
from crossroads.overlay.chord.state import RingState
from crossroads.scheme.cbps.config import CbpsConfig
from crossroads.scheme.cbps.layer import Cbps
from crossroads.scheme.cbps.vocabulary import Vocabulary
from crossroads.scheme.stack import StackedNode


def on_chord(
    me: Peer,
    vocabulary: Vocabulary,
    dice: Dice,
    *,
    chord: ChordConfig,
    config: CbpsConfig,
    state: RingState | None = None,
) -> StackedNode:
    """`state`: of a member, for rings that are built at once (`overlay.chord.build`)."""
    assert vocabulary.ring == chord.ring, "mapping and ring need keys of the same length"
    overlay = Chord(me, chord, dice, state=state)
    return StackedNode(overlay, Cbps(overlay, me.id, vocabulary, config, dice))
