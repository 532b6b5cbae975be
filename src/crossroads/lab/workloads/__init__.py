"""Seeded workloads: what the documents fed to their systems, at any size.

Each function describes a workload without drawing anything yet; the `Workload` it returns draws
events and subscriptions block by block, so that memory does not grow with the size asked for.

>>> from crossroads.lab.workloads import stocks
>>> workload = stocks(seed=7, events=1000, subscriptions=50)
>>> workload.events().num_rows, workload.subscriptions().column_names
(1000, ['id', 'subscriber', 'filter'])
"""

from crossroads.lab.workloads.mixed import mixed
from crossroads.lab.workloads.stocks import stocks
from crossroads.lab.workloads.uniform import uniform
from crossroads.lab.workloads.workload import Template, TypedTemplate, Workload, render
from crossroads.lab.workloads.write import FORMATS, Written, write_workload

__all__ = [
    "FORMATS",
    "Template",
    "TypedTemplate",
    "Workload",
    "Written",
    "mixed",
    "render",
    "stocks",
    "uniform",
    "write_workload",
]
