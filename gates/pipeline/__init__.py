"""One run, from a task to its run directory."""
