"""Packed runs: one .zip file holds a run directory or a sweep's folder, and gives it back bit for bit."""
