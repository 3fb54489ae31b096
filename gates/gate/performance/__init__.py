"""The performance gate: faster than the baseline, beyond doubt."""
