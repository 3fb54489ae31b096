"""The correctness gate: the right numbers, every time."""
