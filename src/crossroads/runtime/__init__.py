"""The two ways of carrying out the effects of nodes: simulated, and live."""
