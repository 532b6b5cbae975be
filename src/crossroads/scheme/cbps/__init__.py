"""CHORD's system: content-based publish/subscribe over a ring of keys, by any mapping.

`layer` the whole · `subscriber`, `inbox`, `publisher` the clients' sides · `rendezvous` where they
meet · `notifier` telling, buffering, collecting · `store` subscriptions · `replication` copies and
repair · `handover` changes of ownership · `remapping`, `specs` a mapping replaced · `hotspots`
where help is needed · `vocabulary` schema, mapping, matching · `build` whole nodes · `quiet` what
goes on for ever · `config`, `faults`, `planted`
"""

from crossroads.scheme.cbps.build import on_chord
from crossroads.scheme.cbps.config import AS_IN_CHORD, CbpsConfig
from crossroads.scheme.cbps.layer import Cbps
from crossroads.scheme.cbps.remapping import Remap
from crossroads.scheme.cbps.vocabulary import Vocabulary

__all__ = ["AS_IN_CHORD", "Cbps", "CbpsConfig", "Remap", "Vocabulary", "on_chord"]
