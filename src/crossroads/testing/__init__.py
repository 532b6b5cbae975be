"""What others need to test their own parts against ours: strategies for schemas, events, filters.

Needs hypothesis, which the package itself does not: install it beside crossroads.
"""
