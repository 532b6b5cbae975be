"""Workloads and experiments of the documents."""
