"""Read finished runs and say something about them: how two compare, and what may be merged."""
