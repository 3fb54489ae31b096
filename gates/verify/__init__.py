"""Check that a run directory is whole and consistent."""
