"""Which files make a stage, read from the files themselves: no compiler is asked."""
