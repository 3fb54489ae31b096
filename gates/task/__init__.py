"""A task: its task.yaml, its problem, the values of its inputs, and the files that make it."""
