"""A search over candidates of a task: proposed, evaluated, the best kept as parents, generation by generation.

``record``, ``strategies`` and ``patches`` are pure; ``proposers`` make candidates; ``work`` is what a worker of the sweep's cluster does;
``search`` joins them and keeps ``evolution.json`` on disk; ``verify`` checks it from its files.
"""
