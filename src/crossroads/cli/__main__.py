"""`python -m crossroads.cli`: the same as the `crossroads` command."""

from crossroads.cli.main import run

run()
