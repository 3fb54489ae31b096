"""The size gate: the bytes of the compiled code."""
