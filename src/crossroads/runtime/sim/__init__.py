"""The deterministic simulator: virtual time, links and their faults, metrics, scenarios."""

from crossroads.runtime.sim.links import Link, Network
from crossroads.runtime.sim.metrics import Metrics
from crossroads.runtime.sim.simulation import Simulation

__all__ = ["Link", "Metrics", "Network", "Simulation"]
