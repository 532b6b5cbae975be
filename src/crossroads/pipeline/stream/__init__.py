"""The match job on a stream: the same stages, batch after batch, each pair told once."""
