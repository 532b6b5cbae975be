"""The deterministic simulator: virtual time, links and their faults, metrics, scenarios."""
