"""Crossroads: every match between subscriptions and events."""

__version__ = "0.1.0"
