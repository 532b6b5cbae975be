"""Performance as numbers: our figures, and ratios against named rivals in the same run.

    make bench            everything, about a quarter of an hour
    make bench-quick      small sizes, to see that it works; its ratios prove little

`tasks` says what is measured, `rivals` and `spark` what it is compared with, `figures` what the
numbers are held against, `report` how they are shown. Every task runs in a process of its own, on
a stated number of cores. A ratio counts only if both sides found the same number of matches.
"""
