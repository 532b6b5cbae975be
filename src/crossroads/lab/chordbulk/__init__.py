"""Counting what a quiet Chord ring does, for networks and workloads too large to run node by node.

Nothing here decides how Chord works: the nodes of `crossroads.overlay.chord` do. These loops repeat
their decisions on arrays (who knows whom, where a message goes next, how an m-cast splits) and
count messages. Tests run both on small networks and compare message for message.
"""
