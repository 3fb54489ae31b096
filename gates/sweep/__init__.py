"""The sweep over a task's toggles: which variant keeps its budget, is right, and is fastest.

``variants`` and ``halving`` are pure; ``work`` is what a worker does; ``cluster`` is the only module that knows
Dask; ``schedule`` joins them and keeps ``record`` on disk, so that an interrupted sweep goes on; ``verify``
checks it from its files.
"""
