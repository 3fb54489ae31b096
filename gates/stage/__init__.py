"""Find the files that make a stage, by reading them, without a compiler."""
